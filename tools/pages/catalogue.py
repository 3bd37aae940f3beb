"""The pages there are, how one is loaded, and how it is written."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import Protocol, cast

from matplotlib.figure import Figure

from manyheads.drawing.style import save
from manyheads.papers import BEYOND, CAPACITY, Scale, exhibit_named, needed, read_rows, write_rows
from manyheads.papers.exhibit import EXHIBITS
from manyheads.papers.rows import stored_rows
from manyheads.papers.trial import Trial, in_turns
from manyheads.sweep import Store, sweep, threads
from tools.pages.rows import DATA, DOCS, Tables, read_tables

PAGES = (
    "bits-per-weight",
    "block-scouting",
    "capacity-floor",
    "constructions",
    "fit",
    "incoherence",
    "one-head",
    "plan-check",
    "reliability",
    "shared-keys",
)
PAPERS = {  # pages that a command of the package writes
    "paper": ("paper", "all", "--from-rows", "docs/data/paper.jsonl.gz", "--output", "docs/results"),
    "head-count": ("paper", "retrieval", "--from-rows", "docs/data/head-count.jsonl.gz", "--output", "docs/results"),
}


@dataclass(frozen=True)
class Settings:
    """How `measure` works; a page ignores the settings that it does not need."""

    data: Path | None = None
    """Folder with data files that are not part of the repository; rows that need them are kept if it is missing."""
    store: Path | None = None
    """Store for the runs of pages that train; by default <page>.db in the current directory."""
    workers: int = 2
    """Runs that are trained at the same time."""
    dask: str | None = None
    """Address of a Dask cluster whose workers search; only for capacity-floor."""
    trials: int | None = None
    """End every search after this number of trials, not by the clock; only for capacity-floor."""
    only: str | None = None
    """Measure only this part of a page; the module `measurement` of the page lists its parts."""
    share: str = "1/1"
    """"2/3": measure every third point, from the second on, so that three processes can share the work."""


class Page(Protocol):
    """The interface of tools.pages.<name>."""

    TABLES: Sequence[str]
    PARTS: Collection[str]

    def measure(self, settings: Settings) -> None:
        """Make the missing rows and store them."""

    def page(self, tables: Tables) -> str:
        """The text of the page."""

    def figures(self, tables: Tables) -> Mapping[str, Figure]:
        """The pictures by their file names without ending."""


def load(name: str) -> Page:
    """The package of a page."""
    return cast(Page, import_module(f"tools.pages.{name.replace('-', '_')}"))


def add_trials(settings: Settings) -> int:
    """Add to docs/data/paper.jsonl.gz the rows that need no training and no clock; returns how many were missing.

    The rows that are there stay as they are. The rows of runs that train are made by `manyheads paper`.
    """
    path, scale = DATA / "paper.jsonl.gz", Scale()
    rows = read_rows(path)
    names = [name for name in EXHIBITS if exhibit_named(name).collection in (CAPACITY, BEYOND)]
    runs = needed(names, scale, rows)
    missing = [run for run in runs if isinstance(run, Trial) and not run.EXCLUSIVE and run.id not in rows]
    with threads(settings.workers) as workers, Store.temporary() as store:
        for trainer, _, group in in_turns(missing, {}):
            sweep(group, store, trainer=trainer, workers=workers)
        joined = rows.joined(stored_rows(store, missing))
    write_rows(path, joined, runs)
    return len(missing)


def text(name: str) -> str:
    """The text of a page, from the stored rows."""
    page = load(name)
    return page.page(read_tables(page.TABLES))


def write(name: str) -> list[Path]:
    """Write docs/results/<name>.md and its pictures; returns the files."""
    page = load(name)
    tables = read_tables(page.TABLES)
    path = DOCS / "results" / f"{name}.md"
    path.write_text(page.page(tables), encoding="utf-8")
    pictures = [file for stem, figure in page.figures(tables).items() for file in save(figure, DOCS / "figures" / stem)]
    return [path, *pictures]
