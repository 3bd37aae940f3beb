"""exclude: one head decided, against exact rational arithmetic and against proofs that were disturbed."""

from __future__ import annotations

import time
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy import ndarray
from scipy.optimize import linprog
from support.linear_programme import one_head_holds

from manyheads import Layer, certify, gaussian, permutation_graph, regular_graph
from manyheads.certificate.exclusion import exclude
from manyheads.certificate.exclusion_proof import check_exclusion, correction_share, one_item_share
from manyheads.certificate.exclusion_search import ExclusionSearch
from manyheads.certificate.few_pairs import one_item
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
    sources, targets = np.divmod(relations, items)
    problem = Problem(Graph(items, sources, targets), rows.reshape(items, d_model))
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


def test_a_matrix_whose_sum_is_not_zero_is_refused() -> None:
    """It would prove that no form separates at the threshold 0; at the threshold 3 a form of one number does."""
    graph, rows = Graph(2, np.array([1]), np.array([1])), np.array([[1.0], [2.0]], dtype=np.float32)
    matrix = np.array([[-1.0, -1.0], [-1.0, 1.25]])
    assert (rows.T @ matrix @ rows).item() == 0
    assert certify(Layer(np.ones((1, 1, 1)), np.ones((1, 1, 1)), threshold=3.0), Problem(graph, rows)).holds
    assert not correction_share(graph, rows, matrix) < 1


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


def test_an_embedding_of_zeros_holds_only_the_empty_and_the_complete_graph() -> None:
    for relations, verdict in ((0, "held"), (4, "excluded"), (9, "held")):
        sources, targets = np.divmod(np.arange(relations), 3)
        assert exclude(Problem(Graph(3, sources, targets), np.zeros((3, 2))), workers=1).verdict == verdict


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
    told: list[tuple[int, int, int]] = []
    answer = exclude(permutation(64, 16), progress=lambda *seen: told.append(seen))
    assert [step for step, _, _ in told] == list(range(answer.steps + 1))
    assert told[0][1] > 0
    assert told[-1][2] == 0


def test_two_items_with_one_row_and_different_relations_are_a_proof() -> None:
    """At (256, 64) one head holds every permutation, but not if two rows are the same."""
    rows = gaussian(256, 64, seed=1).copy()
    rows[9] = rows[5]
    for graph in (permutation_graph(256, seed=0), Graph(256, np.array([7]), np.array([9]))):
        answer = exclude(Problem(graph, rows))
        assert (answer.verdict, answer.steps) == ("excluded", 0)
        assert answer.matrix is not None
        assert np.count_nonzero(answer.matrix) == 2
        check = check_exclusion(Problem(graph, rows), answer.matrix)
        assert (check.proved, check.pairs) == (True, 2)
        assert not check_exclusion(Problem(graph, rows), -answer.matrix).proved
        assert not check_exclusion(Problem(graph, gaussian(256, 64, seed=1)), answer.matrix).proved
    both = Graph(256, np.array([5, 9]), np.array([7, 7]))  # the same relations: nothing speaks against it
    assert exclude(Problem(both, rows)).verdict == "held"


@pytest.mark.parametrize("size", [1.7e308, 1e307, 1e200, 1e-200, 5e-324])
def test_a_proof_of_any_size_is_no_proof_of_what_is_held(size: float) -> None:
    """Sums of the largest numbers overflow to NaN, and the larger one of 0 and NaN is 0: it was taken for a proof."""
    problem = permutation(64, 20)
    assert exclude(problem).verdict == "held"
    signs = np.where(problem.graph.adjacency(), size, -size)
    column, row, few = np.zeros((3, 64, 64))
    column[:, 3], row[3], few[:2, :2] = signs[:, 3], signs[3], signs[:2, :2]
    for matrix in (signs, column, row, few, signs * np.linspace(0.5, 1, 64)):
        assert not check_exclusion(problem, matrix).proved


def test_a_proof_by_few_pairs_of_wide_rows_does_not_take_hours() -> None:
    """A small file of 102 numbers asked for 65,537 equations in fractions."""
    problem = permutation(32, 256)
    related = problem.graph.adjacency()
    matrix = np.zeros((32, 32))
    matrix.flat[:102] = np.where(related.flat[:102], 1.0, -1.0)
    begun = time.process_time()
    assert not check_exclusion(problem, matrix).proved
    wide = gaussian(3, 4096, seed=0)
    wide[1] = wide[0]
    matrix = np.zeros((3, 3))
    matrix[0, 2], matrix[1, 2] = 1.0, -1.0
    assert check_exclusion(Problem(Graph(3, np.array([0]), np.array([2])), wide), matrix).proved
    assert not check_exclusion(Problem(Graph(3, np.array([0, 1]), np.array([2, 2])), wide), np.abs(matrix)).proved
    assert time.process_time() - begun < 20


def test_columns_that_add_no_form_change_nothing() -> None:
    problem = permutation(64, 16)
    x = problem.rows.astype(np.float64)
    wider = np.hstack([x, x[:, :2], np.zeros((64, 1))])
    for rows in (wider, x * 1e150, x * 1e-150, x * 2.0 ** np.arange(-8, 8)):
        assert exclude(Problem(problem.graph, rows)).verdict == "excluded"
    held = permutation(64, 20)
    assert exclude(Problem(held.graph, np.hstack([held.rows, held.rows]))).verdict == "held"


def test_rows_of_too_low_a_rank_are_no_proof() -> None:
    """The rows have rank 2 and three different columns: the check does not know the relation of the columns."""
    x = np.random.default_rng(0).integers(-3, 4, (12, 2)).astype(np.float64)
    rows = np.hstack([x, x[:, :1] + x[:, 1:]])
    problem = Problem(permutation_graph(12, seed=0), x)
    matrix = exclude(problem).matrix
    assert matrix is not None
    check = check_exclusion(problem, matrix)
    assert check.proved
    assert not correction_share(problem.graph, rows, matrix) < 1


def test_a_check_says_why_it_refuses(proved: tuple[Problem, ndarray]) -> None:
    problem, matrix = proved
    assert check_exclusion(problem, matrix).reason.startswith("M has the sign of every pair, and the correction")
    larger, flipped = matrix.copy(), matrix.copy()
    larger[3, 5] *= 1.5
    flipped[3, 5] *= -1
    for wrong, why in ((larger, "XᵀMX"), (flipped, "wrong sign"), (matrix[:40, :40], "another number of items")):
        check = check_exclusion(problem, wrong)
        assert not check.proved
        assert why in check.reason


def hub(sources: int, d_model: int, *, is_source: bool = False) -> Problem:
    """128 items: each is related to the next one, and some of them to item 7 (or item 7 to them)."""
    pairs = {(i, (i + 1) % 128) for i in range(128)}
    pairs |= {(7, i) if is_source else (i, 7) for i in range(20, 20 + sources)}
    ends = np.array(sorted(pairs))
    return Problem(Graph(128, ends[:, 0], ends[:, 1]), gaussian(128, d_model, seed=1))


def column_is_separable(problem: Problem, item: int) -> bool:
    """Whether a vector and a threshold separate the sources of an item from all others, by a linear programme."""
    signs = np.where(problem.graph.adjacency()[:, item], 1.0, -1.0)
    forms = np.column_stack([problem.rows.astype(np.float64), -np.ones(problem.items)]) * -signs[:, None]
    found = linprog(np.zeros(forms.shape[1]), A_ub=forms, b_ub=-np.ones(problem.items), bounds=(None, None))
    return found.status == 0


@pytest.mark.parametrize("is_source", [False, True])
def test_the_pairs_of_one_hub_alone_are_a_proof(is_source: bool) -> None:
    """A form of width 60 holds all pairs but those of the hub, so that the search finds no M without zeros."""
    problem = hub(50, 60, is_source=is_source)
    answer = exclude(problem)
    assert answer.verdict == "excluded"
    assert answer.reason.endswith("proved by the pairs of one item")
    assert answer.matrix is not None
    assert np.count_nonzero(answer.matrix) == 128
    check = check_exclusion(problem, answer.matrix)
    assert (check.proved, check.pairs) == (True, 128)
    assert check.share == answer.share


def test_a_hub_is_excluded_exactly_where_a_linear_programme_says() -> None:
    verdicts = set()
    for sources in (4, 12, 20, 40):
        for d_model in (8, 14, 20, 26, 32):
            problem = hub(sources, d_model)
            matrix = one_item(problem)
            verdicts.add(matrix is None)
            if matrix is None or not matrix[:, 7].any():
                assert column_is_separable(problem, 7)
            else:
                assert not column_is_separable(problem, 7)
                assert one_item_share(problem.graph, problem.rows, matrix) < 1e-3
    assert verdicts == {True, False}


def test_a_disturbed_proof_by_one_item_is_refused() -> None:
    problem = hub(40, 26)
    matrix = one_item(problem)
    assert matrix is not None
    assert check_exclusion(problem, matrix).proved
    larger, flipped, absent, second, endless, moved = (matrix.copy() for _ in range(6))
    larger[3, 7] *= 1.5
    flipped[3, 7] *= -1
    absent[3, 7] = 0
    second[3, 8] = -1e-3
    endless[3, 7] = -np.inf
    moved[:, 7], moved[:, 8] = 0, matrix[:, 7]
    for wrong in (larger, flipped, absent, second, endless, moved, -matrix, matrix.T, 0 * matrix):
        assert not check_exclusion(problem, wrong).proved
    assert not check_exclusion(hub(40, 27), matrix).proved
    constant = np.column_stack([problem.rows, np.ones(128, dtype=np.float32)])  # 1 is a column of X itself
    assert check_exclusion(Problem(problem.graph, constant), matrix).proved


@pytest.mark.parametrize(("d_model", "is_source"), [(44, False), (56, True)])
def test_wrong_pairs_that_all_belong_to_one_item_are_mended(d_model: int, is_source: bool) -> None:
    """The last wrong pairs of the search are those of the hub. Every step for them alone makes all pairs right."""
    problem = hub(30, d_model, is_source=is_source)
    signs = np.where(problem.graph.adjacency(), 1.0, -1.0)
    mended = 0
    with ThreadPoolExecutor(1) as pool:
        search = ExclusionSearch(problem, pool)
        while search.look()[0]:
            sources, targets = np.nonzero(signs * search.scores <= 0)
            more = search.one_item_step()
            if more is not None:
                mended += 1
                assert 1 in (len(set(sources.tolist())), len(set(targets.tolist())))
                assert not certify(search.layer(), problem).holds
                assert certify(search.layer(more), problem).holds
            assert search.step()
        assert search.one_item_step() is None  # nothing is wrong
    assert mended


def test_a_hub_whose_row_is_zero_is_excluded() -> None:
    """Its column has one score, minus the threshold, for relations and other pairs."""
    for is_source in (False, True):
        problem = hub(30, 44, is_source=is_source)
        rows = problem.rows.copy()
        rows[7] = 0
        assert exclude(Problem(problem.graph, rows), workers=1).verdict == "excluded"
        with ThreadPoolExecutor(1) as pool:
            search = ExclusionSearch(Problem(problem.graph, rows), pool)
            search.scores = np.where(problem.graph.adjacency(), 1.0, -1.0)
            wrong = ([7, 7], [3, 4]) if is_source else ([3, 4], [7, 7])
            search.scores[wrong] *= -1
            assert search.one_item_step() is None  # no step changes these scores
