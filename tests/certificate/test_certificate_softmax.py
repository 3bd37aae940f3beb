"""The parts of the softmax certificate, each against trying every choice of items, and how they work together."""

from __future__ import annotations

from collections import Counter
from itertools import combinations
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.special import logsumexp
from support.oracles import Range, every_context, try_every_context

from manyheads import Graph, Layer, one_hot, permutation_graph
from manyheads.certificate import certify, projection
from manyheads.certificate.projection import project
from manyheads.certificate.softmax import examination as softmax
from manyheads.certificate.softmax.branching import branch_largest, branch_smallest, reach
from manyheads.certificate.softmax.examination import counted_failures
from manyheads.certificate.softmax.frontier import Frontier
from manyheads.certificate.softmax.pair_bounds import (
    PairProblems,
    extreme_sums,
    head_extremes,
    largest_scores,
    pair_problems,
    score_bounds,
    secant,
    smallest_scores,
)
from manyheads.problem.problem import Problem


def logit_layer(logits: np.ndarray, threshold: float) -> Layer:
    """A softmax layer whose logits on one-hot items are the given ones, (heads, items, items)."""
    items = logits.shape[1]
    return Layer(logits * np.sqrt(items), np.tile(np.eye(items), (len(logits), 1, 1)), threshold, "softmax")


def random_logits(heads: int, items: int, *, scale: float, seed: int) -> np.ndarray:
    return scale * np.random.default_rng(seed).standard_normal((heads, items, items))


def noisy_permutation(items: int, heads: int, *, noise: float, signal: float, seed: int) -> tuple[np.ndarray, Graph]:
    """Logits of noise alone, but for the relations of a permutation: each stands out in one head."""
    graph = permutation_graph(items, seed=seed)
    logits = random_logits(heads, items, scale=noise, seed=seed)
    logits[graph.sources % heads, graph.sources, graph.targets] += signal
    return logits, graph


def random_problem(heads: int, free: int, chosen: int, *, scale: float, seed: int) -> PairProblems:
    rng = np.random.default_rng(seed)
    base, ratios = 1 + rng.lognormal(0, scale, (heads, 1)), rng.lognormal(0, scale, (heads, 1, free))
    return PairProblems(base, ratios, 10 + np.arange(free)[None], chosen)


def all_scores(problem: PairProblems) -> dict[tuple[int, ...], float]:
    """A of every choice, by its items."""
    choices = np.array(list(combinations(range(problem.free.shape[1]), problem.chosen)), dtype=np.int64)
    scores = (1 / (problem.base + problem.ratios[:, 0, choices].sum(axis=2))).sum(axis=0)
    return {
        tuple(items): score for items, score in zip(problem.free[0, choices].tolist(), scores.tolist(), strict=True)
    }


problems = {
    "heads": st.integers(1, 4),
    "free": st.integers(0, 8),
    "share": st.floats(0, 1),
    "scale": st.sampled_from([0.3, 1.0, 3.0]),
    "seed": st.integers(0, 2**32 - 1),
}


@pytest.mark.parametrize("largest", [True, False])
@pytest.mark.parametrize("free", range(6))
def test_extreme_sums_leave_out_the_source_and_the_target(free: int, largest: bool) -> None:
    items, sources = 7, np.array([2, 5, 6])
    logits = random_logits(2, items, scale=2.0, seed=free)[:, sources]
    sums = extreme_sums(logits, sources, free, largest=largest)
    for head, row, target in np.ndindex(sums.shape):
        source = sources[row]
        count = free + 1 if target == source else free
        rivals = np.sort(np.delete(logits[head, row], [source, target]))
        expected = logsumexp(rivals[len(rivals) - count :] if largest else rivals[:count]) if count else -np.inf
        assert sums[head, row, target] == pytest.approx(expected, abs=1e-12)


@pytest.mark.parametrize("length", [2, 3, 5, 6])
@pytest.mark.parametrize("heads", [1, 3])
def test_sound_bounds_hold_and_are_exact_for_one_head(length: int, heads: int) -> None:
    logits = random_logits(heads, 6, scale=1.5, seed=length)
    layer = logit_layer(logits, 0.0)
    tried = try_every_context(layer, one_hot(6), permutation_graph(6, seed=0), (length, length))
    lower = score_bounds(logits, np.arange(6), length - 2, largest=True)
    upper = score_bounds(logits, np.arange(6), length - 2, largest=False)
    assert (lower <= tried.smallest + 1e-12).all()
    assert (upper >= tried.largest - 1e-12).all()
    if heads == 1 or length == 6:  # one head's worst context is the worst, and so is the only one there is
        np.testing.assert_allclose(lower, tried.smallest, atol=1e-12)
        np.testing.assert_allclose(upper, tried.largest, atol=1e-12)
    else:
        assert (lower < tried.smallest - 1e-3).any()


@pytest.mark.parametrize("source", range(5))
@pytest.mark.parametrize("target", range(5))
def test_a_pair_problem_is_the_layer_on_every_context(source: int, target: int) -> None:
    layer = logit_layer(random_logits(3, 5, scale=1.0, seed=0), 0.0)
    for length in range(2, 6):
        problem = pair_problems(project(layer, one_hot(5)), np.array([source]), np.array([target]), length)
        scores = all_scores(problem)
        contexts = [c for c in every_context(5, (length, length)) if source in c and target in c]
        assert len(scores) == len(contexts)
        for context in contexts:
            expected = layer.scores(one_hot(5)[list(context)])[context.index(source), context.index(target)]
            assert scores[tuple(item for item in context if item not in (source, target))] == pytest.approx(expected)


@given(**problems)
@settings(max_examples=150, deadline=None)
def test_bounds_and_finds_enclose_the_extremes(heads: int, free: int, share: float, scale: float, seed: int) -> None:
    problem = random_problem(heads, free, round(share * free), scale=scale, seed=seed)
    scores = all_scores(problem)
    smallest, largest = min(scores.values()), max(scores.values())
    below, above = smallest_scores(problem, steps=8), largest_scores(problem, steps=8)
    assert below.bounds[0] <= smallest + 1e-12
    assert above.bounds[0] >= largest - 1e-12
    for extremes in (below, above):  # what was found is a real choice with that score
        assert scores[tuple(sorted(extremes.items[0].tolist()))] == pytest.approx(extremes.found[0], abs=1e-12)
    # never worse than every head for itself
    assert below.bounds[0] >= problem.scores(head_extremes(problem, largest=True))[0] - 1e-12
    assert above.bounds[0] <= problem.scores(head_extremes(problem, largest=False))[0] + 1e-12


@given(**problems, low=st.floats(0, 1), high=st.floats(0, 1))
@settings(max_examples=100, deadline=None)
def test_a_secant_bounds_its_box(
    heads: int, free: int, share: float, scale: float, seed: int, low: float, high: float
) -> None:
    problem = random_problem(heads, free, round(share * free), scale=scale, seed=seed)
    floor, ceiling = head_extremes(problem, largest=False), head_extremes(problem, largest=True)
    box = [floor + min(low, high) * (ceiling - floor), floor + max(low, high) * (ceiling - floor)]
    bound, _ = secant(problem, *box)
    for items, score in all_scores(problem).items():
        sums = problem.sums(np.array([items], dtype=np.int64).reshape(1, -1) - 10)
        if (box[0] <= sums).all() and (sums <= box[1]).all():
            assert score <= bound[0] + 1e-12


@given(**problems, low=st.floats(0, 0.5), goal=st.floats(0, 1))
@settings(max_examples=100, deadline=None)
def test_no_choice_above_the_goal_is_out_of_reach(
    heads: int, free: int, share: float, scale: float, seed: int, low: float, goal: float
) -> None:
    problem = random_problem(heads, free, round(share * free), scale=scale, seed=seed)
    scores = all_scores(problem)
    aim = min(scores.values()) + goal * (max(scores.values()) - min(scores.values()))
    floor, ceiling = head_extremes(problem, largest=False), head_extremes(problem, largest=True)
    floor = floor + low * (ceiling - floor)
    cap = reach(problem.base, floor, ceiling, aim)
    for items, score in scores.items():
        sums = problem.sums(np.array([items], dtype=np.int64).reshape(1, -1) - 10)
        if score > aim and (floor <= sums).all():
            assert (sums <= cap * (1 + 1e-9)).all()


HARD = [random_problem(5, 12, 3, scale=4.0, seed=seed) for seed in range(20)]


def test_the_search_often_finds_the_extreme() -> None:
    found = Counter[str]()
    for problem in HARD:
        scores = all_scores(problem).values()
        found["smallest"] += abs(smallest_scores(problem, steps=8).found[0] - min(scores)) < 1e-9
        found["largest"] += abs(largest_scores(problem, steps=8).found[0] - max(scores)) < 1e-9
    assert found["smallest"] > 12
    assert found["largest"] > 10


@pytest.mark.parametrize("gap", [1e-6, 1e-3])
def test_branching_decides(gap: float) -> None:
    """Where the first bounds and the first search fail as well as where they do not."""
    failed, branched = Counter[str](), Counter[str]()
    for problem in HARD:
        scores = all_scores(problem)
        smallest, largest = min(scores.values()), max(scores.values())
        failed["smallest"] += smallest_scores(problem, steps=8).found[0] > smallest + 1e-9
        failed["largest"] += branch_largest(problem, np.inf, nodes=1).found < largest - 1e-9
        proved = branch_smallest(problem, smallest - gap, nodes=10_000)
        assert smallest - gap < proved.bound <= smallest + 1e-12
        branched["smallest"] += proved.nodes > 1
        proved = branch_largest(problem, largest + gap, nodes=10_000)
        assert largest - 1e-12 <= proved.bound < largest + gap
        branched["largest"] += proved.nodes > 1
        for decision, extreme in (
            (branch_smallest(problem, smallest + gap, nodes=10_000), smallest),
            (branch_largest(problem, largest - gap, nodes=10_000), largest),
        ):
            assert abs(decision.found - extreme) <= gap
            assert scores[tuple(sorted(decision.items))] == pytest.approx(decision.found, abs=1e-12)
    assert min(failed["smallest"], failed["largest"]) > 3
    assert min(branched["smallest"], branched["largest"]) > 5


def test_branching_stops_when_the_nodes_run_out() -> None:
    problem = random_problem(8, 20, 5, scale=1.0, seed=0)
    scores = all_scores(problem)
    largest = max(scores.values())
    stopped = branch_largest(problem, largest + 1e-4, nodes=10)
    assert stopped.nodes <= 11
    assert stopped.bound > largest + 1e-4
    assert stopped.found <= largest + 1e-12


@pytest.mark.parametrize("lengths", [(2, 2), (2, 5), (3, 4), (5, 6), (6, 6)])
@pytest.mark.parametrize(
    ("adjacency", "threshold", "verdict"),
    [
        (permutation_graph(6, seed=1).adjacency(), 0.4, "refuted"),
        (np.zeros((6, 6), bool), 1.5, "holds"),
        (np.ones((6, 6), bool), -0.5, "holds"),
    ],
    ids=["permutation", "no relation", "all"],
)
def test_a_range_is_judged_at_both_its_ends(
    lengths: Range, adjacency: np.ndarray, threshold: float, verdict: str
) -> None:
    """With one head the bounds are exact, so the window is that of every context of every length in the range."""
    sources, targets = np.nonzero(adjacency)
    graph = Graph(6, sources, targets)
    layer = logit_layer(random_logits(1, 6, scale=1.0, seed=0), threshold)
    certificate = certify(layer, Problem(graph, one_hot(6)), context_length=lengths)
    tried = try_every_context(layer, one_hot(6), graph, lengths)
    expected = tried.largest[~adjacency].max(initial=-np.inf), tried.smallest[adjacency].min(initial=np.inf)
    np.testing.assert_allclose(certificate.window, expected, atol=1e-12)
    assert certificate.verdict == verdict
    assert certificate.context_lengths == lengths
    assert np.count_nonzero(tried.wrong) == certificate.missed + certificate.false_pairs


@given(
    items=st.integers(2, 7),
    heads=st.integers(1, 3),
    density=st.floats(0, 1),
    ends=st.tuples(st.integers(2, 7), st.integers(2, 7)),
    threshold=st.floats(0, 3),
    seed=st.integers(0, 2**32 - 1),
)
@settings(max_examples=150, deadline=None)
def test_counting_finds_only_pairs_that_are_wrong(
    items: int, heads: int, density: float, ends: Range, threshold: float, seed: int
) -> None:
    lengths = (min(*ends, items), min(max(ends), items))
    adjacency = np.random.default_rng(seed).random((items, items)) < density
    sources, targets = np.nonzero(adjacency)
    graph = Graph(items, sources, targets)
    layer = logit_layer(random_logits(heads, items, scale=1.0, seed=seed), threshold)
    failures = {relation: pair for pair, relation in counted_failures(layer, Problem(graph, one_hot(items)), lengths)}
    for relation, pair in failures.items():
        context = list(dict.fromkeys([pair.source, pair.target, *pair.others]))
        assert len(context) == lengths[1 if relation else 0]
        assert adjacency[pair.source, pair.target] == relation
        score = layer.scores(one_hot(items)[context])[0, context.index(pair.target)]
        assert score == pytest.approx(pair.score, abs=1e-12)
        assert score <= threshold + 1e-12 if relation else score > threshold - 1e-12
    strangers = (~adjacency).sum(axis=1)[~adjacency.diagonal()]
    assert (False in failures) == (strangers.max(initial=0) >= lengths[0] and threshold < heads / lengths[0])
    most = np.minimum(adjacency.sum(axis=1), lengths[1] - ~adjacency.diagonal()).max()
    assert (True in failures) == bool(most and threshold >= heads / most)


def test_equal_shares_are_decided_by_counting_alone() -> None:
    """Without weights every score is h/ℓ: the bounds are exact, and every threshold is wrong about something."""
    graph = permutation_graph(6, seed=0)
    for threshold, missed, false_pairs in ((0.74, 0, 30), (0.76, 6, 0)):
        layer = logit_layer(np.zeros((3, 6, 6)), threshold)
        certificate = certify(layer, Problem(graph, one_hot(6)), context_length=4)
        assert certificate.verdict == "refuted"
        assert certificate.window == pytest.approx((0.75, 0.75))
        assert (certificate.missed, certificate.false_pairs, certificate.open_pairs) == (missed, false_pairs, 0)


def test_tighter_bounds_and_branching_prove_what_sound_bounds_cannot(monkeypatch: pytest.MonkeyPatch) -> None:
    logits, graph = noisy_permutation(40, 4, noise=0.25, signal=3.0, seed=0)
    relation, everyone = graph.adjacency(), np.arange(40)
    lower = score_bounds(logits, everyone, 8, largest=True)[relation].min()
    upper = score_bounds(logits, everyone, 8, largest=False)[~relation].max()
    assert lower < upper  # no threshold at all is within reach of the sound bounds
    branched: list[int] = []
    decide = Frontier.decide

    def counted(*arguments: Any) -> int:
        branched.append(1)
        return decide(*arguments)

    monkeypatch.setattr(Frontier, "decide", counted)
    assert certify(logit_layer(logits, 0.725), Problem(graph, one_hot(40)), context_length=10).holds
    assert not branched
    close = logit_layer(logits, 0.6962)
    assert certify(close, Problem(graph, one_hot(40)), context_length=10).holds
    assert branched
    rng = np.random.default_rng(1)
    for _ in range(2000):
        context = rng.permutation(40)[:10]
        np.testing.assert_array_equal(close.recognise(one_hot(40)[context]), relation[np.ix_(context, context)])


@pytest.mark.parametrize("allowed", ["all", "no branches", "one pair"])
def test_a_fixed_batch_is_nearly_always_decided(allowed: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """With less work allowed more stays open, but nothing said becomes untrue."""
    if allowed != "all":
        monkeypatch.setattr(softmax, "NODES", 0)
    if allowed == "one pair":
        monkeypatch.setattr(softmax, "EFFORT", 0)
        monkeypatch.setattr(projection, "BLOCK", 1)  # the other pairs come up against it a row at a time
    verdicts: Counter[str] = Counter()
    for seed in range(40):
        rng = np.random.default_rng(seed)
        logits, graph = noisy_permutation(7, 3, noise=0.3, signal=4.0, seed=seed)
        tried, relation = try_every_context(logit_layer(logits, 0.0), one_hot(7), graph, (4, 4)), graph.adjacency()
        ends = tried.largest[~relation].max(), tried.smallest[relation].min()
        # close to an end of the true window, on either side of it
        layer = logit_layer(logits, float(rng.choice(ends) + rng.choice([-1, 1]) * 10.0 ** rng.uniform(-4, -1)))
        wrong = try_every_context(layer, one_hot(7), graph, (4, 4)).wrong.any()
        certificate = certify(layer, Problem(graph, one_hot(7)), context_length=4)
        assert certificate.verdict != ("holds" if wrong else "refuted")
        assert certificate.window[0] >= ends[0] - 1e-12
        assert certificate.window[1] <= ends[1] + 1e-12
        verdicts[certificate.verdict] += 1
    assert min(verdicts["holds"], verdicts["refuted"]) > 5
    if allowed == "all":
        assert verdicts["not proved"] == 0
    else:
        assert verdicts["not proved"] > 0
