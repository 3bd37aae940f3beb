"""Generators of graphs, each named after the graph that it returns; the seed decides the graph."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Literal

import numpy as np
from jaxtyping import Bool, Int
from numpy import ndarray

from manyheads.errors import InputError
from manyheads.numbers import check_number, check_numbers, require_memory
from manyheads.problem.graph import Graph


def permutation_graph(items: int, *, seed: int) -> Graph:
    """A uniformly random permutation: one relation out of and one into every item, fixed points allowed.

    Args:
        items: m, at least 1.
        seed: The seed of the random generator.

    Returns:
        A graph with m relations.

    Raises:
        InputError: There are no items.
    """
    _require_room(items, items, seed=seed)
    return Graph(items, np.arange(items), np.random.default_rng(seed).permutation(items))


def regular_graph(items: int, degree: int, *, seed: int) -> Graph:
    """A union of disjoint random matchings: every item has `degree` relations out and `degree` relations in. No loops.

    Args:
        items: m, at least 2.
        degree: r, from 1 to items − 1.
        seed: The seed of the random generator.

    Returns:
        A graph with m·r relations.

    Raises:
        InputError: The degree is not from 1 to items − 1.
    """
    check_numbers(items=items, degree=degree)
    _require_room(items, items * degree, seed=seed)
    if not 1 <= degree < items:
        raise InputError(f"a loop-free regular graph on {items} items has degree 1 to {items - 1}, not {degree}")
    rng = np.random.default_rng(seed)
    targets = np.empty((items, degree), dtype=np.int32)
    for k in range(degree):
        targets[:, k] = _disjoint_matching(targets[:, :k], rng)
    return Graph(items, np.repeat(np.arange(items), degree), targets.ravel())


def _disjoint_matching(taken: Int[ndarray, "items k"], rng: np.random.Generator) -> Int[ndarray, " items"]:
    """A random permutation without fixed points. It gives no item a target that the item has already (`taken`)."""
    items = np.arange(len(taken))
    matching = rng.permutation(len(items))
    clashing = items[_clash(taken, items, matching)]
    for _ in range(20):
        if not clashing.size:
            return matching
        if 2 * len(clashing) > len(items):
            break
        # exchange the targets of a clashing source and of a random other source, if neither clashes afterwards
        others = rng.permutation(np.setdiff1d(items, clashing))[: len(clashing)]
        helps = ~_clash(taken, clashing, matching[others]) & ~_clash(taken, others, matching[clashing])
        mended, by = clashing[helps], others[helps]
        matching[mended], matching[by] = matching[by], matching[mended]
        clashing = clashing[~helps]

    # No exchange helps. All items have equally many allowed targets and allowed sources, so a perfect matching
    # exists (Hall). The algorithm is deterministic, hence the random order of rows and columns.
    from scipy.sparse import csr_array  # takes longer to import than the command line
    from scipy.sparse.csgraph import maximum_bipartite_matching

    require_memory(8 * len(items) ** 2, f"a matching among all pairs of {len(items):,} items")
    allowed = np.ones((len(items), len(items)), dtype=bool)
    allowed[items, items] = False
    allowed[items[:, None], taken] = False
    rows, columns = rng.permutation(len(items)), rng.permutation(len(items))
    matching[rows] = columns[maximum_bipartite_matching(csr_array(allowed[np.ix_(rows, columns)]), perm_type="column")]
    return matching


def _clash(
    taken: Int[ndarray, "items k"], sources: Int[ndarray, " n"], targets: Int[ndarray, " n"]
) -> Bool[ndarray, " n"]:
    """Which of the relations are loops or taken."""
    return (sources == targets) | (taken[sources] == targets[:, None]).any(axis=1)


def random_graph(items: int, relations: int, *, seed: int, loops: bool = False) -> Graph:
    """A graph with this number of relations; every such graph is equally likely.

    Without loops the relations are among the m(m − 1) ordered pairs that Sec. 9 counts, with loops among all m².

    Args:
        items: m, at least 1.
        relations: m', from 0 to the number of ordered pairs.
        seed: The seed of the random generator.
        loops: Whether an item may relate to itself.

    Returns:
        A graph with m' relations.

    Raises:
        InputError: There are fewer pairs than relations.
    """
    _require_room(items, relations, seed=seed)
    others = items if loops else items - 1
    if not 0 <= relations <= items * others:
        raise InputError(f"{items} items have {items * others} possible relations, not {relations}")
    if 20 * relations > items * others:  # numpy then makes an array of all pairs
        require_memory(8 * items * others, f"the choice of {relations:,} among {items * others:,} pairs")
    codes = np.random.default_rng(seed).choice(items * others, size=relations, replace=False, shuffle=False)
    sources, targets = np.divmod(codes, others)
    return Graph(items, sources, targets if loops else targets + (targets >= sources))


def star_graph(items: int, *, direction: Literal["out", "in"]) -> Graph:
    """A star with item 0 as its hub.

    Args:
        items: m, at least 1.
        direction: "out": relations from the hub to all other items. "in": relations from all other items to the hub.

    Returns:
        A graph with m − 1 relations.

    Raises:
        InputError: The direction is unknown, or there are no items.
    """
    if direction not in ("out", "in"):
        raise InputError(f"the relations of a star go out or in, not '{direction}'")
    check_numbers(items=items)
    _require_room(items, items - 1)
    others = np.arange(1, items)
    hub = np.zeros_like(others)
    return Graph(items, hub, others) if direction == "out" else Graph(items, others, hub)


def power_law_graph(items: int, relations: int, *, exponent: float, seed: int) -> Graph:
    """A graph with this number of relations and no loops, whose in- and out-degrees both follow a power law.

    The item of rank r is drawn as a source with weight r^(−1/(exponent − 1)), and likewise as a target. Repeated
    relations are dropped. Degree k is then about k^−exponent as frequent as degree 1 (Chung and Lu). An item's ranks as
    source and as target are independent. At exponent 2.6, 10^6 relations among 10^5 items have a largest degree near
    5,000.

    Args:
        items: m, at least 1.
        relations: m', from 0 to half of the m·(m − 1) ordered pairs.
        exponent: The exponent of the degrees, above 2.
        seed: The seed of the random generator.

    Returns:
        A graph with m' relations.

    Raises:
        InputError: The exponent or the number of relations is out of its range.
    """
    _require_room(items, relations, seed=seed)
    check_numbers(exponent=exponent)
    if not exponent > 2:
        raise InputError(f"the exponent of a power-law graph must exceed 2 for a finite mean degree, not {exponent}")
    if not 0 <= relations <= items * (items - 1) // 2:
        raise InputError(
            f"a power-law graph takes at most half of the {items * (items - 1)} pairs of {items} items, not {relations}"
        )
    rng = np.random.default_rng(seed)
    cumulative = np.cumsum(np.arange(1, items + 1) ** (-1 / (exponent - 1)))
    by_rank = rng.permutation(items), rng.permutation(items)
    codes = np.empty(0, dtype=np.int64)
    while len(codes) < relations:
        sources, targets = (
            items_by_rank[np.searchsorted(cumulative[:-1], rng.random(relations) * cumulative[-1], side="right")]
            for items_by_rank in by_rank
        )
        codes = np.concatenate([codes, (sources * items + targets)[sources != targets]])
        codes = codes[np.sort(np.unique(codes, return_index=True)[1])]  # repeats dropped, order kept
    return Graph(items, *np.divmod(codes[:relations], items))


def positional_graph(graph: Graph, positions: int, *, offsets: Iterable[int]) -> Graph:
    """Tokens at positions as items (Sec. 3): t@p → u@q if t → u is a relation and q − p is one of the offsets.

    With the offsets [-1], a token relates to the token before it. With range(1 - positions, 0), it relates to all
    tokens before it. With range(1 - positions, positions), positions have no effect. Token t at position p is item
    t·positions + p. For a model that adds token and position rows, the embedding is `(tokens[:, None] +
    places).reshape(-1, d_model)`.

    Args:
        graph: The relations between tokens.
        positions: The number of positions, at least 1.
        offsets: The differences q − p, each smaller than `positions` in absolute value.

    Returns:
        A graph with items·positions items, labelled like sat@1.

    Raises:
        InputError: There are no positions, or an offset is too large.

    >>> relation = Graph(2, np.array([0]), np.array([1]), labels=("sat", "cat"))
    >>> before = positional_graph(relation, 3, offsets=[-1])
    >>> [f"{before.name(s)} → {before.name(t)}" for s, t in zip(before.sources, before.targets)]
    ['sat@1 → cat@0', 'sat@2 → cat@1']
    """
    check_number("items", positions, said="positions")
    steps = sorted(set(offsets))
    if positions < 1 or any(abs(step) >= positions for step in steps):
        raise InputError(f"offsets between {positions} positions are smaller than {positions}, not {steps}")
    pairs = [(p, p + step) for step in steps for p in range(positions) if 0 <= p + step < positions]
    _require_room(graph.items * positions, graph.relations * len(pairs))
    here, there = np.array(pairs, dtype=np.int64).reshape(-1, 2).T
    return Graph(
        graph.items * positions,
        (graph.sources[:, None] * positions + here).ravel(),
        (graph.targets[:, None] * positions + there).ravel(),
        tuple(f"{graph.name(token)}@{p}" for token in range(graph.items) for p in range(positions)),
    )


def _require_room(items: int, relations: int, *, seed: int = 0) -> None:
    """Refuse a number outside its range, and a graph that would not fit into the memory."""
    check_number("generator_seed", seed, said="seed")
    check_numbers(items=items, relations=relations)
    # a relation: four numbers as they are drawn, four while they are sorted
    require_memory(64 * relations + 32 * items, f"a graph of {items:,} items and {relations:,} relations")
