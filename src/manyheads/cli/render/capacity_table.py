"""A measured capacity, for machines and for people."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path

from rich.console import RenderableType
from rich.table import Table
from rich.text import Text

from manyheads.capacity import Capacity, Point, Threshold, threshold
from manyheads.cli.render.certificate_table import pairs_table, shown_files, shown_notes


def capacity_facts(capacity: Capacity) -> dict[str, object]:
    """Everything a machine may want to know."""
    return {
        "run": capacity.fields,
        "goal": {"exact": capacity.goal.exact, "target": capacity.goal.target},
        "seeds": capacity.seeds,
        **asdict(capacity.threshold),
        "runs": capacity.runs,
        "filled": capacity.filled,
        "grid": capacity.grid,
        "unscored": capacity.unscored,
        "complete": capacity.complete,
        "curve": [
            {
                "heads": point.heads,
                "key_width": point.key_width,
                "key_budget": point.key_budget,
                "scores": {str(seed): score for seed, score in point.scores},
            }
            for point in capacity.curve
        ],
    }


def shown_capacity(capacity: Capacity, *, store: Path, written: Sequence[Path]) -> list[RenderableType]:
    """The answer, a row a head count, and what it cost."""
    task, found = capacity.task, capacity.threshold
    nothing = "no key budget tried works" if capacity.complete else "undecided: no key budget has been seen to work yet"
    headline = Text(f"D_K* = {found.key_budget}" if found.key_budget else nothing)
    headline.stylize("bold green" if found.key_budget else "bold yellow")
    rows = [
        ("problem", f"{task.items} items, d_model {task.d_model}, {task.label}, rule {capacity.rule}"),
        ("goal", f"{capacity.goal} over {capacity.seeds} seeds, at most {capacity.protocol.steps:,} steps"),
        *range_rows(found),
        ("runs", _runs(capacity)),
        ("kept in", str(store)),
    ]
    notes = []
    if capacity.unscored:
        notes.append(f"{capacity.unscored} runs have no score, and their points count as not working: see results")
    if not capacity.complete:
        notes.append("stopped by its budget before it was sure: the same command goes on from here")
    return [headline, pairs_table(rows), Text(), _by_heads(capacity), *shown_notes(notes), *shown_files(written)]


def _runs(capacity: Capacity) -> str:
    more = f", and {capacity.filled} more for the curves" if capacity.filled else ""
    return f"{capacity.runs} of the {capacity.grid} that every width would take{more}"


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
    for heading in ("heads", "smallest D_K", "key width", score, "95 % interval"):
        table.add_column(heading, justify="right", no_wrap=True)
    for heads in sorted({point.heads for point in capacity.curve}):
        table.add_row(str(heads), *_cells(capacity, [point for point in capacity.curve if point.heads == heads]))
    return table


def _cells(capacity: Capacity, points: Sequence[Point]) -> tuple[str, ...]:
    whole = [point for point in points if len(point.scores) == capacity.seeds]
    found = threshold(whole, target=capacity.goal.target)
    if found.key_budget is None:
        # the search of a head count ends where it can no longer be the best
        best = max((point.mean for point in points if point.scores), default=None)
        over = max((point.key_budget for point in points if _fails(capacity, point)), default=None)
        return "?" if over is None else f"over {over}", "", "" if best is None else f"{best:.4f}", ""
    (point,) = (point for point in whole if point.key_budget == found.key_budget)
    low, high = point.interval
    interval = f"{low:.4f} … {high:.4f}" if capacity.seeds > 1 else ""
    return str(point.key_budget), str(point.key_width), f"{point.mean:.4f}", interval


def _fails(capacity: Capacity, point: Point) -> bool:
    """Whether the point cannot work: where the search was cut short, the seeds it lacks might score 1."""
    lacking = 0 if capacity.complete else capacity.seeds - len(point.scores)
    return (float(point.values.sum()) + lacking) / capacity.seeds < capacity.goal.target
