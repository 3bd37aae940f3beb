"""The capacities in a store and the laws through them, for machines and for people."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict

from rich.console import RenderableType
from rich.table import Table
from rich.text import Text

from manyheads.capacity import Experiment, Goal, MeasuredLaw, StoredProblem


def problem_facts(problem: StoredProblem) -> dict[str, object]:
    """A problem and its threshold."""
    return {"run": problem.fields, **asdict(problem.threshold), "seeds": problem.seeds, "runs": problem.runs}


def law_facts(law: MeasuredLaw, experiment: Experiment) -> dict[str, object]:
    """A law, its fit, and which of the store's experiments it goes through."""
    said = {"quantity": law.quantity, "against": law.against, "through_origin": law.through_origin}
    return said | asdict(law.regression) | {"among": experiment.differs}


def shown_problems(found: Sequence[Experiment], goal: Goal) -> list[RenderableType]:
    """For each experiment a row a problem, then a row a law."""
    shown: list[RenderableType] = []
    for experiment in found or [Experiment({}, (), ())]:
        shown += [Text(), Text(experiment.words, style="bold")] if experiment.differs else []
        shown.append(_problems(experiment.problems, goal))
        if experiment.laws:
            shown += [Text(), _laws(experiment.laws)]
        else:
            shown.append(Text("a law needs capacities of problems at three different sizes", style="dim"))
    return shown


def _problems(found: Sequence[StoredProblem], goal: Goal) -> Table:
    table = Table(box=None, padding=(0, 1, 0, 0), title=f"smallest key budgets for {goal}", title_justify="left")
    for name in ("items", "d_model", "graph", "rule", "steps", "seeds", "runs", "D_K*", "range", "h*", "range"):
        table.add_column(name, justify="left" if name in ("graph", "rule") else "right", no_wrap=True)
    for problem in found:
        run, best = problem.fields, problem.threshold
        graph = f"{run['degree']}-regular" if run["graph"] == "regular" else run["graph"]
        cells = (run["items"], run["d_model"], graph, run["rule"], run["steps"], problem.seeds, problem.runs)
        answer = ("none", "", "", "") if best.key_budget is None else (
            best.key_budget, _range(best.low, best.high), best.heads, _range(best.heads_low, best.heads_high)
        )  # fmt: skip
        table.add_row(*map(str, (*cells, *answer)))
    return table


def _laws(laws: Sequence[MeasuredLaw]) -> Table:
    table = Table(box=None, padding=(0, 1, 0, 0), title="laws, least squares, 95 % intervals", title_justify="left")
    for name in ("", "against", "slope", "intercept", "R²", "uncentred"):
        table.add_column(name, justify="left" if name in ("", "against") else "right", no_wrap=True)
    for law in laws:
        fit = law.regression
        table.add_row(
            law.quantity,
            law.against,
            f"{fit.slope:.3g} ({fit.slope_interval[0]:.3g} to {fit.slope_interval[1]:.3g})",
            "through 0" if law.through_origin else f"{fit.intercept:.3g}",
            f"{fit.r_squared:.3f}",
            f"{fit.r_squared_uncentred:.3f}",
        )
    return table


def _range(low: int | None, high: int | None) -> str:
    return f"{'?' if low is None else low}–{'?' if high is None else high}"
