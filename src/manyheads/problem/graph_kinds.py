"""Graph kinds: the one registry of the graphs that a seed can draw, and the words that name them."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

from manyheads.errors import InputError
from manyheads.problem.graph import Graph
from manyheads.problem.graph_generators import (
    permutation_graph,
    power_law_graph,
    random_graph,
    regular_graph,
    star_graph,
)
from manyheads.problem.kind_words import Parameter, Value, form_of, parse_values, seed_word, split_words, value_word

PERMUTATION_SLOPE = 1.19  # of the paper's law D_K* ≈ slope·m'·log2 m/d_model, for permutations (Fig. 3)
RELATION_SLOPE = 0.46  # the same for r-regular graphs (Eq. 32), and here for every other graph


@dataclass(frozen=True)
class GraphKind:
    """A kind of graph: how it is written, drawn, counted, named in pictures, and which law it follows.

    To add one, write its generator and register it here: it can then be compiled, fitted, trained, measured, planned
    for and drawn by every command.

    Attributes:
        name: The first word, e.g. "regular".
        draw: Called with items, the parameters' values in their order, and `seed`; returns the graph.
        relations: Called with items and the values; returns the number of relations.
        label: The kind's name in pictures; "{degree}" stands for the value of the parameter degree.
        parameters: The numbers after ITEMS.
        slope: The constant of the paper's law for this kind.
        log2_graphs: Called with items and the values; returns log2 of the number of graphs of this kind and size. None:
            the kind is counted as all graphs with its numbers of items and relations.
    """

    name: str
    draw: Callable[..., Graph]
    relations: Callable[..., int]
    label: str
    parameters: tuple[Parameter, ...] = ()
    slope: float = RELATION_SLOPE
    log2_graphs: Callable[..., float] | None = None

    @property
    def form(self) -> str:
        """How it is written, e.g. regular:ITEMS:DEGREE."""
        return form_of(self.name, (Parameter("items"), *self.parameters))


@dataclass(frozen=True)
class GraphFamily:
    """All graphs of one kind and size, from which a seed draws one, e.g. regular:64:4.

    >>> family = graph_family("regular:64:4")
    >>> family.relations, family.label, str(family)
    (256, '4-regular graphs', 'regular:64:4')
    """

    kind: GraphKind
    items: int
    values: tuple[Value, ...] = ()

    def draw(self, *, seed: int) -> Graph:
        """The graph that this seed draws."""
        return self.kind.draw(self.items, *self.values, seed=seed)

    @property
    def relations(self) -> int:
        """m', the number of relations of each graph."""
        return self.kind.relations(self.items, *self.values)

    @property
    def label(self) -> str:
        """The name in pictures and tables."""
        names = (parameter.name for parameter in self.kind.parameters)
        return self.kind.label.format(**dict(zip(names, self.values, strict=True)))

    @property
    def seed_words(self) -> tuple[int, ...]:
        """The sizes. With the seed, they are the key of the random generator. A kind without parameters has one 1."""
        return (self.items, *(map(seed_word, self.values) if self.values else (1,)))

    def __str__(self) -> str:
        return ":".join([self.kind.name, str(self.items), *map(value_word, self.values)])

    def __reduce__(self) -> tuple[object, ...]:
        return graph_family, (str(self),)  # a kind's functions cannot be pickled, its words can


GRAPH_KINDS: dict[str, GraphKind] = {}


def register_graph_kind(kind: GraphKind) -> None:
    """Make a kind of graph known to every command.

    Args:
        kind: The kind.

    Raises:
        InputError: The name is taken or has a colon.
    """
    if kind.name in GRAPH_KINDS or ":" in kind.name:
        raise InputError(f"a kind of graph '{kind.name}' cannot be registered: the name is taken or has a colon")
    GRAPH_KINDS[kind.name] = kind


def graph_family(words: str) -> GraphFamily:
    """The family that words such as permutation:64 or regular:64:4 name.

    Raises:
        InputError: The kind is unknown, or the numbers after it are not those of its form.
    """
    forms = [kind.form for kind in GRAPH_KINDS.values()]
    kind, rest = split_words(words, GRAPH_KINDS, what="graph", forms=forms)
    parameters = (Parameter("items"), *kind.parameters)
    items, *values = parse_values(words, rest, parameters, form=kind.form)
    return GraphFamily(kind, int(items), tuple(values))


def paper_slope(graph: Graph | GraphFamily) -> float:
    """The constant of the paper's law D_K* ≈ slope·m'·log2 m/d_model for a graph, or for the graphs of a family.

    A given graph follows the law of permutations only if it is one. A regular graph of degree 1 always is one.
    """
    if isinstance(graph, Graph):
        return PERMUTATION_SLOPE if graph.is_permutation else RELATION_SLOPE
    single = graph.kind.parameters == (DEGREE,) and graph.values == (1,)
    return PERMUTATION_SLOPE if single else graph.kind.slope


def log2_regular_graphs(items: int, degree: int) -> float:
    """log2 of about the number of loop-free graphs with r relations out of and into each of m items.

    C(m − 1, r)^(2m)/C(m(m − 1), m·r)·e^(−½), the asymptotic count (Canfield and McKay 2005 with loops; Greenhill and
    McKay 2009 without). Counted one by one for m ≤ 8 and every r < m − 1, it is too low by at most 0.17 bits at m = 4,
    0.09 bits at m = 8.

    Args:
        items: m, at least 2.
        degree: r, from 1 to m − 1.

    Returns:
        The logarithm, at least 0.

    >>> round(log2_regular_graphs(7, 3), 2), round(math.log2(1_975_560), 2)  # the second: counted one by one
    (20.82, 20.91)
    """
    pairs = items * (items - 1)
    nats = 2 * items * _ln_choices(items - 1, degree) - _ln_choices(pairs, items * degree) - 0.5
    return max(0.0, nats / math.log(2))


def log2_permutations(items: int) -> float:
    """log2 m!, where m! is the number of permutation graphs of m items."""
    return math.lgamma(items + 1) / math.log(2)


def _ln_choices(n: int, k: int) -> float:
    return math.lgamma(n + 1) - math.lgamma(k + 1) - math.lgamma(n - k + 1)


DEGREE, RELATIONS = Parameter("degree"), Parameter("relations")

for _kind in (
    GraphKind(
        name="permutation",
        draw=permutation_graph,
        relations=lambda items: items,
        label="permutations",
        slope=PERMUTATION_SLOPE,
        log2_graphs=log2_permutations,
    ),
    GraphKind(
        name="regular",
        draw=regular_graph,
        relations=lambda items, degree: items * degree,
        label="{degree}-regular graphs",
        parameters=(DEGREE,),
        log2_graphs=log2_regular_graphs,
    ),
    GraphKind(
        name="random",
        draw=random_graph,
        relations=lambda items, relations: relations,
        label="random graphs of {relations} relations",
        parameters=(RELATIONS,),
    ),
    GraphKind(
        name="star-out",
        draw=lambda items, *, seed: star_graph(items, direction="out"),
        relations=lambda items: items - 1,
        label="stars, relations out of the hub",
    ),
    GraphKind(
        name="star-in",
        draw=lambda items, *, seed: star_graph(items, direction="in"),
        relations=lambda items: items - 1,
        label="stars, relations into the hub",
    ),
    GraphKind(
        name="power-law",
        draw=lambda items, relations, exponent, *, seed: power_law_graph(
            items, relations, exponent=exponent, seed=seed
        ),
        relations=lambda items, relations, exponent: relations,
        label="power-law graphs of {relations} relations, exponent {exponent:g}",
        parameters=(RELATIONS, Parameter("exponent", "float")),
    ),
):
    register_graph_kind(_kind)
