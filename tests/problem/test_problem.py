"""Problem: every check of a graph over an embedding, made once."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from manyheads import Graph, InputError, gaussian, permutation_graph
from manyheads.problem.embedding import Embedding
from manyheads.problem.problem import Problem

GRAPH, ROWS = permutation_graph(8, seed=0), gaussian(8, 4, seed=1)


def test_a_problem_has_the_sizes_of_its_parts() -> None:
    problem = Problem(GRAPH, ROWS)
    assert (problem.items, problem.relations, problem.d_model) == (8, 8, 4)
    assert problem.rows is problem.embedding.rows
    embedding = Embedding(ROWS, tuple("abcdefgh"))
    assert Problem(GRAPH, embedding).embedding is embedding


@pytest.mark.parametrize(
    ("graph", "embedding", "says"),
    [
        (ROWS, GRAPH, "a graph and an embedding, in this order"),
        (GRAPH, ROWS.tolist(), "an Embedding or an array, not list"),
        (GRAPH, ROWS[:7], "the graph has 8 items but the embedding has 7 rows"),
        (GRAPH, ROWS[0], "a row of numbers for each item"),
        (GRAPH, np.full((8, 4), np.nan), "NaN"),
        (GRAPH, np.full((8, 4), "x"), "floating-point numbers"),
    ],
)
def test_malformed_parts_are_refused(graph: Any, embedding: Any, says: str) -> None:
    # the constructor itself: the test run's type checker would speak first
    make = getattr(Problem.__init__, "__wrapped__", Problem.__init__)
    with pytest.raises((InputError, TypeError), match=says):
        make(object.__new__(Problem), graph, embedding)


@pytest.mark.parametrize(("given", "lengths"), [(5, (5, 5)), ((2, 8), (2, 8)), (2, (2, 2))])
def test_context_lengths(given: int | tuple[int, int], lengths: tuple[int, int]) -> None:
    assert Problem(GRAPH, ROWS).context_lengths(given) == lengths


@pytest.mark.parametrize(
    ("given", "says"),
    [
        (None, "give the context length"),
        (1, "from 2 to the number of items, 8, not from 1 to 1"),
        (9, "not from 9 to 9"),
        ((6, 3), "not from 6 to 3"),
        ((0, 3), "context_length is a whole number from 1"),
    ],
)
def test_context_lengths_out_of_range_are_refused(given: int | tuple[int, int] | None, says: str) -> None:
    with pytest.raises(InputError, match=says):
        Problem(GRAPH, ROWS).context_lengths(given)


def test_a_layer_of_another_width_is_refused() -> None:
    problem = Problem(GRAPH, ROWS)
    problem.require_width(4)
    with pytest.raises(InputError, match="the layer reads rows of 5 numbers but the embedding has 4"):
        problem.require_width(5)


@pytest.mark.parametrize(
    ("sources", "targets", "differ"),
    [
        ([0, 1, 5, 5], [3, 3, 0, 1], None),  # both go to 3, and 5 goes to both
        ([0, 1, 5], [3, 4, 6], "their relations differ"),
        ([0, 1, 5], [3, 3, 0], "their relations to them differ"),
        ([], [], None),
    ],
)
def test_items_with_the_same_row_need_the_same_relations(
    sources: list[int], targets: list[int], differ: str | None
) -> None:
    rows = ROWS.copy()
    rows[1] = rows[0]
    graph = Graph(8, np.array(sources, dtype=int), np.array(targets, dtype=int)).with_labels(tuple("abcdefgh"))
    problem = Problem(graph, rows)
    if differ is None:
        problem.require_distinct()
    else:
        with pytest.raises(InputError, match=rf"rows 0 and 1 of the embedding \(a and b\) are identical but {differ}"):
            problem.require_distinct()
