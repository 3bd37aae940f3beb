"""`manyheads results`: what a store holds, filtered, listed or exported, and the capacities and laws in it."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, get_args

import tyro

from manyheads.cli.render.answer import Answer, Flag
from manyheads.errors import InputError

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from rich.console import RenderableType

    from manyheads.sweep import Record

Number = Annotated[int | None, tyro.conf.arg(metavar="INT", help_behavior_hint="")]
Word = Annotated[str | None, tyro.conf.arg(metavar="WORD", help_behavior_hint="")]
LISTED = ("items", "d_model", "graph", "rule", "heads", "key_width", "seed")


@dataclass(frozen=True, kw_only=True)
class Results:
    """List what a store holds, or export it as CSV, JSON lines or Parquet."""

    store: Path = Path("manyheads.db")
    """The store to read."""
    items: Number = None
    """Only runs with so many items."""
    d_model: Number = None
    """Only runs with this width of the embedding."""
    graph: Word = None
    """Only runs on this kind of graph."""
    degree: Number = None
    """Only runs on graphs of this degree."""
    rule: Word = None
    """Only runs with this rule."""
    heads: Number = None
    """Only runs with so many heads."""
    key_width: Number = None
    """Only runs with heads of this width."""
    key_budget: Number = None
    """Only runs with this D_K."""
    seed: Number = None
    """Only runs with this seed."""
    status: Word = None
    """Only results with this status: converged, limit, diverged, timeout, cancelled, failed or quarantined."""
    engine: Word = None
    """Only results of this engine."""
    kind: Word = None
    """Only runs of this kind."""
    limit: int = 20
    """How many rows to list; an export and --json take all."""
    capacity: Flag = False
    """Show D_K* and h* of every problem in the store, and the laws fitted to them, instead of single runs."""
    goal: Annotated[str, tyro.conf.arg(metavar="F1|exact")] = "0.99"
    """What --capacity counts as working."""
    export: Annotated[Path | None, tyro.conf.arg(metavar="FILE", help_behavior_hint="")] = None
    """Write all that match into a file: .csv, .jsonl or .parquet."""
    force: Flag = False
    """Overwrite the exported file if it exists."""
    json: Flag = False
    """Print JSON instead of a table."""

    def run(self) -> Answer:
        """Read, filter, show."""
        from manyheads.sweep import Store
        from manyheads.sweep.store.record import Status

        if self.limit < 1:
            raise InputError(f"--limit is at least 1, not {self.limit}")
        if self.status is not None and self.status not in get_args(Status):
            raise InputError(f"there is no status '{self.status}': choose from {', '.join(get_args(Status))}")
        self._check_export()
        everything = self.json or self.export is not None or self.capacity
        with Store.read(self.store) as store:
            # one more than is listed tells whether there are more
            records = store.records(self._where(), limit=-1 if everything else self.limit + 1)
            counts = store.counts()
        return self._capacities(records) if self.capacity else self._list(records, counts)

    def _where(self) -> dict[str, str | int]:
        from manyheads.sweep.store.store import FILTERS

        return {name: value for name in FILTERS if (value := getattr(self, name)) is not None}

    def _check_export(self) -> None:
        from manyheads.files import check_writable
        from manyheads.sweep.store.table_export import ENDINGS

        if self.export is None:
            return
        if self.capacity:
            raise InputError("--export writes single runs: leave --capacity out")
        if self.export.suffix not in ENDINGS:
            raise InputError(f"--export must end in {', '.join(ENDINGS)}, not as {self.export.name!r} does")
        check_writable(self.export, force=self.force)

    def _list(self, records: Sequence[Record], counts: Mapping[str, int]) -> Answer:
        from manyheads.cli.render.certificate_table import shown_files
        from manyheads.sweep.store.table_export import as_row, export

        written = []
        if self.export is not None:
            export(records, self.export, force=self.force)
            written.append(self.export)
        rows = [as_row(record) for record in (records if self.json else records[: self.limit])]
        said = ", ".join(f"{count:,} {status}" for status, count in counts.items()) or "nothing yet"
        more = [f"… and more: --limit shows them, --export takes all {'' if self.export is None else len(records)}"]
        return Answer(
            facts={"counts": dict(counts), "results": rows, "written": [str(path) for path in written]},
            shown=[
                _table(rows),
                *(more if len(records) > self.limit else []),
                f"{self.store} holds {said}",
                *shown_files(written),
            ],
            yes=bool(records),
        )

    def _capacities(self, records: Sequence[Record]) -> Answer:
        from manyheads.capacity import experiments, stored_problems
        from manyheads.cli.commands.measure import parse_goal
        from manyheads.cli.render.law_table import law_facts, problem_facts, shown_problems

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


def _table(rows: Sequence[Mapping[str, Any]]) -> RenderableType:
    from rich.table import Table

    table = Table(box=None, padding=(0, 1, 0, 0))
    for name in (*LISTED, "F1", "errors", "steps", "status"):
        table.add_column(name, justify="left" if name in ("graph", "rule", "status") else "right", no_wrap=True)
    for row in rows:
        f1 = row.get("micro_f1")
        cells = [None if f1 is None else f"{f1:.4f}", row.get("exact_errors"), row["steps"], row["status"]]
        table.add_row(*("" if cell is None else str(cell) for cell in (*map(row.get, LISTED), *cells)))
    return table
