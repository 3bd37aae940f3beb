"""A made-up surface of scores over heads and key widths whose thresholds are known, and searches over it."""

from __future__ import annotations

import math
from collections.abc import Callable

from manyheads.papers import Row, Rows
from manyheads.papers.threshold_search import SearchTrail, ThresholdSearch
from manyheads.sweep.store.record import Storable
from manyheads.training import Run


def need(run: Run) -> int:
    """The key width that a head count needs: the least key budget with three heads, no width with one head."""
    ideal = {1: 99, 2: 12, 3: 6}.get(run.heads, 5 + run.heads // 8)
    length = {8: 1.5, 16: 1.0, 32: 0.75, 64: 0.5}[run.task.context]
    return math.ceil(ideal * length * (20_000 / run.protocol.steps) ** 0.25)


def surface_row(run: Storable, *, works: Callable[[Run], bool] = lambda run: run.key_width >= need(run)) -> Row:
    """The row of a run; exact recovery needs a width larger by one, and a run that stops early never has it."""
    assert isinstance(run, Run)
    good = works(run)
    exact = run.key_width > need(run) and run.protocol.stop_above >= 1
    scores = {"micro_f1": 0.999 if good else 0.5 + 0.001 * run.seed, "exact_errors": 0 if exact else 3}
    return Row(run.id, "layer", "converged" if good else "limit", scores, run.protocol.steps, 0.1)


def finished(search: ThresholdSearch, made: Callable[[Run], Row] = surface_row) -> tuple[SearchTrail, Rows, int]:
    """The search to its end, with the missing rows made in rounds."""
    rows, rounds = Rows(()), 0
    while missing := search.follow(rows).missing:
        rows, rounds = rows.joined(Rows(map(made, missing))), rounds + 1
    return search.follow(rows), rows, rounds
