"""Claim 6a: one head is impossible, found, or possible and not found; on made-up rows and on small problems."""

from __future__ import annotations

from support.made_up import drawn, made_up, trial_row

from manyheads.papers import Rows, Scale, exhibit_named, needed, verdicts
from manyheads.papers.exhibits.base_grid import FIGURE_1, FIGURE_9
from manyheads.papers.exhibits.one_head import ONE_HEAD, OneHead, decisions
from manyheads.papers.panel import base
from manyheads.sweep.store.record import Storable

FINE = Scale(seeds=2, up_to=512)


def rows(*, held: bool | None = None, single: bool = False) -> Rows:
    """Rows of the base grid; `held` decides every trial, None leaves that to the sizes."""

    def row(run: Storable):  # type: ignore[no-untyped-def]
        if isinstance(run, OneHead) and held is not None:
            scores = {"excluded": int(not held), "held": int(held), "key_width": run.d_model if held else None}
            return trial_row(run, scores)
        return made_up(run, slope=0.9, single=single)

    return Rows([row(run) for run in needed(["single_head"], FINE)])


def test_a_problem_of_the_grid_is_decided() -> None:
    assert OneHead(64, 16, 0).make() == {"excluded": 1, "held": 0, "key_width": None}
    assert OneHead(64, 32, 0).make() == {"excluded": 0, "held": 1, "key_width": 32}


def test_the_verdict_follows_the_rows() -> None:
    def outcome(made: Rows) -> str:
        (verdict,) = verdicts(["single_head"], made, FINE)
        assert verdict.claim == "6a"
        return verdict.outcome

    assert outcome(rows(held=False)) == "reproduced"
    assert outcome(rows(held=True)) == "differs"
    assert outcome(rows(held=True, single=True)) == "not attempted"  # one head fails nowhere


def test_the_caption_has_the_points_by_their_decision() -> None:
    said = ONE_HEAD.caption(rows(), FINE)
    assert "impossible at every width, proved: (64, 16), (128, 16), (128, 32)" in said
    assert "possible, certified, but not found by training: (64, 32) with D_K = 32" in said
    assert "possible, and found by training: (64, 16), (64, 32)" in ONE_HEAD.caption(rows(held=True, single=True), FINE)
    assert len(drawn(ONE_HEAD, rows(), FINE).axes[0].texts) == 12


def test_figures_1_and_9_and_claim_6_say_whether_one_head_is_possible() -> None:
    made = rows()
    titles = [axes.get_title(loc="left") for axes in drawn(FIGURE_9, made, FINE).axes]
    assert "m = 64, $d_{model}$ = 16\none head: impossible at every width" in titles
    assert "m = 64, $d_{model}$ = 32\none head: possible, not found" in titles
    assert drawn(FIGURE_1, made, FINE).axes[0].get_title(loc="left").endswith("one head: impossible at every width")
    assert "impossible at every width, proved, for 2 of 2 seeds" in FIGURE_1.caption(made, FINE)
    claim = {verdict.claim: verdict for verdict in verdicts(["fig9"], made, FINE)}["6"]
    assert "(256, 32): at most 0.401" in claim.measured
    assert claim.measured.count("impossible at every width, proved, for 2 of 2 seeds") == 2
    alone = Rows([row for row in made.of(FIGURE_9.runs(FINE)) if row.kind == "layer"])
    assert "impossible" not in FIGURE_1.caption(alone, FINE) + FIGURE_9.caption(alone, FINE)


def test_a_seed_that_is_missing_leaves_a_point_open() -> None:
    made = rows()
    lost = OneHead(64, 16, 1)
    fewer = Rows([row for row in made.of(needed(["single_head"], FINE)) if row.id != lost.id])
    assert decisions(base(64, 16), made, FINE) is not None
    assert decisions(base(64, 16), fewer, FINE) is None
    (verdict,) = exhibit_named("single_head").claims(fewer, FINE)
    assert verdict.outcome == "not attempted"
