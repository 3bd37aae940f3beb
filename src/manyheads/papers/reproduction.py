"""reproduce: run what is missing, judge every claim, draw everything."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from concurrent.futures import Executor
from dataclasses import dataclass
from pathlib import Path

from manyheads.drawing.style import save
from manyheads.files.atomic_files import make_directory
from manyheads.papers.exhibit import HOURS, exhibit, needed, verdicts
from manyheads.papers.pictures import mark_quick
from manyheads.papers.rows import Rows, stored_rows
from manyheads.papers.scale import Scale
from manyheads.papers.trial import Blocks, in_turns, is_possible
from manyheads.papers.verdict import Verdict
from manyheads.sweep import BlockTrainer, Store, SweepProgress, Workers, sweep, threads
from manyheads.sweep.store.record import Storable


@dataclass(frozen=True)
class Shown:
    """One exhibit as it came out."""

    name: str
    title: str
    caption: str
    runs: int
    done: int


@dataclass(frozen=True)
class Origin:
    """Where the rows of a page come from, and the command that made it, if one did."""

    rows: str = "the rows alone"
    command: str = ""


@dataclass(frozen=True)
class Reproduction:
    """Exhibits and verdicts, the rows they rest on, and where these come from."""

    scale: Scale
    shown: tuple[Shown, ...]
    verdicts: tuple[Verdict, ...]
    rows: Rows
    origin: Origin = Origin()


def known_rows(names: Sequence[str], store: Store, scale: Scale) -> Rows:
    """What the store has of these exhibits; searches are followed as far as it leads."""
    return stored_rows(store, needed(names, scale, stored_rows(store)))


def left(names: Sequence[str], rows: Rows, scale: Scale) -> list[Storable]:
    """The runs that are still to be made; of searches, about those that will be."""
    return _without(rows, needed(names, scale, rows, foresee=True))


def measure_rows(
    names: Sequence[str],
    store: Store,
    scale: Scale,
    *,
    blocks: Blocks | None = None,
    workers: Workers | Executor | None = None,
    progress: Callable[[SweepProgress], None] | None = None,
) -> Rows:
    """Make what the store lacks, and then what searches ask for next, until they end; the rows of all that is finished.

    A run that was tried and has no row is not asked for again: it stays missing, and its search unfinished. Blocks on
    other embeddings than Gaussian ones need a trainer that has the table.
    """
    blocks = {"gaussian": BlockTrainer()} | dict(blocks or {})
    rows, tried = known_rows(names, store, scale), set[str]()
    while missing := [run for run in _without(rows, needed(names, scale, rows)) if run.id not in tried]:
        possible = [run for run in missing if is_possible(run, blocks)]
        before, impossible = len(rows), len(missing) - len(possible)
        in_all = before + len(left(names, rows, scale)) - impossible
        for trainer, alone, group in in_turns(possible, blocks):

            def told(one: SweepProgress, before: int = before, in_all: int = in_all) -> None:
                if progress is not None:
                    progress(SweepProgress(before + one.done, in_all, one.latest))

            if alone:
                with threads(1) as single:
                    sweep(group, store, trainer=trainer, workers=single, progress=told)
            else:
                sweep(group, store, trainer=trainer, workers=workers, progress=told)
            before += len(group)
        tried.update(run.id for run in missing)
        rows = rows.joined(stored_rows(store, missing))
    return rows


def report(names: Sequence[str], rows: Rows, scale: Scale, *, origin: Origin = Origin()) -> Reproduction:
    """Caption each exhibit and judge its claims; one without a single run is told as not run.

    What takes hours is left out until it has runs.
    """
    shown = []
    for name in names:
        module = exhibit(name)
        runs = needed([name], scale, rows)
        done = len(rows.of(runs))
        if not done and name in HOURS:
            continue
        caption = module.caption(rows, scale) if done else "Not run."
        shown.append(Shown(name, module.TITLE, caption, len(runs), done))
    return Reproduction(scale, tuple(shown), tuple(verdicts(names, rows, scale)), rows, origin)


def draw(made: Reproduction, folder: Path) -> list[Path]:
    """Draw every exhibit that has runs into the folder, under its name, as PNG and SVG."""
    make_directory(folder)
    files: list[Path] = []
    for one in made.shown:
        if one.done:
            figure = exhibit(one.name).draw(made.rows, made.scale)
            mark_quick(figure, made.scale)
            files += save(figure, folder / one.name)
    return files


def _without(rows: Rows, runs: Sequence[Storable]) -> list[Storable]:
    return [run for run in runs if run.id not in rows]
