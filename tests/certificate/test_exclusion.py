"""exclude: one head decided, against exact rational arithmetic and against proofs that were disturbed."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy import ndarray
from support.linear_programme import one_head_holds

from manyheads import gaussian, permutation_graph, regular_graph
from manyheads.certificate.exclusion import Exclusion, ExclusionProgress, exclude
from manyheads.certificate.exclusion_proof import correction_share
from manyheads.problem.graph import Graph
from manyheads.problem.problem import Problem


def permutation(items: int, d_model: int, seed: int = 0) -> Problem:
    return Problem(permutation_graph(items, seed=seed), gaussian(items, d_model, seed=1000 + seed))


@given(st.data(), st.integers(2, 8), st.integers(1, 3))
@settings(max_examples=60)
def test_every_tiny_case_is_decided_as_exact_arithmetic_says(data: st.DataObject, items: int, d_model: int) -> None:
    """Whole numbers: rows of too low a rank, equal rows, empty and complete graphs and loops are among them."""
    size = items * d_model
    rows = np.array(data.draw(st.lists(st.integers(-3, 3), min_size=size, max_size=size)), dtype=np.float64)
    relations = np.array(sorted(data.draw(st.sets(st.integers(0, items**2 - 1)))), dtype=np.int64)
    problem = Problem(Graph(items, *np.divmod(relations, items)), rows.reshape(items, d_model))
    expected = "held" if one_head_holds(problem.graph, problem.rows) else "excluded"
    assert exclude(problem, workers=1).verdict == expected


@given(st.integers(0, 10_000), st.integers(3, 8), st.integers(1, 3))
@settings(max_examples=40)
def test_random_rows_are_decided_as_exact_arithmetic_says(seed: int, items: int, d_model: int) -> None:
    rng = np.random.default_rng(seed)
    related = rng.random((items, items)) < rng.random()
    rows = rng.integers(-64, 65, (items, d_model)) / 16  # short fractions: the oracle is exact
    sources, targets = np.nonzero(related)
    problem = Problem(Graph(items, sources, targets), rows)
    expected = "held" if one_head_holds(problem.graph, problem.rows) else "excluded"
    assert exclude(problem, workers=1).verdict == expected


@pytest.mark.parametrize(("items", "excluded", "held"), [(32, 9, 10), (64, 17, 18), (96, 21, 22)])
def test_the_transition_lies_where_the_degrees_of_freedom_say(items: int, excluded: int, held: int) -> None:
    assert exclude(permutation(items, excluded)).verdict == "excluded"
    answer = exclude(permutation(items, held))
    assert answer.verdict == "held"
    assert answer.layer is not None
    assert answer.layer.heads == 1
    assert answer.certificate is not None
    assert answer.certificate.holds


def test_the_proof_is_the_matrix_that_gordans_theorem_asks_for() -> None:
    problem = permutation(64, 16)
    proof = exclude(problem).matrix
    assert proof is not None
    x = problem.rows.astype(np.float64)
    signs = np.where(problem.graph.adjacency(), 1.0, -1.0)
    assert (signs * proof > 0).all()
    assert np.abs(x.T @ proof @ x).max() < 1e-10 * np.abs(proof).sum()
    assert abs(proof.sum()) < 1e-10 * np.abs(proof).sum()


@pytest.fixture(scope="module")
def proved() -> tuple[Problem, ndarray]:
    problem = permutation(48, 12)
    matrix = exclude(problem).matrix
    assert matrix is not None
    return problem, matrix


def test_a_disturbed_proof_is_refused(proved: tuple[Problem, ndarray]) -> None:
    problem, matrix = proved
    assert correction_share(problem.graph, problem.rows, matrix) < 1e-3
    larger, flipped, absent, endless = (matrix.copy() for _ in range(4))
    larger[3, 5] *= 1.5
    flipped[3, 5] *= -1
    absent[3, 5] = 0
    endless[3, 5] = -np.inf
    for wrong in (larger, flipped, absent, endless, -matrix, matrix.T):
        assert not correction_share(problem.graph, problem.rows, wrong) < 1


def test_a_proof_for_another_graph_or_embedding_is_refused(proved: tuple[Problem, ndarray]) -> None:
    problem, matrix = proved
    assert not correction_share(permutation_graph(48, seed=7), problem.rows, matrix) < 1
    assert not correction_share(problem.graph, gaussian(48, 12, seed=7), matrix) < 1
    nudged = problem.rows.copy()
    nudged[0] *= 1.5
    assert not correction_share(problem.graph, nudged, matrix) < 1


def test_a_tiny_disturbance_leaves_the_proof_valid_and_counts(proved: tuple[Problem, ndarray]) -> None:
    problem, matrix = proved
    sound = correction_share(problem.graph, problem.rows, matrix)
    nudged = matrix * (1 + 1e-9 * np.random.default_rng(0).standard_normal(matrix.shape))
    assert sound < correction_share(problem.graph, problem.rows, nudged) < 1


def test_rows_with_a_constant_column_are_decided() -> None:
    """The constant lies in the columns' span: the threshold is a part of the form."""
    rows = np.hstack([gaussian(48, 11, seed=1), np.ones((48, 1), dtype=np.float32)])
    assert exclude(Problem(permutation_graph(48, seed=0), rows)).verdict == "excluded"


def test_other_graphs_are_decided() -> None:
    for degree, d_model, verdict in ((2, 16, "excluded"), (2, 36, "held"), (4, 20, "excluded")):
        problem = Problem(regular_graph(64, degree, seed=0), gaussian(64, d_model, seed=1))
        assert exclude(problem).verdict == verdict


def test_the_same_search_gives_the_same_proof_with_any_number_of_workers() -> None:
    one, two = (exclude(permutation(64, 16), workers=workers) for workers in (1, 2))
    assert one.matrix is not None
    assert two.matrix is not None
    assert np.array_equal(one.matrix, two.matrix)


def test_a_time_limit_ends_the_search_undecided() -> None:
    answer = exclude(permutation(128, 27), time_limit=1e-9)
    assert answer.verdict == "undecided"
    assert "signs of the proof are lacking" in answer.reason


def test_progress_is_told() -> None:
    told: list[ExclusionProgress] = []
    answer: Exclusion = exclude(permutation(64, 16), progress=told.append)
    assert [one.step for one in told] == list(range(answer.steps + 1))
    assert told[0].wrong > 0
    assert told[-1].lacking == 0
