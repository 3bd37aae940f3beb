"""`manyheads measure`: the smallest key budget that works, and the head count that attains it."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import tyro

from manyheads.cli.options.option_types import (
    Dask,
    Force,
    GoalWord,
    Json,
    Picture,
    StoreFile,
    TimeLimit,
    WorkerCount,
    check_pictures,
    open_workers,
)
from manyheads.cli.options.problem_options import TaskOptions
from manyheads.cli.options.protocol_options import TrainingOptions
from manyheads.cli.render.answer import Answer
from manyheads.errors import InputError
from manyheads.numbers import check_number

if TYPE_CHECKING:
    from manyheads.capacity import Capacity, Goal
    from manyheads.layer.rules import Rule
    from manyheads.training import Protocol, Task


@dataclass(frozen=True, kw_only=True)
class MeasureCommand:
    """Measure D_K*, the smallest key budget that works, over every key width of several head counts.

    Every run is stored as soon as it ends: stop at any time, and the same command goes on where it stopped.
    """

    task: tyro.conf.OmitArgPrefixes[TaskOptions]
    heads: Annotated[str, tyro.conf.arg(metavar="powers:N|all:N|LIST")] = "powers:16"
    """Head counts: the powers of two up to N, all up to N, or a list such as 1,3,6."""
    key_heads: Annotated[str | None, tyro.conf.arg(metavar="INT|h/N", help_behavior_hint="(default: as many)")] = None
    """Key heads that the heads share in equal groups: a number (1 is MQA), or h/2: one key head for every two heads.
    powers:N and all:N then leave out head counts that cannot share evenly. The smallest layer has the fewest weights,
    and D_K* is its key budget."""
    seeds: int = 10
    """Number of seeds, from 0 on."""
    goal: GoalWord = "0.99"
    """The mean test F1 that counts as working; or `exact`: half of the seeds decide all items² pairs right, and every
    run takes all its steps."""
    training: tyro.conf.OmitArgPrefixes[TrainingOptions] = field(default_factory=TrainingOptions)
    max_runs: Annotated[int | None, tyro.conf.arg(metavar="INT", help_behavior_hint="(default: no limit)")] = None
    """Stop after this number of runs."""
    time_limit: TimeLimit = None
    """Stop after this number of seconds."""
    store: StoreFile = Path("manyheads.db")
    workers: WorkerCount = None
    dask: Dask = None
    picture: Picture = None
    """Draw the F1–D_K curve into STEM.png and STEM.svg; some more runs complete the curves of all head counts."""
    force: Force = False
    json: Json = False

    def run(self) -> Answer:
        """Measure, draw; yes if a key budget works."""
        from manyheads.cli.render.capacity_table import capacity_facts, shown_capacity
        from manyheads.cli.render.progress import say_notes
        from manyheads.layer.rules import rule_named
        from manyheads.training import Task

        goal = parse_goal(self.goal)
        check_pictures([self.picture], force=self.force)
        task = Task(*self.task.load_task(), context=self.training.context_length, target_rate=self.training.target_rate)
        rule = rule_named(self.training.rule)
        capacity = self._measure(task, rule, goal)
        say_notes(capacity.notes, self.store)
        if capacity.status == "failed":
            raise InputError(
                f"no answer: {capacity.failed} of {capacity.runs} runs failed ({capacity.failure}); "
                f"`manyheads results --store {self.store} --status failed` lists them"
            )
        one_head = self._one_head(capacity)
        written: list[Path] = []
        if self.picture is not None:
            from manyheads.drawing.capacity import draw_capacity
            from manyheads.drawing.style import save

            written += save(draw_capacity(capacity), self.picture, force=self.force)
        return Answer(
            facts=capacity_facts(capacity) | {"one_head": one_head, "written": written},
            shown=shown_capacity(capacity, store=self.store, one_head=one_head, written=written),
            yes=capacity.key_budget is not None,
        )

    def _measure(self, task: Task, rule: Rule, goal: Goal) -> Capacity:
        from manyheads.capacity import Budget, measure
        from manyheads.capacity.measurement import dividing_heads
        from manyheads.cli.render.progress import watching
        from manyheads.sweep import Store
        from manyheads.sweep.store.record import FINISHED

        key_heads = parse_key_heads(self.key_heads)
        heads, protocol = parse_heads(self.heads), self._protocol(task, rule, goal)
        if key_heads is not None and ":" in self.heads:
            heads = dividing_heads(heads, key_heads)
        with open_workers(self.workers, self.dask) as workers:
            try:
                with watching(goal) as progress:
                    return measure(
                        task,
                        heads=heads,
                        key_heads=key_heads,
                        seeds=self.seeds,
                        store=self.store,
                        rule=rule,
                        protocol=protocol,
                        goal=goal,
                        budget=Budget(self.max_runs, self.time_limit),
                        workers=workers,
                        fill=self.picture is not None,
                        progress=progress,
                    )
            except KeyboardInterrupt:
                with Store.read(self.store) as store:
                    kept = sum(count for status, count in store.counts().items() if status in FINISHED)
                raise KeyboardInterrupt(
                    f"interrupted; {kept} results are in {self.store}, and the same command goes on from there"
                ) from None

    def _one_head(self, capacity: Capacity) -> dict[str, int] | None:
        """Where one head (under sum: any number of heads) did not get there: for how many seeds it is impossible."""
        from manyheads.capacity import threshold
        from manyheads.cli.render.exclusion_table import is_one_form, seeds_decided

        asked = [one for one in capacity.curve if is_one_form(capacity.rule, one.heads)]
        whole = [one for one in asked if len(one.scores) == capacity.seeds]
        if not asked or threshold(whole, target=capacity.goal.target).key_budget is not None:
            return None
        return seeds_decided(capacity.task, capacity.seeds)

    def _protocol(self, task: Task, rule: Rule, goal: Goal) -> Protocol:
        """The protocol of a measurement, with the constants that were given."""
        from manyheads.capacity import measure_protocol

        return replace(measure_protocol(task, rule=rule, goal=goal), **self.training.constants())


def parse_heads(text: str) -> Sequence[int]:
    """The head counts that words name.

    >>> parse_heads("powers:16"), parse_heads("all:3"), parse_heads("1,5")
    ([1, 2, 4, 8, 16], range(1, 4), [1, 5])
    """
    kind, _, most = text.rpartition(":")
    numbers = most.split(",")
    impossible = [number for number in numbers if not re.fullmatch("[0-9]{1,400}", number)]
    if kind not in ("", "powers", "all") or (kind and len(numbers) > 1):
        raise InputError(f"head counts are a list such as 1,2,6, or all:N, or powers:N, not {text!r}")
    if impossible:
        raise InputError(f"these are no head counts: {', '.join(map(repr, impossible))}")
    counts = [int(check_number("heads", int(number), said="a head count of --heads")) for number in numbers]
    check_number(
        "head_counts", counts[0] if kind == "all" else len(counts), said="the number of head counts of --heads"
    )
    if not kind:
        return counts
    bound = counts[0]
    return range(1, bound + 1) if kind == "all" else [1 << power for power in range(bound.bit_length())]


def parse_key_heads(text: str | None) -> int | str | None:
    """The key heads that a word names: a number, or h/N.

    >>> parse_key_heads("2"), parse_key_heads("h/2"), parse_key_heads(None)
    (2, 'h/2', None)
    """
    return int(text) if text is not None and re.fullmatch("[0-9]{1,400}", text) else text


def parse_goal(text: str) -> Goal:
    """The goal that a word names: a target F1, or `exact`."""
    from manyheads.capacity import Goal

    if text == "exact":
        return Goal(exact=True)
    if not re.fullmatch(r"[0-9]{0,9}(\.[0-9]{1,18})?", text) or not text:
        raise InputError(f"--goal is a target F1 such as 0.99, or `exact`, not {text!r}")
    return Goal(micro_f1=float(text))
