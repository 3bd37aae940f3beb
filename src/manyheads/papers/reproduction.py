"""Reproduction: train the missing runs, caption every exhibit, judge every claim, draw every picture."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from concurrent.futures import Executor
from dataclasses import dataclass
from pathlib import Path

from matplotlib.figure import Figure

from manyheads.capacity import Goal, StoredProblem, stored_problems
from manyheads.drawing.style import GREY, pack_picture
from manyheads.errors import InputError
from manyheads.layer.rules import MAX
from manyheads.papers.effort import Scale
from manyheads.papers.exhibit import EXHIBITS, Exhibit, exhibit_named, needed, verdicts
from manyheads.papers.rows import Rows, stored_rows
from manyheads.papers.trial import BlockTrainers, in_turns, is_possible, lacks_torch
from manyheads.papers.verdict import Verdict
from manyheads.sweep import BlockTrainer, Store, SweepProgress, Workers, sweep, threads
from manyheads.sweep.store.record import Storable


@dataclass(frozen=True)
class ExhibitReport:
    """One exhibit with its caption and the number of its runs."""

    name: str
    title: str
    caption: str
    runs: int  # the number of runs that it needs
    done: int  # the number of its runs that have a row

    @property
    def exhibit(self) -> Exhibit:
        """The exhibit itself."""
        return exhibit_named(self.name)


@dataclass(frozen=True)
class Origin:
    """The source of the rows of a page, and the command that made the page, if one did."""

    rows: str = "the rows alone"
    command: str = ""


@dataclass(frozen=True)
class Reproduction:
    """Exhibits and verdicts, with the rows that they follow from."""

    scale: Scale
    exhibits: tuple[ExhibitReport, ...]
    verdicts: tuple[Verdict, ...]
    rows: Rows
    origin: Origin = Origin()


def known_rows(names: Sequence[str], store: Store, scale: Scale) -> Rows:
    """The rows that a store has for these exhibits, searches included."""
    return stored_rows(store, needed(names, scale, stored_rows(store)))


def missing_runs(names: Sequence[str], rows: Rows, scale: Scale) -> list[Storable]:
    """The runs of these exhibits without a row; for searches an estimate of them."""
    return _without(rows, needed(names, scale, rows, foresee=True))


def without_torch(names: Sequence[str], path: Path, scale: Scale) -> list[str]:
    """The exhibits that cannot be completed because torch is not installed.

    Args:
        names: of exhibits.
        path: of the store, which need not exist; a run that it has needs no torch.
        scale: the effort.
    """
    lacking = [name for name in names if any(map(lacks_torch, needed([name], scale)))]
    if not lacking or not path.exists():
        return lacking
    with Store.read(path) as store:
        rows = known_rows(lacking, store, scale)
    return [name for name in lacking if any(map(lacks_torch, _without(rows, needed([name], scale, rows))))]


def measure_rows(
    names: Sequence[str],
    store: Store,
    scale: Scale,
    *,
    blocks: BlockTrainers | None = None,
    workers: Workers | Executor | None = None,
    progress: Callable[[SweepProgress], None] | None = None,
) -> Rows:
    """Train the runs that the store lacks, then those that the searches ask for next, until all searches end.

    A run that was tried and has no row is not tried again: it stays missing and its search unfinished.

    Args:
        names: of exhibits.
        store: an open store; every run is added as soon as it ends.
        scale: the effort.
        blocks: trainers of blocks on embeddings other than Gaussian ones.
        workers: see `sweep`.
        progress: called after every run.

    Returns:
        The rows of all finished runs.
    """
    blocks = {"gaussian": BlockTrainer()} | dict(blocks or {})
    rows, tried = known_rows(names, store, scale), set[str]()
    while missing := [run for run in _without(rows, needed(names, scale, rows)) if run.id not in tried]:
        possible = [run for run in missing if is_possible(run, blocks)]
        before, impossible = len(rows), len(missing) - len(possible)
        in_all = before + len(missing_runs(names, rows, scale)) - impossible
        for trainer, exclusive, group in in_turns(possible, blocks):

            def forward(one: SweepProgress, before: int = before, in_all: int = in_all) -> None:
                if progress is not None:
                    progress(SweepProgress(before + one.done, in_all, one.latest))

            if exclusive:
                with threads(1) as single:
                    sweep(group, store, trainer=trainer, workers=single, progress=forward)
            else:
                sweep(group, store, trainer=trainer, workers=workers, progress=forward)
            before += len(group)
        tried.update(run.id for run in missing)
        rows = rows.joined(stored_rows(store, missing))
    return rows


def report(names: Sequence[str], rows: Rows, scale: Scale, *, origin: Origin = Origin()) -> Reproduction:
    """Caption each exhibit and judge its claims.

    Args:
        names: of exhibits. One that takes hours is left out while it has no rows.
        rows: of the runs.
        scale: the effort.
        origin: the source of the rows, for the page.
    """
    reports = []
    for name in names:
        one = exhibit_named(name)
        runs = needed([name], scale, rows)
        done = len(rows.of(runs))
        if done or not one.hours:
            caption = one.caption(rows, scale) if done else "Not run."
            reports.append(ExhibitReport(name, one.title, caption, len(runs), done))
    return Reproduction(scale, tuple(reports), tuple(verdicts(names, rows, scale)), rows, origin)


def require_mark(names: Sequence[str]) -> None:
    """Refuse added capacities where none of the exhibits draws them.

    Raises:
        InputError: None does. The message names those that do.
    """
    able = [one for one in EXHIBITS if exhibit_named(one).mark is not None]
    if not set(able) & set(names):
        raise InputError(f"{', '.join(names)} does not show added capacities: {', '.join(able)} do")


def problems_of(path: Path, names: Sequence[str]) -> list[StoredProblem]:
    """The problems of a store that have a D_K* under the rule max, for `draw_pictures`.

    Args:
        path: The store.
        names: The exhibits that are to show them.

    Returns:
        The problems, with thresholds for a mean F1 of 0.99.

    Raises:
        InputError: There is no store, or no such problem in it, or none of the exhibits shows added capacities.
    """
    require_mark(names)
    with Store.read(path) as store:
        found = stored_problems(store.records(), Goal())
    alike = [one for one in found if one.fields["rule"] == MAX.name and one.threshold.key_heads is None]
    works = [one for one in alike if one.measured is not None]
    if not works:
        raise InputError(f"{path} has no capacity to draw: see `manyheads results --capacity --store {path}`")
    return works


def draw_pictures(
    made: Reproduction, folder: Path, *, added: Sequence[StoredProblem] = (), source: str = ""
) -> dict[Path, bytes]:
    """Draw every exhibit that has rows and a picture, as NAME.png and NAME.svg in the folder.

    Args:
        made: The exhibits with their rows.
        folder: The folder of the files.
        added: Measured capacities that are drawn into the figures of thresholds.
        source: The name of the added capacities in the legend.

    Returns:
        The content of the files, for `write_together`.
    """
    files: dict[Path, bytes] = {}
    for one in made.exhibits:
        if one.done and one.exhibit.draw is not None:
            figure = one.exhibit.draw(made.rows, made.scale)
            if added and one.exhibit.mark is not None:
                one.exhibit.mark(figure, added, source)
            if made.scale.quick:
                _mark_quick(figure)
            files |= pack_picture(figure, folder / one.name)
    return files


def _mark_quick(figure: Figure) -> None:
    """Write "quick" across a picture that is a sketch."""
    figure.text(0.5, 0.5, "quick", fontsize=70, color=GREY, alpha=0.12, ha="center", va="center", rotation=25)


def _without(rows: Rows, runs: Sequence[Storable]) -> list[Storable]:
    return [run for run in runs if run.id not in rows]
