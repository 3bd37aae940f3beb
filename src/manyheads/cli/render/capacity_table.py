"""Tables of capacities: one that was measured, those of a store, and the laws through them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict
from pathlib import Path

from rich.console import RenderableType
from rich.table import Table
from rich.text import Text

from manyheads.capacity import (
    Capacity,
    Experiment,
    Goal,
    MeasuredLaw,
    Point,
    StoredProblem,
    Threshold,
    threshold,
)
from manyheads.cli.render.answer import pairs_table, shown_files, shown_notes
from manyheads.cli.render.exclusion_table import subject
from manyheads.tables import counted
from manyheads.text import shown_text


def capacity_facts(capacity: Capacity) -> dict[str, object]:
    """A measured capacity for programs."""
    return {
        "run": capacity.fields,
        "goal": {"exact": capacity.goal.exact, "target": capacity.goal.target},
        "seeds": capacity.seeds,
        **capacity.threshold.facts,
        **_sharing_facts(capacity),
        "bits_per_weight": capacity.bits_per_weight and asdict(capacity.bits_per_weight),
        "runs": capacity.runs,
        "filled": capacity.filled,
        "grid": capacity.grid,
        "unscored": capacity.unscored,
        "failed": capacity.failed,
        "failure": capacity.failure,
        "status": capacity.status,
        "complete": capacity.complete,
        "curve": [
            {
                "heads": point.heads,
                "key_width": point.key_width,
                "key_budget": point.key_budget,
                "scores": {str(seed): score for seed, score in point.scores},
                "interval": capacity.goal.interval(point) if len(point.scores) > 1 else None,
                "t_interval": point.interval if len(point.scores) > 1 else None,
            }
            for point in capacity.curve
        ],
    }


def shown_capacity(
    capacity: Capacity, *, store: Path, one_head: Mapping[str, int] | None, written: Sequence[Path]
) -> list[RenderableType]:
    """D_K* and h*, a row for each head count, and the number of runs; whether one head is impossible or not found."""
    task, found = capacity.task, capacity.threshold
    nothing = "no key budget tried works" if capacity.complete else "undecided: no key budget has been seen to work yet"
    sign = "≤" if capacity.status == "at most" else "="
    headline = Text(f"D_K* {sign} {found.key_budget}" if found.key_budget else nothing)
    headline.stylize("bold green" if found.key_budget else "bold yellow")
    rows = [
        ("problem", f"{task.items} items, d_model {task.d_model}, {task.label}, rule {capacity.rule}"),
        ("goal", f"{capacity.goal} over {counted(capacity.seeds, 'seed')}, at most {capacity.protocol.steps:,} steps"),
        *range_rows(found),
        *_sharing_rows(capacity),
        *([] if one_head is None else [(subject(capacity.rule), _one_head(one_head))]),
        *([] if capacity.bits_per_weight is None else [("bits per weight", str(capacity.bits_per_weight))]),
        ("runs", _runs(capacity)),
        ("kept in", str(store)),
    ]
    notes = []
    if diverged := capacity.unscored - capacity.failed:
        notes.append(f"{counted(diverged, 'run')} diverged, so the points count as not working: see results")
    if capacity.failed:
        notes.append(f"{counted(capacity.failed, 'run')} failed ({capacity.failure}): nothing is known of the points")
    if not capacity.complete:
        notes.append("stopped by its budget before it was sure: the same command goes on from here")
    return [headline, pairs_table(rows), Text(), _by_heads(capacity), *shown_notes(notes), *shown_files(written)]


def _one_head(counts: Mapping[str, int]) -> str:
    """For how many seeds' problems a head that holds every pair is impossible, possible, or neither is known."""
    seeds = sum(counts.values())
    words = {
        "excluded": "impossible at every width, proved, for {} of {} seeds",
        "held": "possible, certified, for {} of {} seeds, but not found by this training",
        "undecided": "undecided for {} of {} seeds: `manyheads exclude` takes longer",
    }
    told = [words[name].format(count, seeds) for name, count in counts.items() if count]
    return "; ".join(told) + " (to hold every pair; an F1 below 1 allows errors)"


def _runs(capacity: Capacity) -> str:
    more = f", and {capacity.filled} more for the curves" if capacity.filled else ""
    return f"{capacity.runs} of the {capacity.grid} that every width would take{more}"


def _sharing_facts(capacity: Capacity) -> dict[str, object]:
    """The numbers of the smallest layer, where heads share keys."""
    if capacity.key_heads is None:
        return {}
    shape = capacity.shape
    return {
        "sharing": str(capacity.key_heads),
        "query_budget": shape and shape.query_budget,
        "weights": shape and shape.parameters,
        "freedom": shape and shape.all_freedom,
        "bits_per_cached_number": capacity.bits_per_cached_number,
    }


def _sharing_rows(capacity: Capacity) -> list[tuple[str, str]]:
    if capacity.key_heads is None:
        return []
    shape, asked = capacity.shape, ("key heads", f"{capacity.key_heads}; the smallest layer has the fewest weights")
    if shape is None:
        return [asked]
    numbers = f"{shape.parameters:,} weights, {shape.all_freedom:,} degrees of freedom; D_Q {shape.query_budget}, D_K "
    numbers += f"{shape.key_budget} cached for each token"
    cached = f"{capacity.bits_per_cached_number:.3g} in the {shape.key_budget} numbers of every item"
    return [asked, ("smallest", numbers), ("bits per cached number", cached)]


def range_rows(found: Threshold) -> list[tuple[str, str]]:
    """D_K* and h* with their ranges (App. A.2)."""
    if found.key_budget is None:
        return []
    low, high = ("?" if end is None else end for end in (found.low, found.high))
    return [
        ("D_K*", f"{found.key_budget}, 95 % range {low} to {high}"),
        ("h*", f"{found.heads}, of width {found.key_width}; not significantly worse: {found.heads_low} to "
               f"{found.heads_high}"),
    ]  # fmt: skip


def _by_heads(capacity: Capacity) -> Table:
    table = Table(box=None, padding=(0, 2, 0, 0))
    score = "share exact" if capacity.goal.exact else "mean F1"
    interval = "95 % Wilson interval" if capacity.goal.exact else "95 % t-interval, cut at 1"
    shared = capacity.key_heads is not None
    headings = ("keys", "weights", "D_K", "width") if shared else ("smallest D_K", "key width")
    for heading in ("heads", *headings, score, "95 % interval" if shared else interval):
        table.add_column(heading, justify="right", no_wrap=True)
    for heads in sorted({point.heads for point in capacity.curve}):
        line = [point for point in capacity.curve if point.heads == heads]
        cells = _cells(capacity, line)
        if shared:
            weights = (heads + line[0].groups) * int(cells[1] or 0) * capacity.task.d_model
            cells = (str(line[0].groups), f"{weights:,}" if weights else "", *cells)
        table.add_row(str(heads), *cells)
    return table


def _cells(capacity: Capacity, points: Sequence[Point]) -> tuple[str, ...]:
    whole = [point for point in points if len(point.scores) == capacity.seeds]
    found = threshold(whole, target=capacity.goal.target)
    if found.key_budget is None:
        # the search of a head count ends when it can no longer be the best
        best = max((point.mean for point in points if point.scores), default=None)
        over = max((point.key_budget for point in points if _fails(capacity, point)), default=None)
        return "?" if over is None else f"over {over}", "", "" if best is None else f"{best:.4f}", ""
    (point,) = (point for point in whole if point.key_width == found.key_width)
    low, high = capacity.goal.interval(point)
    interval = f"{low:.4f} … {high:.4f}" if capacity.seeds > 1 else ""
    return str(point.key_budget), str(point.key_width), f"{point.mean:.4f}", interval


def _fails(capacity: Capacity, point: Point) -> bool:
    """Whether the point cannot work. If the search ended early, the missing seeds are assumed to score 1."""
    lacking = 0 if capacity.complete else capacity.seeds - len(point.scores)
    return (float(point.values.sum()) + lacking) / capacity.seeds < capacity.goal.target


def problem_facts(problem: StoredProblem) -> dict[str, object]:
    """A problem and its threshold."""
    facts = {"run": problem.fields, **problem.threshold.facts, "seeds": problem.seeds, "runs": problem.runs}
    return facts | {"bits_per_weight": problem.bits_per_weight and asdict(problem.bits_per_weight)}


def law_facts(law: MeasuredLaw, experiment: Experiment) -> dict[str, object]:
    """A law, its fit, and which of the store's experiments it goes through."""
    said = {"quantity": law.quantity, "against": law.against, "through_origin": law.through_origin}
    return said | asdict(law.regression) | {"among": experiment.differs}


def shown_problems(found: Sequence[Experiment], goal: Goal) -> list[RenderableType]:
    """For each experiment, a row for each problem, then a row for each law."""
    shown: list[RenderableType] = []
    for experiment in found or [Experiment({}, (), ())]:
        shown += [Text(), Text(shown_text(experiment.words), style="bold")] if experiment.differs else []
        shown.append(_problems(experiment.problems, goal))
        if experiment.laws:
            shown += [Text(), _laws(experiment.laws)]
        else:
            shown.append(Text("a law needs capacities of problems at three different sizes", style="dim"))
    return shown


def _problems(found: Sequence[StoredProblem], goal: Goal) -> Table:
    title = f"smallest key budgets for {goal}, and their bits per weight"
    table = Table(box=None, padding=(0, 1, 0, 0), title=title, title_justify="left")
    for name in ("items", "d_model", "graph", "rule", "steps", "seeds", "runs", "D_K*", "range", "h*", "range", "bits"):
        table.add_column(name, justify="left" if name in ("graph", "rule") else "right", no_wrap=True)
    for problem in found:
        run, best = problem.fields, problem.threshold
        graph = f"{run['degree']}-regular" if run["graph"] == "regular" else run["graph"]
        cells = (run["items"], run["d_model"], graph, run["rule"], run["steps"], problem.seeds, problem.runs)
        answer = ("none", "", "", "", "") if best.key_budget is None else (
            best.key_budget, _range(best.low, best.high), best.heads, _range(best.heads_low, best.heads_high),
            "?" if problem.bits_per_weight is None else f"{problem.bits_per_weight.value:.3g}",
        )  # fmt: skip
        table.add_row(*map(shown_text, (*cells, *answer)))
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
