"""`manyheads measure`: the smallest key budget that works, and the head count that attains it."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import tyro

from manyheads.cli.options.problem_options import RuleOption
from manyheads.cli.options.workers import asked_workers
from manyheads.cli.render.answer import Answer, Flag
from manyheads.errors import InputError

if TYPE_CHECKING:
    from manyheads.capacity import Goal
    from manyheads.training import Task

Size = Annotated[int | None, tyro.conf.arg(metavar="INT", help_behavior_hint="(read off a file where one is given)")]


@dataclass(frozen=True, kw_only=True)
class Measure:
    """Measure D_K*, the smallest key budget that works, over every key width of several head counts.

    Every run is stored as soon as it ends: stop at any time, and the same command goes on where it stopped.
    """

    items: Size = None
    """Number of items."""
    d_model: Size = None
    """Width of the embedding."""
    graph: Annotated[str, tyro.conf.arg(metavar="KIND|FILE")] = "permutation"
    """permutation, regular:DEGREE (both drawn anew for each seed), or an edge list (.csv, .tsv)."""
    embedding: Annotated[str, tyro.conf.arg(metavar="gaussian|FILE")] = "gaussian"
    """gaussian (drawn anew for each seed), or a file (.npy, .safetensors, .gguf)."""
    labels: Annotated[Path | None, tyro.conf.arg(metavar="FILE", help_behavior_hint="")] = None
    """The items' names in the order of the embedding's rows: one a line, a .json list or vocabulary, a .gguf."""
    tensor: Annotated[str | None, tyro.conf.arg(metavar="NAME", help_behavior_hint="")] = None
    """Which tensor is the embedding, where a safetensors file holds several."""
    rule: RuleOption = "max"
    """The largest of the heads' scores, or the sum of their softmax shares in the context."""
    heads: Annotated[str, tyro.conf.arg(metavar="powers:N|all:N|LIST")] = "powers:16"
    """Head counts: the powers of two up to N, all up to N, or a list such as 1,3,6."""
    seeds: int = 10
    """How many seeds, from 0 on."""
    goal: Annotated[str, tyro.conf.arg(metavar="F1|exact")] = "0.99"
    """The mean test F1 that counts as working; or `exact`: half of the seeds decide all items² pairs right, trained for
    all their steps."""
    steps: Annotated[int | None, tyro.conf.arg(metavar="INT", help_behavior_hint="(default: the paper's)")] = None
    """Optimiser steps a run may take."""
    context: int = 16
    """Items in a context."""
    max_runs: Annotated[int | None, tyro.conf.arg(metavar="INT", help_behavior_hint="(default: no limit)")] = None
    """Stop after so many runs."""
    max_seconds: Annotated[float | None, tyro.conf.arg(metavar="FLOAT", help_behavior_hint="(default: no limit)")] = (
        None
    )
    """Stop after so much time."""
    store: Path = Path("manyheads.db")
    """Where results are kept and looked up."""
    workers: Annotated[int | None, tyro.conf.arg(metavar="INT", help_behavior_hint="(default: one a core)")] = None
    """How many runs are trained at once."""
    dask: Annotated[str | None, tyro.conf.arg(metavar="ADDRESS", help_behavior_hint="")] = None
    """Train on the Dask cluster at this address, e.g. tcp://host:8786."""
    picture: Annotated[Path | None, tyro.conf.arg(metavar="STEM", help_behavior_hint="")] = None
    """Draw the F1–D_K curve into STEM.png and STEM.svg; some more runs fill in the curves of all head counts."""
    force: Flag = False
    """Overwrite pictures that exist."""
    json: Flag = False
    """Print JSON instead of a table."""

    def run(self) -> Answer:
        """Measure, draw, tell."""
        from manyheads.capacity import Budget, measure, measure_protocol
        from manyheads.cli.render.capacity_table import capacity_facts, shown_capacity
        from manyheads.cli.render.measure_display import watching
        from manyheads.layer.rules import rule_named
        from manyheads.sweep import Store

        goal, heads, pictures = parse_goal(self.goal), parse_heads(self.heads), self._pictures()
        budget = Budget(self.max_runs, self.max_seconds)
        if self.seeds < 1:
            raise InputError(f"--seeds is at least 1, not {self.seeds}")
        task, rule = self._task(), rule_named(self.rule)
        protocol = measure_protocol(task, rule=rule, goal=goal, steps=self.steps)
        with asked_workers(self.workers, self.dask) as workers:
            try:
                with watching(goal) as watch:
                    capacity = measure(
                        task,
                        heads=heads,
                        seeds=self.seeds,
                        store=self.store,
                        rule=rule,
                        protocol=protocol,
                        goal=goal,
                        budget=budget,
                        workers=workers,
                        fill=self.picture is not None,
                        progress=watch,
                    )
            except KeyboardInterrupt:
                with Store.read(self.store) as store:
                    kept = sum(store.counts().values())
                raise KeyboardInterrupt(
                    f"interrupted; {kept} results are in {self.store}, and the same command goes on from there"
                ) from None
        if self.picture is not None:
            from manyheads.drawing.capacity import draw_capacity
            from manyheads.drawing.style import save

            save(draw_capacity(capacity), self.picture)
        return Answer(
            facts=capacity_facts(capacity) | {"written": [str(path) for path in pictures]},
            shown=shown_capacity(capacity, store=self.store, written=pictures),
            yes=capacity.key_budget is not None,
        )

    def _task(self) -> Task:
        """The task, with the graph and the embedding that were read from files."""
        from manyheads.files import read_embedding, read_graph, read_labels
        from manyheads.training import Task

        kind, _, degree = self.graph.partition(":")
        drawn = self.graph == "permutation" or kind == "regular"
        if kind == "regular" and not re.fullmatch("[0-9]{1,9}", degree):
            raise InputError(f"{self.graph!r} is not of the form regular:DEGREE")
        if drawn and self.labels is not None:
            raise InputError(f"--labels does not apply: {self.graph} is drawn, not read from a file")
        if self.embedding == "gaussian" and self.tensor is not None:
            raise InputError("--tensor does not apply: the embedding is drawn, not read from a file")
        embedding = None if self.embedding == "gaussian" else read_embedding(self.embedding, tensor=self.tensor)
        rows = None if embedding is None else len(embedding)
        labels = None if self.labels is None else read_labels(self.labels)
        graph = None if drawn else read_graph(self.graph, items=rows, labels=labels)
        items = _agreed("--items", self.items, rows if graph is None else graph.items)
        d_model = _agreed("--d-model", self.d_model, None if embedding is None else embedding.shape[1])
        words = f"regular:{items}:{degree}" if kind == "regular" else f"permutation:{items}"
        return Task(
            words if graph is None else graph,
            f"gaussian:{d_model}" if embedding is None else embedding,
            context=self.context,
        )

    def _pictures(self) -> list[Path]:
        """The files to draw into, refused before the work if they could not be written after it."""
        from manyheads.files import check_writable
        from manyheads.files.atomic_files import picture_files

        if self.picture is None:
            return []
        pictures = list(picture_files(self.picture))
        for path in pictures:
            check_writable(path, force=self.force)
        return pictures


def parse_heads(text: str) -> list[int]:
    """powers:16 is 1, 2, 4, 8, 16; all:4 is 1, 2, 3, 4; a list is itself.

    >>> parse_heads("powers:16"), parse_heads("all:3"), parse_heads("1,5")
    ([1, 2, 4, 8, 16], [1, 2, 3], [1, 5])
    """
    kind, _, most = text.rpartition(":")
    numbers = most.split(",")
    impossible = [number for number in numbers if not re.fullmatch("0*[1-9][0-9]{0,4}", number)]
    if kind not in ("", "powers", "all") or (kind and len(numbers) > 1):
        raise InputError(f"head counts are a list such as 1,2,6, or all:N, or powers:N, not {text!r}")
    if impossible:
        raise InputError(f"these are no head counts: {', '.join(map(repr, impossible))} (a count is 1 to 99999)")
    if not kind:
        return [int(number) for number in numbers]
    bound = int(most)
    return list(range(1, bound + 1)) if kind == "all" else [1 << power for power in range(bound.bit_length())]


def parse_goal(text: str) -> Goal:
    """A target F1, or `exact`."""
    from manyheads.capacity import Goal

    if text == "exact":
        return Goal(exact=True)
    if not re.fullmatch(r"[0-9]{0,9}(\.[0-9]{1,18})?", text) or not text:
        raise InputError(f"--goal is a target F1 such as 0.99, or `exact`, not {text!r}")
    return Goal(micro_f1=float(text))


def _agreed(option: str, asked: int | None, read: int | None) -> int:
    """A size from the command line or from a file, which must not contradict each other."""
    size = read if asked is None else asked
    if size is None:
        raise InputError(f"{option} is needed where no file tells it")
    if read is not None and size != read:
        raise InputError(f"{option} {asked} contradicts the file, which has {read}")
    return size
