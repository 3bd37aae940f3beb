"""The values of a measurement: its limits, its progress, and the capacity that it finds."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

from manyheads.bounds.graph_counts import BitsPerWeight, bits_per_weight
from manyheads.bounds.shape import Shape
from manyheads.capacity.search import Bracket
from manyheads.capacity.thresholds import Goal, Point, Threshold
from manyheads.identity import normalise_numbers
from manyheads.layer.rules import Rule
from manyheads.tables import Shown, Summary, counted, data_frame, summary
from manyheads.training.protocol import Protocol
from manyheads.training.run import shared_fields
from manyheads.training.task import Task

Status = Literal["measured", "at most", "none works", "undecided", "failed"]


@dataclass(frozen=True)
class Budget:
    """The limits of a measurement. A measurement that reaches a limit is incomplete; the same call continues it later.

    Attributes:
        runs: The most runs that are newly trained, at least 1; None: no limit.
        seconds: The longest time, above 0; None: no limit.
    """

    runs: int | None = None
    seconds: float | None = None

    def __post_init__(self) -> None:
        normalise_numbers(self)


@dataclass(frozen=True, repr=False)
class Capacity(Shown):
    """D_K* of a task, the points that decide it, and the number of runs that it took.

    Attributes:
        task: The task.
        rule: The rule that joins the heads.
        key_heads: The number of key heads, or "h/N" for one key head for every N heads; None: every head has its own.
        protocol: The constants of training.
        goal: The score that counts as working.
        seeds: The number of seeds at a point.
        threshold: D_K* and h* with their ranges.
        curve: All points that have every seed.
        runs: The number of runs of the search. Runs that were in the store before are included.
        filled: The number of further runs for the curve.
        grid: The number of runs that a grid would take: all head counts at all key widths up to the largest budget
            tried.
        unscored: The number of runs without a score (diverged, failed, quarantined).
        complete: False if the budget ended the search, or all runs failed.
        failed: The number of runs that failed or whose worker died. They say nothing about their points.
        failure: The reason of the first failed run; None if no run failed.
        failed_sizes: The sizes (`Point.size`) of the points that have failed runs.
        notes: What a user should know about the store: an upgrade, damaged rows.
    """

    task: Task
    rule: Rule
    protocol: Protocol
    goal: Goal
    seeds: int
    threshold: Threshold
    curve: tuple[Point, ...]
    runs: int
    filled: int
    grid: int
    unscored: int
    complete: bool
    failed: int = 0
    failure: str | None = None
    failed_sizes: tuple[float, ...] = ()
    notes: tuple[str, ...] = field(default=(), compare=False)
    key_heads: int | str | None = None

    @property
    def fields(self) -> dict[str, int | float | str]:
        """The flat JSON that all its runs have in common."""
        shared = shared_fields(self.task, self.rule, self.protocol)
        return shared | {"key_heads": self.key_heads} if isinstance(self.key_heads, int) else shared

    @property
    def status(self) -> Status:
        """What is known: D_K*, only an upper bound of it, that no budget works, nothing yet, or nothing by failure.

        A run that failed is no negative result. If one failed below D_K*, a smaller key budget may work.
        """
        if self.key_budget is None:
            return "failed" if self.failed else "none works" if self.complete else "undecided"
        assert self.shape is not None, "a key budget has a shape"
        size = (self.shape.query_budget + self.shape.key_budget) / 2
        return "at most" if min(self.failed_sizes, default=size) < size else "measured"

    @property
    def key_budget(self) -> int | None:
        """D_K*; where heads share keys, the key budget of the smallest layer."""
        return self.threshold.key_budget

    @property
    def shape(self) -> Shape | None:
        """The smallest layer that works: the fewest weights; None where nothing works."""
        found = self.threshold
        if found.heads is None or found.key_width is None:
            return None
        return Shape(d_model=self.task.d_model, heads=found.heads, key_width=found.key_width, key_heads=found.key_heads)

    @property
    def low(self) -> int | None:
        """The optimistic end of D_K*'s range."""
        return self.threshold.low

    @property
    def high(self) -> int | None:
        """The conservative end of D_K*'s range."""
        return self.threshold.high

    @property
    def heads(self) -> int | None:
        """h*."""
        return self.threshold.heads

    @property
    def bits_per_weight(self) -> BitsPerWeight | None:
        """Bits per weight at D_K*, over the d_model·(D_Q + D_K) weights of W_Q and W_K; None where nothing works."""
        return None if self.shape is None else bits_per_weight(self.task.graph, weights=self.shape.parameters)

    @property
    def bits_per_cached_number(self) -> float | None:
        """The bits over the numbers that a key cache of all items stores, items · D_K; None where nothing works."""
        bits, shape = self.bits_per_weight, self.shape
        return None if bits is None or shape is None else bits.log2_graphs / (self.task.items * shape.key_budget)

    def summary(self) -> Summary:
        """D_K* and h* with their ranges, and the smallest key budget that works for each head count."""
        task, found = self.task, self.threshold
        best = "no key budget works" if found.key_budget is None else f"D_K* {found.key_budget}"
        working = [point for point in self.curve if point.scores and point.mean >= self.goal.target]
        smallest: dict[int, int] = {}
        for point in working:
            smallest[point.heads] = min(point.key_budget, smallest.get(point.heads, point.key_budget))
        spans = (("D_K*", found.low, found.high), ("h*", found.heads_low, found.heads_high))
        rows: list[tuple[str, object]] = [
            ("task", f"{task.label}, {task.items} items, d_model {task.d_model}, rule {self.rule}"),
            ("goal", f"{self.goal}, {counted(self.seeds, 'seed')}"),
            ("key heads", self.key_heads),
            ("weights", None if self.key_heads is None or self.shape is None else f"{self.shape.parameters:,}"),
            *((f"{name} from … to", None if low is None else f"{low} … {high}") for name, low, high in spans),
            ("runs", f"{self.runs + self.filled}, where a grid takes {self.grid}"),
            ("complete", None if self.complete else "no: the budget ended the search"),
            *((counted(heads, "head"), f"works from D_K {budget}") for heads, budget in sorted(smallest.items())),
        ]
        return summary(f"capacity: {best}" + (f" with h* {found.heads}" if found.heads else ""), rows)

    def to_frame(self) -> Any:
        """The scores as a pandas data frame: a row for each head count, key width and seed.

        Raises:
            InputError: pandas is not installed.
        """
        return data_frame(
            {
                "heads": point.heads,
                **({} if self.key_heads is None else {"key_heads": point.groups}),
                "key_width": point.key_width,
                "key_budget": point.key_budget,
                "seed": seed,
                "score": score,
            }
            for point in self.curve
            for seed, score in point.scores
        )


@dataclass(frozen=True)
class MeasureProgress:
    """The state of a measurement, reported whenever runs have ended.

    Attributes:
        trained: The number of runs that this measurement trained itself.
        left: About the number of runs that are left.
        brackets: The state of each head count.
        points: The points with scores.
        best: The smallest size that works so far (D_K, or (D_Q + D_K)/2 with shared keys); None if none does.
    """

    trained: int
    left: int
    brackets: Mapping[int, Bracket]
    points: tuple[Point, ...]
    best: int | float | None

    def line(self, left: str = "") -> str:
        """The state in one line.

        Args:
            left: An estimate of the time that is left, in words.

        Returns:
            Text for a progress bar: the points that are done, the smallest that works, the time that is left.
        """
        shared = any(point.key_heads is not None for point in self.points)
        size = "(D_Q + D_K)/2" if shared else "D_K"
        best = "nothing works yet" if self.best is None else f"smallest {size} that works so far {self.best:g}"
        return f"{self.trained} runs done, about {self.left} to go{left}; {best}"
