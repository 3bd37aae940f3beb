"""The claims without a picture of their own: verdicts both ways on made-up rows, trials against direct computations."""

from __future__ import annotations

import json
import math
from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from importlib import import_module
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from made_up import made_up, made_up_scores, trial_row

from manyheads import construct, gaussian, one_hot, permutation_graph
from manyheads.cli import main
from manyheads.construct import Block, split_sources
from manyheads.meaning import meaning_id
from manyheads.paper import Row, Rows, Scale, exhibit, needed, read_rows, write_rows
from manyheads.paper.bounds_gap import bounds_of
from manyheads.paper.builds import Build
from manyheads.paper.clocks import BuildClock, SplitClock, quickest
from manyheads.paper.constructions import Rung, _needed
from manyheads.paper.contexts import attention, draw_contexts, fewest_wrong, sharpnesses
from manyheads.paper.estimate import Speed
from manyheads.paper.panel import REGULAR
from manyheads.paper.reproduce import left, measure_rows, present
from manyheads.paper.sampled import SampledContexts
from manyheads.paper.softmax_construction import Share
from manyheads.paper.trial import Trial, in_turns, one_hot_name, trainer_of
from manyheads.paper.widths import NeededWidth, limit_units, limit_wrong, smallest_width
from manyheads.sweep import LayerTrainer, Store
from manyheads.sweep.record import Meant
from manyheads.training import Run, train

QUICK = Scale(quick=True)
FINE = Scale(seeds=2, up_to=512)


def outcomes(name: str, make: Callable[[Meant], Row], scale: Scale = QUICK) -> dict[str, str]:
    module = exhibit(name)
    rows = Rows([make(run) for run in module.runs(scale)])
    return {verdict.claim: verdict.outcome for verdict in module.claims(rows, scale)}


# --- trials and who makes them


def test_ids_are_those_of_the_meaning_alone() -> None:
    clock = SplitClock("torch", "scores", 64, 64, 16, (1, 2), 3)
    assert clock.id == SplitClock("torch", "scores", 64, 64, 16, (1, 2), 3).id
    assert clock.id != replace(clock, rounds=4).id
    run = Run(64, 16, 4, 5, seed=0)
    assert meaning_id(run.meaning) == run.id  # as the store's runs have always been named


def test_clocks_come_first_and_alone() -> None:
    drawn, given = Run(64, 64, 1, 5, seed=0), Run(64, 64, 1, 5, seed=0, embedding=one_hot_name(64))
    clock = SplitClock("kernel", "training", 64, 64, 16, (1,), 1)
    turns = in_turns([drawn, given, clock])
    assert [(alone, group) for _, alone, group in turns] == [(True, [clock]), (False, [drawn]), (False, [given])]
    assert trainer_of(drawn).refusal(drawn) is None
    assert trainer_of(given).refusal(given) is None
    assert LayerTrainer().refusal(given) is not None


def test_one_hot_layers_train_on_one_hot_items() -> None:
    run = Run(32, 32, 1, 8, seed=0, embedding=one_hot_name(32), steps=300)
    ended = trainer_of(run).train(run, time_limit=None, keep_going=lambda: True)
    assert ended.scores["micro_f1"] == train(run, embedding=one_hot(32)).micro_f1


def test_estimates_count_trials() -> None:
    speed = Speed()
    few, many = (SplitClock("kernel", "training", 64, 64, 16, (1, 2), rounds) for rounds in (3, 30))
    assert 0 < speed.seconds([few]) < speed.seconds([many])
    assert speed.seconds([many], workers=8) == speed.seconds([many], workers=1)  # a clock is read alone


# --- claim 20


def test_the_quickest_round_counts() -> None:
    def sleepless(times: int) -> None:
        for _ in range(times):
            np.linalg.norm(np.arange(2_000.0))

    def twice(times: int) -> None:
        sleepless(2 * times)

    found = quickest({"once": sleepless, "twice": twice}, rounds=5)
    assert found["twice"] / found["once"] == pytest.approx(2, rel=0.6)


@pytest.mark.parametrize(("channel", "work"), [("torch", "scores"), ("torch", "training"), ("kernel", "training")])
def test_every_split_is_timed(channel: str, work: str) -> None:
    if channel == "torch":
        pytest.importorskip("torch")
    found = SplitClock(channel, work, 16, 16, 8, (1, 4, 16), 1).make()  # type: ignore[arg-type]
    assert list(found) == ["1", "4", "16"]
    assert all(value is not None and 0 < value < 1e5 for value in found.values())


def test_torch_computes_the_layers_scores() -> None:
    torch = pytest.importorskip("torch")
    from manyheads import Layer, gaussian
    from manyheads.paper.clocks import _channel, _tensors
    from manyheads.training.problem import initial_weights

    run = Run(64, 16, 4, 5, seed=0, context=8)
    rows, query, key = _tensors(run)
    expected = Layer(*initial_weights(run), 0.0).head_scores(gaussian(64, 16, seed=0)[:8])
    np.testing.assert_allclose(_channel(rows, query, key, 4).numpy(), expected, atol=1e-5)
    assert isinstance(rows, torch.Tensor)


def test_a_level_cost_reproduces_and_a_rising_one_differs() -> None:
    def rising(run: Meant) -> Row:
        assert isinstance(run, SplitClock)
        return trial_row(run, {str(heads): 100.0 + heads * (run.channel == "kernel") for heads in run.splits})

    assert outcomes("split_cost", made_up) == {"20": "reproduced"}
    assert outcomes("split_cost", rising) == {"20": "differs"}


# --- claim 21


def test_one_head_suffices_or_not() -> None:
    assert outcomes("no_compression", lambda run: made_up(run, slope=0.8, single=True)) == {"21": "reproduced"}
    assert outcomes("no_compression", lambda run: made_up(run, slope=0.8)) == {"21": "differs"}

    def wasteful(run: Meant) -> Row:
        slow = isinstance(run, Run) and run.heads == 1
        return made_up(run, slope=2.0 if slow else 0.8, single=True)

    assert outcomes("no_compression", wasteful) == {"21": "differs"}

    def refuted(run: Meant) -> Row:
        if isinstance(run, Build):
            return trial_row(run, {**made_up_scores(run), "paper": int(run.seed > 0)})
        return made_up(run, slope=0.8, single=True)

    assert outcomes("no_compression", refuted) == {"21": "differs"}


# --- claim 22


def test_bounds_are_those_of_the_formulas() -> None:
    for panel in REGULAR:
        found = bounds_of(panel)
        assert found.construction == panel.degree * 4 * 5  # m'/d = 4r heads of ⌈ln 128⌉ = 5
        assert found.proved == 128 * panel.degree
        graphs = math.comb(128 * 127, 128 * panel.degree)
        assert found.lower == pytest.approx((math.log2(graphs) / 32 - 1) / 64)


@pytest.mark.parametrize(("slope", "verdict"), [(0.46, "reproduced"), (0.9, "differs"), (0.25, "differs")])
def test_thresholds_slightly_below_the_construction(slope: float, verdict: str) -> None:
    found = outcomes("bounds_gap", lambda run: made_up(run, slope=slope, single=True), FINE)
    assert found == {"22a": verdict, "22b": "reproduced"}


# --- claim 18a


BUILDS = (
    Build("I", 32, 32, 32, 30.0, 0),
    Build("II", 32, 64, 16, 12.0, 1),
    Build("III", 32, 512, 16, 30.0, 0),
    Build("IV", 32, 64, 16, 40.0, 0, degree=2, graph="regular"),
    Build("IV", 32, 64, 16, 40.0, 0, degree=2, graph="random"),
)


@pytest.mark.parametrize("build", BUILDS, ids=lambda build: f"{build.construction}-{build.graph}")
def test_a_build_is_what_its_layer_decides(build: Build) -> None:
    graph, embedding = build.problem()
    assert graph.relations == build.relations
    layer = build.layer(graph, embedding)
    assert layer.key_width == int(np.ceil(build.constant * np.log(32)))
    scores, related = layer.scores(embedding) / layer.threshold, graph.adjacency()
    found = build.make()
    assert found["false"] == pytest.approx(scores[~related].max())
    assert found["true"] == pytest.approx(scores[related].min())
    assert found["paper"] == int((layer.recognise(embedding) == related).all())
    assert found["best"] == int(scores[~related].max() < scores[related].min())
    assert found["heads"] == layer.heads


def test_builds_that_fail_say_so() -> None:
    found = replace(BUILDS[1], constant=1.0).make()
    assert (found["paper"], found["best"]) == (0, 0)


def test_each_construction_has_to_work_somewhere() -> None:
    def without(construction: str, *, at_best: bool = False) -> Callable[[Meant], Row]:
        def row(run: Meant) -> Row:
            assert isinstance(run, Build)
            lost = {"paper": 0} if at_best else {"paper": 0, "best": 0}
            return trial_row(run, {**made_up_scores(run), **(lost if run.construction == construction else {})})

        return row

    assert outcomes("constructions", made_up) == {"18a": "reproduced"}
    for construction in ("I", "II", "III", "IV"):
        assert outcomes("constructions", without(construction)) == {"18a": "differs"}
    assert outcomes("constructions", without("II", at_best=True)) == {"18a": "differs"}


def test_a_constant_counts_only_if_all_larger_ones_work() -> None:
    rungs = [Rung(c, paper, paper, 3, 0.8, 1.2, 100) for c, paper in ((20.0, 3), (40.0, 2), (80.0, 3), (160.0, 3))]
    found = _needed(rungs, "paper")
    assert found is not None
    assert found.constant == 80
    assert _needed([*rungs, Rung(320.0, 2, 3, 3, 0.8, 1.2, 100)], "paper") is None


# --- claim 18b


@pytest.mark.parametrize(("wrong", "of"), [(0, 75), (3, 40), (20, 20), (1, 1000)])
def test_intervals_are_clopper_and_pearsons(wrong: int, of: int) -> None:
    from statsmodels.stats.proportion import proportion_confint

    assert Share(wrong, of).interval == pytest.approx(proportion_confint(wrong, of, alpha=0.05, method="beta"))


@pytest.mark.parametrize("calibration", [0, 6])
def test_sampled_contexts_are_decided_by_the_layer(calibration: int) -> None:
    trial = SampledContexts(64, 72, 32, 40, 8, 60, calibration, seed=3)
    found = trial.make()
    assert (found["scale"] == 1 and found["threshold"] == 0.5) == (calibration == 0)
    graph, embedding = permutation_graph(64, seed=3), gaussian(64, 72, seed=3)
    layer = construct.softmax(
        graph, embedding, key_width=40, seed=3, block_size=32, scale=found["scale"], threshold=found["threshold"]
    )
    rng = np.random.default_rng((3, 8))
    draw_contexts(rng, items=64, length=8, count=calibration)
    expected = Counter[str]()
    for context in draw_contexts(rng, items=64, length=8, count=60):
        related = graph.adjacency()[np.ix_(context, context)]
        wrong = (layer.recognise(embedding[context]) != related).any(axis=1)
        for kind, rows in (("present", related.any(axis=1)), ("absent", ~related.any(axis=1))):
            if rows.any():
                expected[kind] += 1
                expected[f"{kind}_wrong"] += int(wrong[rng.choice(np.flatnonzero(rows))])
        expected["wrong"] += int(wrong.any())
    assert {name: found[name] for name in expected} == expected
    # the problem is one in which every count says something
    assert 0 < expected["present_wrong"] < expected["present"] < 60
    assert 0 < expected["absent_wrong"] < expected["absent"]


def test_attention_is_the_layers_score() -> None:
    graph, embedding = permutation_graph(32, seed=0), gaussian(32, 64, seed=0)
    layer = construct.softmax(graph, embedding, key_width=25, seed=0, block_size=16)
    context = np.arange(3, 12)
    units = layer.head_scores(embedding) / 25
    np.testing.assert_allclose(attention(units, context, 5.0), layer.scores(embedding[context]), rtol=1e-12)


def test_published_contexts_decide_the_claim() -> None:
    def failing(run: Meant, *, mended: bool, share: float) -> Row:
        assert isinstance(run, SampledContexts)
        wrong = int(share * run.contexts) if bool(run.calibration) == mended else 0
        return trial_row(run, {**made_up_scores(run), "wrong": wrong})

    assert outcomes("softmax_construction", made_up) == {"18b": "reproduced"}
    assert outcomes("softmax_construction", lambda run: failing(run, mended=False, share=0.5)) == {"18b": "differs"}
    assert outcomes("softmax_construction", lambda run: failing(run, mended=True, share=1.0)) == {"18b": "reproduced"}


# --- claim 19


def test_multiply_adds_are_those_of_the_products(monkeypatch: pytest.MonkeyPatch) -> None:
    from manyheads.construct.assemble import de_embed

    counted = []

    def counting(embedding: np.ndarray, block: Block, signatures: np.ndarray) -> object:
        query, key = de_embed(embedding, block, signatures)
        counted.append(len(block[0]) * (query.size + key.size))
        return query, key

    # the package's `compressive` is the function, which hides its module
    monkeypatch.setattr(import_module("manyheads.construct.compressive"), "de_embed", counting)
    found = BuildClock(100, 80, 2.0, rounds=1).make()
    assert found["multiply_adds"] == sum(counted[: int(found["heads"] or 0)])
    assert found["heads"] == 2
    assert 0 < (found["build_seconds"] or 0) < 1


def test_the_exponent_decides() -> None:
    def power(run: Meant, exponent: float, more: int = 1) -> Row:
        assert isinstance(run, BuildClock)
        scores = made_up_scores(run)
        counted = more * int(scores["multiply_adds"] or 0)
        return trial_row(
            run, {**scores, "build_seconds": (scores["build_seconds"] or 0) ** exponent, "multiply_adds": counted}
        )

    assert outcomes("construction_cost", made_up) == {"19": "reproduced"}
    assert outcomes("construction_cost", lambda run: power(run, 1.4)) == {"19": "differs"}
    assert outcomes("construction_cost", lambda run: power(run, 1.0, more=2)) == {"19": "differs"}


# --- Sec. 5 and 8


@given(st.lists(st.integers(0, 6), max_size=8), st.lists(st.integers(0, 6), max_size=8))
def test_the_best_threshold_has_the_fewest_wrong(false: list[int], true: list[int]) -> None:
    thresholds = np.arange(-0.5, 8)
    brute = min(sum(np.array(false) > t) + sum(np.array(true) <= t) for t in thresholds)
    assert fewest_wrong(np.array(false, dtype=float), np.array(true, dtype=float)) == brute


@given(st.integers(1, 3_000), st.integers(1, 3_000))
def test_the_smallest_width_is_near(needed_width: int, most: int) -> None:
    found = smallest_width(lambda width: width >= needed_width, most=most)
    if needed_width > most:
        assert found is None
    else:
        assert found is not None
        assert needed_width <= found <= max(needed_width * 1.05, needed_width)


def test_limits_of_the_heads_are_the_constructions() -> None:
    graph, embedding = permutation_graph(40, seed=0), gaussian(40, 24, seed=0)
    blocks = split_sources(graph, size=10)
    units, related = limit_units(embedding, blocks), graph.adjacency()
    joined, expected = units.max(axis=0), construct.limit(graph, embedding, blocks).window
    assert (joined[~related].max(), joined[related].min()) == pytest.approx((expected.low, expected.high))
    wrong = fewest_wrong(joined[~related], joined[related])
    assert wrong > 0
    assert limit_wrong(graph, embedding, blocks, None) == pytest.approx(wrong / 40)


def test_a_needed_width_separates_and_much_less_does_not() -> None:
    trial = NeededWidth("max", 48, 96, 2, draws=3, max_budget=2_000, seed=1)
    width = int(trial.make()["key_width"] or 0)
    graph, embedding = permutation_graph(48, seed=1), gaussian(48, 96, seed=1)

    def windows(key_width: int) -> list[bool]:
        found = []
        for draw in range(3):
            layer = construct.compressive(graph, embedding, key_width=key_width, seed=1 + draw, block_size=24)
            scores, related = layer.scores(embedding), graph.adjacency()
            found.append(bool(scores[~related].max() < scores[related].min()))
        return found

    assert all(windows(width))
    assert not all(windows(width // 2))
    assert replace(trial, max_budget=2 * (width // 2)).make()["key_width"] is None


def test_where_the_limit_fails_no_width_is_tried() -> None:
    found = NeededWidth("max", 64, 16, 1, draws=3, max_budget=10**9, seed=0).make()
    assert found["key_width"] is None
    assert 0 < (found["limit_wrong"] or 0) <= 1


def test_softmax_needs_a_width_too() -> None:
    trial = NeededWidth("softmax", 32, 96, 2, draws=2, max_budget=2_000, seed=0, context=8, contexts=6)
    width = int(trial.make()["key_width"] or 0)
    graph, embedding = permutation_graph(32, seed=0), gaussian(32, 96, seed=0)
    contexts = draw_contexts(np.random.default_rng(0), items=32, length=8, count=6)

    def decided(key_width: int, draw: int) -> bool:
        """By one scale and one threshold, through layers of their own."""
        for beta in sharpnesses(8):
            scale = beta / np.sqrt(key_width)
            layer = construct.softmax(graph, embedding, key_width=key_width, seed=draw, block_size=16, scale=scale)
            related = [graph.adjacency()[np.ix_(context, context)] for context in contexts]
            scores = [layer.scores(embedding[context]) for context in contexts]
            low = max(found[~true].max() for found, true in zip(scores, related, strict=True))
            high = min(found[true].min(initial=np.inf) for found, true in zip(scores, related, strict=True))
            if low < high:
                return True
        return False

    assert all(decided(width, draw) for draw in range(2))
    assert not all(decided(max(1, width // 2), draw) for draw in range(2))


def test_the_caption_names_the_crossover_and_what_is_absent() -> None:
    module = exhibit("one_or_many")
    rows = Rows([made_up(run) for run in module.runs(FINE)])
    text = module.caption(rows, FINE)
    assert "several need less from m = 128 on" in text
    wide = Scale(seeds=2, up_to=1024)
    text = module.caption(Rows([made_up(run) for run in module.runs(wide)]), wide)
    assert "m = 1024: no width (3.0% of the relations wrong in the limit) with one head" in text


# --- all of it


@pytest.mark.parametrize("name", ["constructions", "softmax_construction"])
def test_what_is_left_out_is_not_judged(name: str) -> None:
    assert set(outcomes(name, made_up, Scale(up_to=64)).values()) == {"not attempted"}


def test_what_a_machine_cannot_make_stays_missing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("manyheads.paper.split_cost.SIZES", ((16, 16, 8),))
    monkeypatch.setattr("manyheads.paper.split_cost.HEADS", (1, 4))
    monkeypatch.setattr("manyheads.paper.clocks.find_spec", lambda name: None)
    with Store.write(tmp_path / "p.db") as store:
        rows = measure_rows(("split_cost",), store, QUICK)
    assert [run.channel for run in needed(("split_cost",), QUICK) if run.id in rows] == ["kernel"]
    (verdict,) = exhibit("split_cost").claims(rows, QUICK)
    assert verdict.outcome == "not attempted"


def test_the_command_makes_clocks_and_one_hot_layers(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("manyheads.paper.split_cost.SIZES", ((16, 16, 8),))
    monkeypatch.setattr("manyheads.paper.split_cost.HEADS", (1, 4))
    common = ["--quick", "--steps", "20", "--seeds", "2", "--store", str(tmp_path / "p.db"), "--out", str(tmp_path)]
    assert main(["paper", "split_cost", "no_compression", *common, "--json"]) == 0
    facts = json.loads(capsys.readouterr().out)
    assert all(one["done"] == one["runs"] for one in facts["exhibits"])
    assert {claim["claim"] for claim in facts["claims"]} == {"20", "21"}


def test_every_kind_goes_through_store_and_rows(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    small = {
        "constructions": {"PROBLEMS": (BUILDS[1],), "CONSTANTS": (1.0, 12.0)},
        "softmax_construction": {"SIZES": ((48, 64),), "MENDED_HEADS": 4, "LENGTHS": (4, 8, 12, 16)},
        "construction_cost": {"ITEMS": (80, 90, 100), "WIDTHS": {80: ("red", "o")}},
        "one_or_many": {"SIZES": (32,), "D_MODEL": 64, "HEADS": (1, 2), "CONTEXT": 8, "CONTEXTS": 4},
    }
    for name, constants in small.items():
        for constant, value in constants.items():
            monkeypatch.setattr(f"manyheads.paper.{name}.{constant}", value)
    runs = needed(tuple(small), QUICK)
    assert {type(run) for run in runs} == {Build, SampledContexts, BuildClock, NeededWidth}
    with Store.write(tmp_path / "p.db") as store:
        rows = measure_rows(tuple(small), store, QUICK)
        assert not left(tuple(small), rows, QUICK)
    for run in runs:
        (row,) = rows.of([run])
        assert run.ALONE or row.scores == run.make()
    write_rows(tmp_path / "rows.jsonl.gz", rows, runs)
    made = present(tuple(small), read_rows(tmp_path / "rows.jsonl.gz"), QUICK, tmp_path)
    assert all(one.done == one.runs > 0 and one.files for one in made.shown)
    assert [verdict.claim for verdict in made.verdicts] == ["18a", "18b", "19"]
    left_open = [verdict.claim for verdict in made.verdicts if verdict.outcome == "not attempted"]
    assert left_open == ["18a"]  # of the four constructions one was built


def test_made_up_scores_fit_every_trial() -> None:
    from manyheads.paper import CLAIMS

    trials = [run for run in needed(CLAIMS, QUICK) if isinstance(run, Trial)]
    assert trials
    assert all(made_up_scores(run) for run in trials)
