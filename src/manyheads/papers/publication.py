"""The published rows with the fields of their runs, the points of an exhibit, and `paper`: both from Python."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import fmean
from typing import Any

from manyheads.errors import InputError
from manyheads.papers.effort import Scale
from manyheads.papers.exhibit import CLAIM, COLLECTIONS, EXHIBITS, exhibit_named, exhibit_names, needed, verdicts
from manyheads.papers.rows import Row, Rows, read_rows
from manyheads.papers.verdict import Verdict
from manyheads.sweep.store.table_export import run_columns

FILES = ("paper.jsonl.gz", "head-count.jsonl.gz")
FOLDERS = (Path(__file__).parents[3] / "docs" / "data", Path(__file__).parents[1] / "data")  # source tree, wheel


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
        the name of a field has the prefix `score_`. `steps` is the number of steps made, `step_limit` the limit.
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
    return columns | {f"score_{name}" if name in columns else name: value for name, value in row.scores.items()}


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
        columns[f"score_{name}" if name in columns else name] = fmean(values) if values else None
    return columns


@dataclass(frozen=True)
class PaperAnswer:
    """Exhibits of a paper by the published rows.

    Attributes:
        names: The names of the exhibits.
        captions: The caption of each exhibit.
        points: The points of the pictures, one record each, with the name of the exhibit.
        verdicts: The verdicts on their claims.
    """

    names: tuple[str, ...]
    captions: tuple[str, ...]
    points: tuple[dict[str, object], ...]
    verdicts: tuple[Verdict, ...]

    @property
    def frame(self) -> Any:
        """The points as a pandas table.

        Raises:
            InputError: pandas is not installed.
        """
        try:
            from pandas import DataFrame
        except ImportError:
            raise InputError("a frame needs pandas: pip install pandas; `points` has the same records") from None
        return DataFrame(list(self.points))


def paper(
    name: str | None = None,
    *,
    claim: str | int | None = None,
    rows: Rows | None = None,
    scale: Scale | None = None,
) -> PaperAnswer:
    """An exhibit or a claim of the papers, by the published rows. Nothing is trained.

    Args:
        name: An exhibit such as "fig3", or "all", "beyond", "retrieval"; None with a claim.
        claim: The number of a claim such as 6 or "18b"; None with a name.
        rows: Other rows of the same runs; None: the published rows.
        scale: The effort of the runs; None: the paper's.

    Returns:
        Captions, points and verdicts.

    Raises:
        InputError: The name or the claim is unknown, or not exactly one of the two is given.
    """
    if (name is None) == (claim is None):
        raise InputError('name one exhibit or one claim, for example paper("fig3") or paper(claim=6)')
    collections = {one.word: one for one in COLLECTIONS}
    names: tuple[str, ...] = (f"{CLAIM}{claim}",) if name is None else (name,)
    if name in collections:
        names = (*exhibit_names(collections[name]), *exhibit_names(collections[name], hours=True))
    known, scale = published() if rows is None else rows, scale or Scale()
    chosen = [exhibit_named(one) for one in names]
    return PaperAnswer(
        names,
        tuple(one.caption(known, scale) for one in chosen),
        tuple({"exhibit": one} | point for one in names for point in exhibit_points(one, known, scale)),
        tuple(verdicts(names, known, scale)),
    )
