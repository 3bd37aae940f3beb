"""Rows of the paper's runs that nobody made, with outcomes that are known."""

from __future__ import annotations

from manyheads.paper import Row
from manyheads.paper.clocks import SplitClock
from manyheads.paper.panel import Panel
from manyheads.paper.trial import Scores, Trial
from manyheads.sweep.record import Meant
from manyheads.training import Run


def made_up(run: Meant, *, slope: float = 1.0, single: bool = False) -> Row:
    """The row of a run whose outcome is decided here."""
    if isinstance(run, Trial):
        return trial_row(run, made_up_scores(run))
    assert isinstance(run, Run)
    return made_up_layer(run, slope=slope, single=single)


def made_up_layer(run: Run, *, slope: float = 1.0, single: bool = False) -> Row:
    """A run that succeeds from D_K = slope·x on, if it has more than one head or one head is allowed to."""
    x = Panel(run.items, run.d_model, degree=run.degree).law()
    works = run.key_budget >= slope * x and (run.heads > 1 or single)
    f1 = 0.999 if works else 0.4 + 0.001 * (run.seed % 3)
    scores = {"micro_f1": None, "mse": 0.01 if works else 0.8, "zero_mse": 1.0}
    scores |= {"micro_f1": f1} if run.objective == "edges" else {}
    return Row(run.id, "layer", "converged" if works else "limit", scores, run.steps, 0.1)


def trial_row(run: Trial, scores: Scores) -> Row:
    return Row(run.id, run.KIND, "converged", scores, 0, 0.1)


def made_up_scores(run: Trial) -> Scores:
    """What the paper would say."""
    match run:
        case SplitClock():
            return {str(heads): 100.0 for heads in run.splits}
        case _:
            raise TypeError(run)
