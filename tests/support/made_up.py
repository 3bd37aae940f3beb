"""Rows of the paper's runs that nobody made, with outcomes that are known; and how they are drawn quickly."""

from __future__ import annotations

import math
from collections.abc import Callable
from io import BytesIO
from pathlib import Path

from matplotlib.figure import Figure

from manyheads.papers import Exhibit, Row, Rows, Scale, exhibit_named
from manyheads.papers.exhibits.clocks import BuildClock, SplitClock
from manyheads.papers.exhibits.constructions import Build
from manyheads.papers.exhibits.one_head import OneHead
from manyheads.papers.exhibits.softmax_trials import NeededWidth, SampledContexts
from manyheads.papers.panel import Panel
from manyheads.papers.trial import Scores, Trial
from manyheads.sweep.store.record import Storable
from manyheads.training import Run

QUICK = Scale(quick=True)
# small builds, one of each construction and kind of graph
BUILDS = (
    Build("I", 32, 32, 32, 30.0, 0),
    Build("II", 32, 64, 16, 12.0, 1),
    Build("III", 32, 512, 16, 30.0, 0),
    Build("IV", 32, 64, 16, 40.0, 0, degree=2, graph="regular"),
    Build("IV", 32, 64, 16, 40.0, 0, degree=2, graph="random"),
)


def made_up(run: Storable, *, slope: float = 1.0, single: bool = False) -> Row:
    """The row of a run whose outcome is decided here."""
    if isinstance(run, Trial):
        return trial_row(run, made_up_scores(run))
    assert isinstance(run, Run)
    return made_up_layer(run, slope=slope, single=single)


def made_up_layer(run: Run, *, slope: float = 1.0, single: bool = False) -> Row:
    """A run that succeeds from D_K = slope·x on, if it has more than one head or one head is allowed to."""
    x = Panel(run.items, run.d_model, degree=run.task.relations // run.items).law()
    works = run.key_budget >= slope * x and (run.heads > 1 or single)
    f1 = 0.999 if works else 0.4 + 0.001 * (run.seed % 3)
    scores = {"micro_f1": None, "mse": 0.01 if works else 0.8, "zero_mse": 1.0}
    scores |= {"micro_f1": f1} if run.task.objective == "edges" else {}
    return Row(run.id, "layer", "converged" if works else "limit", scores, run.protocol.steps, 0.1)


def trial_row(run: Trial, scores: Scores) -> Row:
    return Row(run.id, run.KIND, "converged", scores, 0, 0.1)


def made_up_scores(run: Trial) -> Scores:
    """What the paper would say."""
    match run:
        case SplitClock():
            return {str(heads): 100.0 for heads in run.splits}
        case BuildClock():
            work = run.items * run.d_model * math.log(run.items)
            counted = 2 * run.items * run.d_model * run.key_width
            return {"build_seconds": 1e-8 * work, "multiply_adds": counted, "heads": run.items // run.d_model}
        case Build():
            works = int(run.constant >= 80)
            return {"paper": works, "best": works, "false": 1.1 - works / 4, "true": 1.2, "heads": 2}
        case OneHead():
            held = int(run.items <= 2 * run.d_model)
            return {"excluded": 1 - held, "held": held, "key_width": run.d_model if held else None}
        case SampledContexts():
            right = {"present": run.contexts, "present_wrong": 0, "absent": run.contexts, "absent_wrong": 0, "wrong": 0}
            return right | {"scale": 1.0, "threshold": 0.5}
        case NeededWidth():
            share = run.items / run.d_model / run.heads
            width = None if share > 2 else math.ceil(20 + 400 * share**2)
            return {"key_width": width, "limit_wrong": 0.03 if share > 2 else 0.0}
        case _:
            raise TypeError(run)


def roughly(figure: Figure, stem: Path) -> dict[Path, bytes]:
    """A picture with few dots and without a layout: both take most of the time of a picture."""
    content = BytesIO()
    figure.set_layout_engine("none")
    figure.savefig(content, format="png", dpi=30)
    return {stem.with_name(f"{stem.name}.png"): content.getvalue()}


def drawn(exhibit: Exhibit, rows: Rows, scale: Scale) -> Figure:
    """The picture of an exhibit that has one."""
    assert exhibit.draw is not None
    return exhibit.draw(rows, scale)


def outcomes(name: str, make: Callable[[Storable], Row], scale: Scale = QUICK) -> dict[str, str]:
    """The verdicts of an exhibit whose rows are all made so."""
    module = exhibit_named(name)
    rows = Rows([make(run) for run in module.runs(scale)])
    return {verdict.claim: verdict.outcome for verdict in module.claims(rows, scale)}
