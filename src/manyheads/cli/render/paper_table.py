"""Tables of a paper's reproduction: verdicts with their exhibits, captions, a line for each exhibit, rows by kind."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from rich.console import RenderableType
from rich.table import Table
from rich.text import Text

from manyheads.cli.render.answer import Answer, shown_files, shown_notes
from manyheads.papers import Rows, Scale, Verdict, claim_exhibits, exhibit_named, exhibit_names
from manyheads.papers.exhibit import COLLECTIONS
from manyheads.papers.paper_page import tally
from manyheads.papers.publication import exhibit_points, row_records
from manyheads.papers.reproduction import Reproduction
from manyheads.sweep.store.table_export import export
from manyheads.text import shown_text


def shown_verdicts(verdicts: Sequence[Verdict]) -> list[RenderableType]:
    """The table of claims with the exhibit of each, and the number of verdicts of each kind."""
    table, exhibits = Table(box=None, padding=(0, 2, 1, 0)), claim_exhibits()
    for heading in ("#", "exhibit", "the paper says", "measured", "verdict"):
        table.add_column(heading, overflow="fold", no_wrap=heading == "exhibit")
    for one in verdicts:
        cells = (one.claim, exhibits.get(one.claim, ""), one.says, one.measured or one.why, one.outcome)
        table.add_row(*(Text(shown_text(cell)) for cell in cells))
    return [table, Text(tally(verdicts))]


def claim_facts(verdicts: Sequence[Verdict]) -> list[dict[str, object]]:
    """The verdicts for programs, each with the exhibit of its claim."""
    exhibits = claim_exhibits()
    return [vars(verdict) | {"exhibit": exhibits.get(verdict.claim)} for verdict in verdicts]


def shown_captions(made: Reproduction) -> list[RenderableType]:
    """The captions of the exhibits that judge no claim: they have no line in the table of claims."""
    return [
        Text(shown_text(f"{one.title}. {one.caption}", most=5_000) + "\n")
        for one in made.exhibits
        if not one.exhibit.judges_claims
    ]


def exhibit_facts(made: Reproduction, pictures: Sequence[Path]) -> dict[str, object]:
    """The exhibits for programs: caption, number of runs, files, and the points of the picture; and the verdicts."""
    exhibits = [
        vars(one)
        | {"files": [str(path) for path in pictures if path.stem == one.name]}
        | {"points": exhibit_points(one.name, made.rows, made.scale)}
        for one in made.exhibits
    ]
    return {"exhibits": exhibits, "claims": claim_facts(made.verdicts)}


def list_answer(
    names: Sequence[str], effort: Callable[[Sequence[str]], tuple[int, int, float]], *, as_json: bool
) -> Answer:
    """`manyheads paper list`: a line for each exhibit and each collection, printed as soon as it is known.

    Args:
        names: The names of the exhibits.
        effort: Returns the number of runs of some exhibits, the number of missing runs, and their seconds.
        as_json: Whether the lines are not printed.
    """
    facts = []
    lines: list[tuple[str, str, Sequence[str]]] = [(name, exhibit_named(name).title, (name,)) for name in names]
    lines += [(one.word, one.title, exhibit_names(one)) for one in COLLECTIONS]
    for name, title, group in lines:
        runs, missing, seconds = effort(group)
        left = "needs torch" if math.isnan(seconds) else f"{seconds / 60:.1f} min"
        if not as_json:
            print(f"{name:<22}{runs:>7,}{runs - missing:>9,}{left:>12}  {title}", flush=True)
        facts.append({"name": name, "title": title, "runs": runs, "missing": missing, "seconds": seconds})
    return Answer({"exhibits": facts}, [], yes=True)


def rows_answer(rows: Rows, scale: Scale, path: Path | None, *, force: bool) -> Answer:
    """`manyheads paper rows`: the number of rows of each kind; with a path, all rows are written there."""
    records = row_records(rows, scale)
    lost, written = len(rows) - len(records), [] if path is None else [path]
    notes = [f"{lost:,} rows belong to no run of this scale and are left out"] if lost else []
    if path is not None:
        export(records, path, force=force)
    shown = [_kinds(records), *shown_notes(notes), *shown_files(written)]
    return Answer({"rows": len(records) if written else records, "written": written}, shown, yes=bool(records))


def _kinds(records: Sequence[Mapping[str, object]]) -> Table:
    table = Table(box=None, padding=(0, 2, 0, 0))
    table.add_column("kind")
    table.add_column("rows", justify="right")
    for kind, count in Counter(str(record["kind"]) for record in records).most_common():
        table.add_row(kind, f"{count:,}")
    table.add_row("all", f"{len(records):,}")
    return table
