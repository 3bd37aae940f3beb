"""Exhibit: a figure or table of a paper with everything that it needs; and the one registry of exhibits.

To add a figure, write a module that defines an `Exhibit` and add one line to `EXHIBITS`. From outside the package, call
`register_exhibit`.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cache
from importlib import import_module
from types import ModuleType

from matplotlib.figure import Figure

from manyheads.capacity import StoredProblem
from manyheads.errors import InputError, did_you_mean
from manyheads.papers.effort import Scale
from manyheads.papers.rows import Rows
from manyheads.papers.threshold_search import ThresholdSearch
from manyheads.papers.trial import Work
from manyheads.papers.verdict import Verdict, with_failures
from manyheads.sweep.store.record import Storable


@dataclass(frozen=True)
class Collection:
    """The exhibits of one paper; one word of `manyheads paper` asks for all of them.

    Attributes:
        word: The word of `manyheads paper`.
        title: The title of the page.
        page_module: The module that makes the page. It has NAME, PICTURES and page(reproduction).
    """

    word: str
    title: str
    page_module: str

    @property
    def page(self) -> ModuleType:
        """The module that writes the page of these exhibits."""
        return import_module(self.page_module)


CAPACITY = Collection("all", "the whole paper, each run once", "manyheads.papers.paper_page")
BEYOND = Collection(
    "beyond", "everything past the paper; searches, so about as many runs", "manyheads.papers.paper_page"
)
HEAD_COUNT = Collection(
    "retrieval",
    "the paper on head counts, arXiv 2510.06662; needs torch",
    "manyheads.papers.head_count_page",
)
COLLECTIONS = (CAPACITY, BEYOND, HEAD_COUNT)


def _no_claims(rows: Rows, scale: Scale) -> list[Verdict]:
    return []


def _no_searches(scale: Scale) -> list[ThresholdSearch]:
    return []


def _no_tables(rows: Rows, scale: Scale) -> list[str]:
    return []


@dataclass(frozen=True)
class Exhibit:
    """A figure or table of a paper: its runs, its picture and caption made from their rows, and the claims that it
    judges.

    Attributes:
        title: The title.
        runs: Makes the list of runs that are known in advance.
        draw: Makes the picture from rows; None for a table.
        caption: Makes the caption from rows.
        claims: Judges the claims by the rows.
        searches: Makes the searches. A search decides while it runs which further runs it needs.
        tables: Makes tables in Markdown, shown below the caption.
        collection: The paper of the exhibit.
        work: The kinds of its runs.
        hours: Whether its runs take hours. Then the word of its collection shows the rows that exist and trains
            nothing.
        points: Makes the points of the picture as records; None: the means over the seeds of its runs.
        claim_runs: By the number of a claim, the runs that its verdict needs; a claim that is absent needs all runs.
        mark: Draws capacities of another store into the picture, under a name; None if it cannot.
    """

    title: str
    runs: Callable[[Scale], Sequence[Storable]]
    draw: Callable[[Rows, Scale], Figure] | None
    caption: Callable[[Rows, Scale], str]
    claims: Callable[[Rows, Scale], list[Verdict]] = _no_claims
    searches: Callable[[Scale], Sequence[ThresholdSearch]] = _no_searches
    tables: Callable[[Rows, Scale], list[str]] = _no_tables
    collection: Collection = CAPACITY
    work: frozenset[Work] = frozenset({"layer"})
    hours: bool = False
    points: Callable[[Rows, Scale], list[dict[str, object]]] | None = None
    claim_runs: Mapping[str, Callable[[Scale], Sequence[Storable]]] = field(default_factory=dict)
    mark: Callable[[Figure, Sequence[StoredProblem], str], None] | None = None

    @property
    def judges_claims(self) -> bool:
        """Whether it judges claims of a paper."""
        return self.claims is not _no_claims


EXHIBITS: dict[str, str | Exhibit] = {  # "module:attribute", imported at the first use
    "fig1": "manyheads.papers.exhibits.base_grid:FIGURE_1",
    "fig2": "manyheads.papers.exhibits.head_counts:FIGURE_2",
    "fig3": "manyheads.papers.exhibits.capacity_law:FIGURE_3",
    "fig4": "manyheads.papers.exhibits.capacity_law:FIGURE_4",
    "fig5": "manyheads.papers.exhibits.channels:FIGURE_5",
    "fig6": "manyheads.papers.exhibits.channels:FIGURE_6",
    "fig8": "manyheads.papers.exhibits.base_grid:FIGURE_8",
    "fig9": "manyheads.papers.exhibits.base_grid:FIGURE_9",
    "fig10": "manyheads.papers.exhibits.head_counts:FIGURE_10",
    "fig11": "manyheads.papers.exhibits.regular_graphs:FIGURE_11",
    "fig12": "manyheads.papers.exhibits.regular_graphs:FIGURE_12",
    "fig13": "manyheads.papers.exhibits.head_counts:FIGURE_13",
    "table1": "manyheads.papers.exhibits.base_grid:TABLE_1",
    "table2": "manyheads.papers.exhibits.capacity_law:TABLE_2",
    "constructions": "manyheads.papers.exhibits.constructions:CONSTRUCTIONS",
    "softmax_construction": "manyheads.papers.exhibits.softmax_construction:SOFTMAX_CONSTRUCTION",
    "construction_cost": "manyheads.papers.exhibits.costs:CONSTRUCTION_COST",
    "split_cost": "manyheads.papers.exhibits.costs:SPLIT_COST",
    "no_compression": "manyheads.papers.exhibits.no_compression:NO_COMPRESSION",
    "bounds_gap": "manyheads.papers.exhibits.regular_graphs:BOUNDS_GAP",
    "one_or_many": "manyheads.papers.exhibits.one_or_many:ONE_OR_MANY",
    "single_head": "manyheads.papers.exhibits.one_head:ONE_HEAD",
    "fig7": "manyheads.papers.exhibits.transformer_block:FIGURE_7",
    "beyond_grid": "manyheads.papers.beyond.grid:BEYOND_GRID",
    "beyond_exact": "manyheads.papers.beyond.exact:BEYOND_EXACT",
    "beyond_freedom": "manyheads.papers.beyond.freedom:BEYOND_FREEDOM",
    "beyond_sensitivity": "manyheads.papers.beyond.sensitivity:BEYOND_SENSITIVITY",
    "retrieval_heads": "manyheads.papers.head_count_tables:RETRIEVAL_HEADS",
    "retrieval_variants": "manyheads.papers.head_count_tables:RETRIEVAL_VARIANTS",
    "retrieval_width": "manyheads.papers.head_count_tables:RETRIEVAL_WIDTH",
    "retrieval_digits": "manyheads.papers.head_count_tables:RETRIEVAL_DIGITS",
}
OF_PAPERS = dict(EXHIBITS)  # a copy: exhibits that are registered later are not in it
VERBS = ("list", "claims", "rows")
RESERVED = (*(collection.word for collection in COLLECTIONS), *VERBS)  # words of the command


CLAIM = "claim"  # before the number of a claim: the name of an exhibit with the runs of this claim alone


def register_exhibit(name: str, source: Exhibit | str) -> None:
    """Add an exhibit to the registry, so that `manyheads paper NAME` runs, draws and judges it.

    Args:
        name: a word of lower-case letters, digits and underscores; it names the picture's files too.
        source: the exhibit, or "module:attribute" to import it at its first use.

    Raises:
        InputError: the name is taken or is no such word.
    """
    if not re.fullmatch(r"[a-z][a-z0-9_]*", name):
        raise InputError(f"'{name}' cannot name an exhibit: use lower-case letters, digits and underscores")
    if name in EXHIBITS or name in RESERVED:
        raise InputError(f"the name '{name}' is taken: choose another name for the exhibit")
    EXHIBITS[name] = source


def exhibit_named(name: str) -> Exhibit:
    """The exhibit of this name.

    Args:
        name: The name, e.g. "fig3"; "claim6" is the exhibit of claim 6 with the runs of this claim alone.

    Returns:
        The exhibit; its module is imported here.

    Raises:
        InputError: there is none; the message has the nearest name and all names.
    """
    if name not in EXHIBITS and name.startswith(CLAIM):
        return _claim_alone(name.removeprefix(CLAIM))
    if re.fullmatch(r"R?[0-9]+[a-z]?", name):
        raise InputError(f"'{name}' is the number of a claim: run it with --claim {name}")
    if name not in EXHIBITS:
        words = ", ".join((*(collection.word for collection in COLLECTIONS), *EXHIBITS))
        raise InputError(f"there is no '{name}' in the paper{did_you_mean(name, EXHIBITS)}: choose from {words}")
    return _loaded(EXHIBITS[name])


def _loaded(source: str | Exhibit) -> Exhibit:
    if isinstance(source, str):
        module, _, attribute = source.partition(":")
        source = getattr(import_module(module), attribute)
        assert isinstance(source, Exhibit)
    return source


@cache
def claim_exhibits() -> dict[str, str]:
    """The exhibit that judges each claim of the papers.

    Returns:
        By the number of the claim, the name of the exhibit. If several judge a claim, it is the last of them, which has
        all runs that the verdict needs.
    """
    nothing, scale = Rows(()), Scale(seeds=2, up_to=64, quick=True)  # the fewest runs: every claim is "not attempted"
    return {claim.claim: name for name, source in OF_PAPERS.items() for claim in _loaded(source).claims(nothing, scale)}


def _claim_alone(number: str) -> Exhibit:
    known = claim_exhibits()
    if number not in known:
        numbers = ", ".join(sorted(known, key=_claim_order))
        raise InputError(f"there is no claim '{number}': choose from {numbers} (docs/reference/claims.md)")
    whole = exhibit_named(known[number])

    def judge(rows: Rows, scale: Scale) -> list[Verdict]:
        return [verdict for verdict in whole.claims(rows, scale) if verdict.claim == number]

    return replace(whole, title=f"Claim {number}", runs=whole.claim_runs.get(number, whole.runs), claims=judge)


def exhibit_names(collection: Collection, *, hours: bool = False) -> tuple[str, ...]:
    """The names of a collection's exhibits, in the order of the page.

    Args:
        collection: One of COLLECTIONS.
        hours: Whether to list the exhibits that take hours, or the others.

    Returns:
        The names.
    """
    every = ((name, exhibit_named(name)) for name in EXHIBITS)
    return tuple(name for name, one in every if one.collection == collection and one.hours is hours)


def shared_page(names: Sequence[str]) -> ModuleType:
    """The module of the page that shows these exhibits.

    Args:
        names: The names of the exhibits.

    Returns:
        The module.

    Raises:
        InputError: They belong to different pages.
    """
    collections: dict[str, Collection] = {}
    for name in names:
        collection = exhibit_named(name).collection
        collections.setdefault(collection.page_module, collection)
    if len(collections) > 1:
        words = " and ".join(collection.word for collection in collections.values())
        raise InputError(f"{words} are different papers with a page each: ask for one of them at a time")
    (collection,) = collections.values()
    return collection.page


def needed(names: Iterable[str], scale: Scale, rows: Rows | None = None, *, foresee: bool = False) -> list[Storable]:
    """The runs of these exhibits, each once.

    Args:
        names: The names of the exhibits.
        scale: The seeds, sizes and step limits of the runs.
        rows: The known rows; they decide which runs the searches ask for.
        foresee: Whether to follow the searches to their end, with a guess for every missing run.

    Returns:
        The listed runs of all exhibits, then the runs of their searches.

    Raises:
        InputError: A name is unknown.
    """
    known, chosen = Rows(()) if rows is None else rows, [exhibit_named(name) for name in names]
    runs = {run.id: run for one in chosen for run in one.runs(scale)}
    searches = dict.fromkeys(search for one in chosen for search in one.searches(scale))  # exhibits share them
    for search in searches:
        trail = search.foresee(known) if foresee else search.follow(known)
        runs.update((run.id, run) for run in trail.runs)
    return list(runs.values())


def is_complete(name: str, scale: Scale, rows: Rows) -> bool:
    """Whether every run of an exhibit has a row and its searches have ended."""
    return rows.have_all(needed([name], scale, rows))


def verdicts(names: Iterable[str], rows: Rows, scale: Scale) -> list[Verdict]:
    """The verdicts of these exhibits, each claim once, in the order of the claims' numbers.

    Args:
        names: The names of the exhibits.
        rows: The rows of their runs.
        scale: The seeds, sizes and step limits of the runs.

    Returns:
        The verdicts.

    Raises:
        InputError: A name is unknown.
    """
    found: dict[str, Verdict] = {}
    for name in names:
        runs = needed([name], scale, rows) if rows.failures else []
        reasons = [rows.failures[run.id] for run in runs if run.id in rows.failures]
        for verdict in exhibit_named(name).claims(rows, scale):
            found[verdict.claim] = with_failures(verdict, reasons)
    return sorted(found.values(), key=lambda verdict: _claim_order(verdict.claim))


def _claim_order(number: str) -> tuple[bool, int, str]:
    """Claims of the first paper before those of the second (R1, …), each by number, then by letter."""
    return number.startswith("R"), int("".join(filter(str.isdigit, number))), number
