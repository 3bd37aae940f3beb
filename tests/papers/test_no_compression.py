"""The verdict on claim 21."""

from __future__ import annotations

from support.made_up import made_up, made_up_scores, outcomes, trial_row

from manyheads.papers import Row
from manyheads.papers.exhibits.constructions import Build
from manyheads.sweep.store.record import Storable
from manyheads.training import Run


def test_one_head_suffices_or_not() -> None:
    assert outcomes("no_compression", lambda run: made_up(run, slope=0.8, single=True)) == {"21": "reproduced"}
    assert outcomes("no_compression", lambda run: made_up(run, slope=0.8)) == {"21": "differs"}

    def wasteful(run: Storable) -> Row:
        slow = isinstance(run, Run) and run.heads == 1
        return made_up(run, slope=2.0 if slow else 0.8, single=True)

    assert outcomes("no_compression", wasteful) == {"21": "differs"}

    def refuted(run: Storable) -> Row:
        if isinstance(run, Build):
            return trial_row(run, {**made_up_scores(run), "paper": int(run.seed > 0)})
        return made_up(run, slope=0.8, single=True)

    assert outcomes("no_compression", refuted) == {"21": "differs"}
