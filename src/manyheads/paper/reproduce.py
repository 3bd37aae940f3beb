"""reproduce: run what is missing, draw everything, judge every claim."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from concurrent.futures import Executor
from dataclasses import dataclass
from pathlib import Path

from manyheads.draw.style import save
from manyheads.paper.exhibit import exhibit, needed, verdicts
from manyheads.paper.pictures import mark_quick
from manyheads.paper.rows import Rows, stored_rows
from manyheads.paper.scale import Scale
from manyheads.paper.trial import in_turns, is_possible
from manyheads.paper.verdict import Verdict
from manyheads.sweep import Progress, Store, Workers, sweep, threads
from manyheads.sweep.record import Meant


@dataclass(frozen=True)
class Shown:
    """One exhibit as it came out."""

    name: str
    title: str
    caption: str
    files: tuple[Path, ...]
    runs: int
    done: int


@dataclass(frozen=True)
class Reproduction:
    """Exhibits and verdicts, and the rows they rest on."""

    scale: Scale
    shown: tuple[Shown, ...]
    verdicts: tuple[Verdict, ...]
    rows: Rows


def left(names: Sequence[str], store: Store, scale: Scale) -> list[Meant]:
    """The runs that are still to be made."""
    runs = needed(names, scale)
    rows = stored_rows(store, runs)
    return [run for run in runs if run.id not in rows]


def measure_rows(
    names: Sequence[str],
    store: Store,
    scale: Scale,
    *,
    workers: Workers | Executor | None = None,
    progress: Callable[[Progress], None] | None = None,
) -> Rows:
    """Make what the store lacks, kind by kind; the rows of everything that is finished."""
    runs = needed(names, scale)
    possible = [run for run in runs if is_possible(run)]
    before = 0
    for trainer, alone, group in in_turns(possible):

        def told(one: Progress, before: int = before) -> None:
            if progress is not None:
                progress(Progress(before + one.done, len(possible), one.latest))

        if alone:
            with threads(1) as single:
                sweep(group, store, trainer=trainer, workers=single, progress=told)
        else:
            sweep(group, store, trainer=trainer, workers=workers, progress=told)
        before += len(group)
    return stored_rows(store, runs)


def present(names: Sequence[str], rows: Rows, scale: Scale, folder: Path) -> Reproduction:
    """Draw each exhibit into the folder and judge its claims; one that has no complete panel is not drawn."""
    folder.mkdir(parents=True, exist_ok=True)
    shown = []
    for name in names:
        module = exhibit(name)
        runs = module.runs(scale)
        done = len(rows.of(runs))
        if not done:
            shown.append(Shown(name, module.TITLE, "Not run.", (), len(runs), 0))
            continue
        figure = module.draw(rows, scale)
        mark_quick(figure, scale)
        files = save(figure, folder / name)
        shown.append(Shown(name, module.TITLE, module.caption(rows, scale), files, len(runs), done))
    return Reproduction(scale, tuple(shown), tuple(verdicts(names, rows, scale)), rows)
