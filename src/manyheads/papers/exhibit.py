"""Exhibit: a figure or table of the paper: what it runs, how it is drawn, what it claims."""

from __future__ import annotations

import difflib
from collections.abc import Sequence
from importlib import import_module
from typing import Protocol, cast, runtime_checkable

from matplotlib.figure import Figure

from manyheads.errors import InputError
from manyheads.papers.rows import Rows
from manyheads.papers.scale import Scale
from manyheads.papers.threshold_search import Hunt
from manyheads.papers.verdict import Verdict
from manyheads.sweep.store.record import Storable


@runtime_checkable
class Exhibit(Protocol):
    """What every module of a figure or table has."""

    TITLE: str

    def runs(self, scale: Scale) -> Sequence[Storable]:
        """Everything it needs to have been run."""

    def draw(self, rows: Rows, scale: Scale) -> Figure:
        """The picture, from rows alone."""

    def caption(self, rows: Rows, scale: Scale) -> str:
        """What the picture shows, in numbers from the rows."""

    def claims(self, rows: Rows, scale: Scale) -> list[Verdict]:
        """The claims of the paper that it bears on."""


@runtime_checkable
class Searching(Exhibit, Protocol):
    """An exhibit that also needs runs which nobody can list beforehand: those that its searches come to ask for."""

    def hunts(self, scale: Scale) -> Sequence[Hunt]:
        """Its searches."""


FIGURES = tuple(f"fig{number}" for number in (1, 2, 3, 4, 5, 6, 8, 9, 10, 11, 12, 13))
TABLES = ("table1", "table2")
CLAIMS = (  # what the paper says without a picture of its own
    "constructions",
    "softmax_construction",
    "construction_cost",
    "split_cost",
    "no_compression",
    "bounds_gap",
    "one_or_many",
)
NAMES = (*FIGURES, *TABLES, *CLAIMS)
HOURS = ("fig7",)  # takes hours by itself, so that it is asked for by its name and shown wherever its rows are
BEYOND = ("beyond_grid", "beyond_exact", "beyond_freedom", "beyond_sensitivity")  # past the paper
RETRIEVAL = ("retrieval_heads", "retrieval_variants", "retrieval_width", "retrieval_digits")  # arXiv 2510.06662


def exhibit(name: str) -> Exhibit:
    """The module of this name; an unknown one is refused with those there are."""
    known = (*NAMES, *HOURS, *BEYOND, *RETRIEVAL)
    if name not in known:
        near = difflib.get_close_matches(name, known, n=1)
        hint = f" (did you mean {near[0]}?)" if near else ""
        raise InputError(
            f"there is no '{name}' in the paper{hint}: choose from all, beyond, retrieval, {', '.join(known)}"
        )
    room = "beyond" if name in BEYOND else "head_count" if name in RETRIEVAL else "exhibits"
    return cast(Exhibit, import_module(f"manyheads.papers.{room}.{name.removeprefix('beyond_')}"))


def needed(names: Sequence[str], scale: Scale, rows: Rows | None = None, *, foresee: bool = False) -> list[Storable]:
    """The runs of all these exhibits, each once: those they list, and those their searches ask for, given these rows.

    With `foresee` the searches are followed to their end, on a guess at what the missing runs will show.
    """
    told, modules = rows or Rows(()), [exhibit(name) for name in names]
    runs = [run for module in modules for run in module.runs(scale)]
    hunts = dict.fromkeys(
        hunt for module in modules if isinstance(module, Searching) for hunt in module.hunts(scale)
    )  # exhibits share them
    asked = [run for hunt in hunts for run in (hunt.foresee(told) if foresee else hunt.follow(told)).runs]
    return list({run.id: run for run in (*runs, *asked)}.values())


def is_complete(name: str, scale: Scale, rows: Rows) -> bool:
    """Whether everything that it needs has a row, and its searches have ended."""
    return all(run.id in rows for run in needed([name], scale, rows))


def verdicts(names: Sequence[str], rows: Rows, scale: Scale) -> list[Verdict]:
    """The claims of all these exhibits, each once, in the order of their numbers."""
    found = {verdict.claim: verdict for name in names for verdict in exhibit(name).claims(rows, scale)}
    return sorted(found.values(), key=lambda verdict: (int("".join(filter(str.isdigit, verdict.claim))), verdict.claim))
