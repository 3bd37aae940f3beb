"""The published rows with the fields of their runs, the points of an exhibit, and `paper`: both from Python."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from statistics import fmean
from typing import TYPE_CHECKING, Any

from manyheads.capacity import Capacity, StoredProblem
from manyheads.errors import InputError, require_type
from manyheads.layer.rules import MAX
from manyheads.papers.effort import Scale
from manyheads.papers.exhibit import CLAIM, COLLECTIONS, EXHIBITS, exhibit_named, exhibit_names, needed, verdicts
from manyheads.papers.reproduction import problems_of, require_mark
from manyheads.papers.rows import Row, Rows, read_rows
from manyheads.papers.verdict import Verdict
from manyheads.sweep.store.table_export import run_columns
from manyheads.tables import Shown, Summary, data_frame, summary

if TYPE_CHECKING:
    from matplotlib.figure import Figure

FILES = ("paper.jsonl.gz", "head-count.jsonl.gz")
FOLDERS = (Path(__file__).parents[3] / "docs" / "data", Path(__file__).parents[1] / "data")  # source tree, wheel


@cache  # a notebook asks for one exhibit after another
def published() -> Rows:
    """The rows of both papers that this project publishes.

    Returns:
        The rows of docs/data.

    Raises:
        InputError: This installation does not have the files.
    """
    for folder in FOLDERS:
        files = [folder / name for name in FILES]
        if all(path.exists() for path in files):
            rows = Rows(())
            for path in files:
                rows = rows.joined(read_rows(path))
            return rows
    raise InputError("this installation has no published rows: name a file of docs/data (--from-rows)")


def row_records(rows: Rows, scale: Scale, names: Iterable[str] | None = None) -> list[dict[str, object]]:
    """Every row as one flat record: the fields of its run, its scores, status, steps, seconds, and its exhibits.

    Args:
        rows: The rows.
        scale: The effort of the runs; rows of other efforts have no run here and are left out.
        names: The exhibits; None: all exhibits of both papers.

    Returns:
        One record for each run with a row. `exhibits` has the names of the exhibits, separated by spaces. A score with
        the name of a field, or with a number of heads for a name, has the prefix `score_`. `steps` is the number of
        steps made, `step_limit` the limit.
    """
    where: dict[str, list[str]] = {}
    runs = {}
    for name in EXHIBITS if names is None else names:
        for run in needed([name], scale, rows):
            if run.id in rows:
                runs[run.id] = run
                where.setdefault(run.id, []).append(name)
    return [_record(run.fields, rows[run.id]) | {"exhibits": " ".join(where[run.id])} for run in runs.values()]


def _record(fields: Mapping[str, object], row: Row) -> dict[str, object]:
    columns: dict[str, object] = {"id": row.id, "kind": row.kind, "status": row.status}
    columns |= {name: value for name, value in run_columns(fields).items() if name not in columns}
    columns |= {"steps": row.steps, "seconds": row.seconds}
    return columns | {_score_column(name, columns): value for name, value in row.scores.items()}


def _score_column(name: str, columns: Mapping[str, object]) -> str:
    """The column of a score: with a prefix if its name is that of a field, or a number of heads."""
    return f"score_{name}" if name in columns or name.isdigit() else name


def published_rows() -> list[dict[str, object]]:
    """Every published row with the fields of its run; `pandas.DataFrame(published_rows())` is a table of them.

    Returns:
        One record for each run: id, kind, status, items, d_model, heads, key_width, seed, graph, degree, rule, …

    Raises:
        InputError: This installation does not have the files.
    """
    return row_records(published(), Scale())


def exhibit_points(name: str, rows: Rows, scale: Scale) -> list[dict[str, object]]:
    """The points of an exhibit's picture.

    Args:
        name: The name of the exhibit.
        rows: The rows.
        scale: The effort of the runs.

    Returns:
        For a figure of thresholds, one record for each problem: its sizes, D_K* (`key_budget`) and h* (`heads`) with
        their ranges. For any other exhibit, one record for each setting: the fields, the number of seeds, and the mean
        of each score over the seeds.
    """
    one = exhibit_named(name)
    if one.points is not None:
        return one.points(rows, scale)
    groups: dict[tuple[tuple[str, str], ...], list[tuple[dict[str, object], Row]]] = {}
    for run in needed([name], scale, rows):
        if run.id in rows:
            fields = {key: value for key, value in run_columns(run.fields).items() if "seed" not in key}
            groups.setdefault(tuple((key, repr(value)) for key, value in fields.items()), []).append(
                (fields, rows[run.id])
            )
    return [_mean(group) for group in groups.values()]


def _mean(group: Sequence[tuple[dict[str, object], Row]]) -> dict[str, object]:
    columns: dict[str, object] = group[0][0] | {"seeds": len(group)}
    for name in group[0][1].scores:
        values = [value for _, row in group if (value := row.scores.get(name)) is not None]
        columns[_score_column(name, columns)] = fmean(values) if values else None
    return columns


@dataclass(frozen=True, repr=False)
class PaperAnswer(Shown):
    """Exhibits of a paper by the published rows.

    Attributes:
        names: The names of the exhibits.
        captions: The caption of each exhibit.
        points: The points of the pictures, one record each, with the name of the exhibit. If capacities were added,
            `source` is "published" or "added".
        verdicts: The verdicts on their claims.
        rows: The rows that all of this follows from.
        scale: The effort of the runs.
        added: The capacities that were added.
    """

    names: tuple[str, ...]
    captions: tuple[str, ...]
    points: tuple[dict[str, object], ...]
    verdicts: tuple[Verdict, ...]
    rows: Rows
    scale: Scale
    added: tuple[StoredProblem, ...] = ()

    @property
    def frame(self) -> Any:
        """The points as a pandas data frame.

        Raises:
            InputError: pandas is not installed; `points` has the same records.
        """
        return data_frame(self.points)

    @property
    def tables(self) -> list[str]:
        """The tables of the exhibits, in Markdown; empty for figures without one."""
        return [table for name in self.names for table in exhibit_named(name).tables(self.rows, self.scale)]

    def summary(self) -> Summary:
        """The captions, and the verdict on each claim with the measured numbers."""
        several = len(self.names) > 1
        lines: list[tuple[str, object]] = [
            *((f"claim {one.claim}", f"{one.outcome}: {one.measured or one.why}") for one in self.verdicts),
            *(zip(self.names, self.captions, strict=True) if several else [("caption", self.captions[0])]),
            ("points", f"{len(self.points):,}: `.frame` has them"),
            ("added", _sizes(self.added) or None),
        ]
        title = f"{len(self.names)} exhibits" if several else f"{self.names[0]}: {exhibit_named(self.names[0]).title}"
        return summary(title, lines)

    def picture(self) -> Figure:
        """The picture of the exhibit, with the added capacities as stars.

        Raises:
            InputError: There are several exhibits, or the exhibit is a table.
        """
        if len(self.names) > 1:
            raise InputError(f"one exhibit is drawn at a time: give the name of one, such as {self.names[0]}")
        one = exhibit_named(self.names[0])
        if one.draw is None:
            raise InputError(f"{self.names[0]} is a table and has no picture: `tables` of this answer has its text")
        figure = one.draw(self.rows, self.scale)
        if self.added and one.mark is not None:
            one.mark(figure, self.added, "added")
        return figure


def _sizes(added: Sequence[StoredProblem]) -> str:
    """The capacities that were added, in words."""
    fields = ((one.fields["items"], one.fields["d_model"], one.threshold.key_budget) for one in added)
    return "; ".join(f"{items} items, d_model {width}: D_K* {budget}" for items, width, budget in fields)


def paper(
    name: str | None = None,
    *,
    claim: str | int | None = None,
    add: Capacity | Sequence[Capacity] | Path | str | None = None,
    rows: Rows | None = None,
    scale: Scale | None = None,
) -> PaperAnswer:
    """An exhibit or a claim of the papers, by the published rows. Nothing is trained.

    Args:
        name: An exhibit such as "fig3", or "all", "beyond", "retrieval"; None with a claim.
        claim: The number of a claim such as 6 or "18b"; None with a name.
        add: Measured capacities, or the file of a store that has some. They join the points and the picture of fig3,
            fig10 and, if m = 8·d_model, fig4. The published numbers and the verdicts stay as they are.
        rows: Other rows of the same runs; None: the published rows.
        scale: The effort of the runs; None: the paper's.

    Returns:
        Captions, points and verdicts. `draw` draws its picture.

    Raises:
        InputError: The name or the claim is unknown, or not exactly one of the two is given, or the exhibit cannot
            show capacities, or nothing works in an added capacity.
    """
    if (name is None) == (claim is None):
        raise InputError('name one exhibit or one claim, for example paper("fig3") or paper(claim=6)')
    require_type(name if claim is None else str(claim), str, "the name of an exhibit")
    collections = {one.word: one for one in COLLECTIONS}
    names: tuple[str, ...] = (f"{CLAIM}{claim}",) if name is None else (name,)
    if name in collections:
        names = (*exhibit_names(collections[name]), *exhibit_names(collections[name], hours=True))
    chosen = [exhibit_named(one) for one in names]
    added = () if add is None else _added(add, names if len(names) == 1 else (name or "",))
    known, scale = published() if rows is None else rows, scale or Scale()
    points = [{"exhibit": one} | point for one in names for point in exhibit_points(one, known, scale)]
    if added:
        points = [point | {"source": "published"} for point in points]
        points += [{"exhibit": names[0]} | problem_record(one) | {"source": "added"} for one in added]
    return PaperAnswer(
        names,
        tuple(one.caption(known, scale) for one in chosen),
        tuple(points),
        tuple(verdicts(names, known, scale)),
        known,
        scale,
        added,
    )


def _added(add: Capacity | Sequence[Capacity] | Path | str, names: Sequence[str]) -> tuple[StoredProblem, ...]:
    """The capacities to draw, as the problems of a store."""
    require_mark(names)
    if isinstance(add, (str, Path)):
        return tuple(problems_of(Path(add), names))
    given = [add] if isinstance(add, Capacity) else add
    if not isinstance(given, Sequence) or not all(isinstance(one, Capacity) for one in given):
        raise InputError("add is a capacity that `measure` returned, a list of them, or the file of a store")
    found = tuple(StoredProblem(one.fields, one.threshold, one.seeds, one.runs) for one in given)
    for one in found:
        if one.measured is None or one.fields["rule"] != MAX.name or one.threshold.key_heads is not None:
            raise InputError(
                f"a capacity with {one.fields['items']} items cannot be added: it needs a key budget that works, a "
                "graph of a kind such as permutation:64, the rule max, and keys that no heads share"
            )
    return found


def problem_record(problem: StoredProblem) -> dict[str, object]:
    """A measured problem as a record with the columns of the figures of thresholds.

    Args:
        problem: A problem of a store with a key budget that works.

    Returns:
        Its sizes, its place on the axes of the figures, D_K* and h* with their ranges.
    """
    at = problem.measured
    assert at is not None, "only problems with a key budget that works are added"
    names = ("items", "d_model", "graph", "degree", "rule")
    sizes = {name: problem.fields[name] for name in names if name in problem.fields}
    law = {"relations": at.relations, "x": at.relations * math.log2(at.items) / at.d_model}
    found = problem.threshold.facts | {"key_width": problem.threshold.key_width}
    return sizes | law | {"compression": at.items / at.d_model} | found
