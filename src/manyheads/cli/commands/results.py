"""`manyheads results`: the rows of a store, listed, exported or verified, and the capacities and laws in it."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, get_args

import tyro

from manyheads.cli.options.option_types import (
    Flag,
    Force,
    GoalWord,
    Json,
    Output,
    StoreFile,
    Whole,
    nearest,
    require_ending,
)
from manyheads.cli.render.answer import Answer, shown_files
from manyheads.errors import InputError
from manyheads.text import shown_text

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from rich.console import JustifyMethod, RenderableType

    from manyheads.sweep import Record

Word = Annotated[str | None, tyro.conf.arg(metavar="WORD", help_behavior_hint="")]
LISTED = ("items", "d_model", "graph", "rule", "heads", "key_width", "seed")


@dataclass(frozen=True, kw_only=True)
class ResultsCommand:
    """List the results of a store, write them as CSV, JSON lines or Parquet, or show its capacities and laws.

    Damaged rows are named, and are no results: the next `measure` on the store sets them aside and trains them again.
    """

    store: StoreFile = Path("manyheads.db")
    items: Whole = None
    """Only runs with this number of items."""
    d_model: Whole = None
    """Only runs with this width of the embedding."""
    graph: Word = None
    """Only runs on this kind of graph, e.g. permutation."""
    degree: Whole = None
    """Only runs on graphs of this degree."""
    rule: Word = None
    """Only runs with this rule."""
    heads: Whole = None
    """Only runs with this number of heads."""
    key_heads: Whole = None
    """Only runs with this number of key heads."""
    key_width: Whole = None
    """Only runs with heads of this width."""
    key_budget: Whole = None
    """Only runs with this D_K, key heads · key width."""
    seed: Whole = None
    """Only runs with this seed."""
    status: Word = None
    """Only results with this status: converged, limit, diverged, timeout, cancelled, failed or quarantined."""
    engine: Word = None
    """Only results of this engine."""
    kind: Word = None
    """Only runs of this kind."""
    limit: int = 20
    """Number of rows to list; --output and --json take all."""
    capacity: Flag = False
    """Show D_K* and h* of every problem in the store, and the laws fitted to them, instead of single runs."""
    goal: GoalWord = "0.99"
    """The score that --capacity counts as working."""
    verify: Flag = False
    """Check the whole store: SQLite's structure, every checksum, id and range. Exit code 1 if anything is damaged."""
    output: Output = None
    """Write all results that match into this file: .csv, .jsonl or .parquet."""
    force: Force = False
    json: Json = False

    def run(self) -> Answer:
        """Read, filter, show."""
        from manyheads.cli.render.progress import say_notes
        from manyheads.sweep import Store
        from manyheads.sweep.store.record import Status

        if self.status is not None and self.status not in get_args(Status):
            raise InputError(f"there is no status '{self.status}'{nearest(self.status, get_args(Status))}")
        self._check_output()
        if self.verify:
            return self._verify()
        everything = self.json or self.output is not None or self.capacity
        with Store.read(self.store) as store:
            # one more than is listed tells whether there are more
            records = store.records(self._where(), limit=-1 if everything else self.limit + 1)
            counts = store.counts()
        say_notes(store.state.notes, self.store)
        return self._capacities(records) if self.capacity else self._list(records, counts)

    def _verify(self) -> Answer:
        from rich.text import Text

        from manyheads.sweep import Store
        from manyheads.sweep.store.store import DamagedStoreError

        try:
            with Store.read(self.store, thorough=True) as store:
                state, kept = store.state, store.set_aside() - len(store.state.damaged)
            rows, damaged, faults, notes = state.rows, list(map(vars, state.damaged)), list(state.faults), state.notes
        except DamagedStoreError as error:
            rows, kept, damaged, faults, notes = 0, 0, [], [str(error)], [str(error)]
        sound = not damaged and not faults
        said = f"{rows:,} rows are proved, {len(damaged):,} are damaged, {kept:,} were set aside before"
        return Answer(
            facts={"sound": sound, "rows": rows, "damaged": damaged, "faults": faults, "set_aside": kept},
            shown=[
                Text("sound" if sound else "damaged", style="bold green" if sound else "bold red"),
                *map(Text, [f"{self.store}: {said}", *notes]),
                *(Text(f"  {row['id']}, {row['engine']}: {row['reason']}") for row in damaged),
            ],
            yes=sound,
        )

    def _where(self) -> dict[str, str | int]:
        from manyheads.sweep.store.store import FILTERS

        return {name: value for name in FILTERS if (value := getattr(self, name)) is not None}

    def _check_output(self) -> None:
        from manyheads.files import check_writable
        from manyheads.sweep.store.table_export import ENDINGS

        if self.output is None:
            return
        if self.capacity:
            raise InputError("--output writes single runs: leave --capacity out")
        require_ending("--output", self.output, tuple(ENDINGS))
        check_writable(self.output, force=self.force)

    def _list(self, records: Sequence[Record], counts: Mapping[str, int]) -> Answer:
        from manyheads.sweep.store.table_export import export

        written = []
        if self.output is not None:
            export([_row(record) for record in records], self.output, force=self.force)
            written.append(self.output)
        rows = [_row(record) for record in (records if self.json else records[: self.limit])]
        said = ", ".join(f"{count:,} {status}" for status, count in counts.items()) or "nothing yet"
        more = [f"… and more: --limit shows them, --output takes all {'' if self.output is None else len(records)}"]
        return Answer(
            facts={"counts": dict(counts), "results": rows, "written": written},
            shown=[
                _table(rows),
                *(more if len(records) > self.limit else []),
                shown_text(f"{self.store} holds {said}"),
                *shown_files(written),
            ],
            yes=bool(records),
        )

    def _capacities(self, records: Sequence[Record]) -> Answer:
        from manyheads.capacity import experiments, stored_problems
        from manyheads.cli.commands.measure import parse_goal
        from manyheads.cli.render.capacity_table import law_facts, problem_facts, shown_problems

        goal = parse_goal(self.goal)
        found = experiments(stored_problems(records, goal))
        return Answer(
            facts={
                "problems": [problem_facts(problem) for experiment in found for problem in experiment.problems],
                "laws": [law_facts(law, experiment) for experiment in found for law in experiment.laws],
            },
            shown=shown_problems(found, goal),
            yes=bool(found),
        )


def _row(record: Record) -> dict[str, object]:
    """The columns of a result, and its bits per weight."""
    from manyheads.capacity import run_bits
    from manyheads.sweep.store.table_export import as_row

    bits = run_bits(record.run)
    return as_row(record) | {"bits_per_weight": None if bits is None else bits.value}


def _table(rows: Sequence[Mapping[str, Any]]) -> RenderableType:
    from rich.table import Table

    table = Table(box=None, padding=(0, 1, 0, 0))
    listed = list(LISTED)
    if any("key_heads" in row for row in rows):  # only where heads of a listed run share keys
        listed.insert(listed.index("key_width"), "key_heads")
    short = {"key_width": "d_k", "key_heads": "keys"}
    for name in (*listed, "bits", "F1", "errors", "steps", "status"):
        justify: JustifyMethod = "left" if name in ("graph", "rule", "status") else "right"
        # a narrow terminal cuts words short, never numbers
        table.add_column(short.get(name, name), justify=justify, no_wrap=name not in ("graph", "status"))
    for row in rows:
        f1, bits = row.get("micro_f1"), row.get("bits_per_weight")
        cells = [None if bits is None else f"{bits:.2f}", None if f1 is None else f"{f1:.4f}"]
        cells += [row.get("exact_errors"), row["steps"], row["status"]]
        first = (row.get(name, row.get("heads")) if name == "key_heads" else row.get(name) for name in listed)
        table.add_row(*("" if cell is None else shown_text(cell, most=60) for cell in (*first, *cells)))
    return table
