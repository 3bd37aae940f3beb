"""The page on one head: its rows are complete and can be decided again, its picture shows them, its bound is sound."""

from __future__ import annotations

import math
from collections.abc import Callable
from itertools import combinations
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from scipy.optimize import linprog
from support.linear_programme import one_head_holds

from manyheads import exclude, gaussian, permutation_graph
from manyheads.problem.graph import Graph
from manyheads.problem.problem import Problem
from tools.pages import rows as rows_module
from tools.pages.catalogue import Settings
from tools.pages.one_head import measurement
from tools.pages.one_head.measurement import FAMILIES, SIZES, Place, around, gaussian_problem
from tools.pages.one_head.pictures import draw_transition
from tools.pages.one_head.several_heads import (
    dual_numbers,
    miss_shares,
    missed_row,
    pair_vectors,
    proved_bound,
    rest_factor,
)
from tools.pages.one_head.text import page, transitions
from tools.pages.rows import matching, read_rows, read_tables


@pytest.fixture(scope="module")
def rows() -> list[dict[str, Any]]:
    return read_rows("one-head")


def test_every_dimension_around_every_transition_is_decided(rows: list[dict[str, Any]]) -> None:
    places = {(one.family, one.items, one.seed): one for one in transitions(rows)}
    small = [(family, items) for family in FAMILIES for items in SIZES]
    for key in ((*sizes, seed) for sizes in [*small, ("permutation", 1024)] for seed in range(5)):
        one = places[key]
        own = matching(rows, family=one.family, items=one.items, seed=one.seed)
        found = sorted(row["d_model"] for row in own)
        low, high = min(one.excluded, one.held), max(one.excluded, one.held)
        assert found == list(range(found[0], found[-1] + 1))
        assert found[0] <= low - 1
        assert found[-1] >= high + 1


@pytest.mark.long
def test_stored_rows_can_be_decided_again(rows: list[dict[str, Any]]) -> None:
    for family in FAMILIES:
        for row in matching(rows, family=family, items=64, seed=1):
            if row["seconds"] > 1:
                continue  # next to the transition: takes too long for a test
            answer = exclude(gaussian_problem(family, 64)(row["d_model"], 1), workers=1)
            assert answer.verdict == row["verdict"]
            assert (answer.share is None) == (row["share"] is None)


def walk(decide: Callable[[int], str], start: float, wider: int = 2) -> list[int]:
    """The dimensions in the order in which they are decided; none is asked for before it was decided."""
    order: list[int] = []

    def known(d_model: int) -> str:
        assert d_model in order
        return decide(d_model)

    for d_model in around(start, known, wider):
        order.append(d_model)
    return order


def test_the_search_goes_from_the_law_to_both_sides() -> None:
    assert sorted(set(walk(lambda d: "held" if d > 16 else "excluded", 17.2))) == list(range(14, 20))
    assert sorted(set(walk(lambda d: "held" if d > 12 else "excluded", 17.2))) == [*range(10, 18)]
    names = {15: "excluded", 16: "undecided", 17: "undecided", 18: "held"}
    assert sorted(set(walk(lambda d: names.get(d, "excluded" if d < 15 else "held"), 17.2))) == list(range(13, 21))
    assert walk(lambda d: "held" if d > 138 else "excluded", 139.4, wider=0) == [139, 138]


def test_one_token_excludes_no_more_than_all_pairs(rows: list[dict[str, Any]]) -> None:
    hubs = read_rows("one-head-hubs")
    assert [hub["items"] for hub in hubs] == sorted({row["items"] for row in matching(rows, family="wordnet")})
    for hub in hubs:
        own = matching(rows, family="wordnet", items=hub["items"])
        assert hub["d_model"] <= max(row["d_model"] for row in matching(own, verdict="excluded"))
        assert 0 < hub["share"] < 1


def test_the_hub_of_a_made_up_graph_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    """Item 0 has 20 of 64 items as sources: the first d at which its column is separable is by a linear programme."""
    graph = Graph(64, np.arange(20), np.zeros(20, dtype=np.int64))
    monkeypatch.setattr(measurement, "read_rows", lambda _: [decided_row(40)])

    def draw(d_model: int, _seed: int) -> Problem:
        return Problem(graph, gaussian(64, d_model, seed=d_model))

    row = measurement.hub_row(draw, 64)
    signs = np.where(graph.adjacency()[:, 0], 1.0, -1.0)
    separable = {}
    for d_model in range(row["d_model"], 40):
        forms = np.column_stack([draw(d_model, 0).rows.astype(np.float64), -np.ones(64)]) * -signs[:, None]
        found = linprog(np.zeros(d_model + 1), A_ub=forms, b_ub=-np.ones(64), bounds=(None, None))
        separable[d_model] = found.status == 0
    assert row["token_relations"] == 20
    assert [d_model for d_model, is_separable in separable.items() if not is_separable] == [row["d_model"]]


def decided_row(d_model: int) -> dict[str, Any]:
    return {"family": "wordnet", "items": 64, "d_model": d_model, "verdict": "held"}


def test_it_continues_and_searches_again_what_was_undecided(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rows_module, "DATA", tmp_path)
    monkeypatch.setattr(measurement, "commit", lambda: "abc")
    monkeypatch.setattr(measurement, "MISSED", ((16, 4),))
    monkeypatch.setattr(measurement, "PLACES", (Place("permutation", "permutation", 16, seeds=1),))
    measurement.measure(Settings())
    first = read_rows("one-head")
    assert {row["verdict"] for row in first} == {"excluded", "held"}
    measurement.measure(Settings())
    assert read_rows("one-head") == first  # seconds included: nothing was decided again
    rows_module.write_rows("one-head", [first[0] | {"verdict": "undecided"}, *first[1:]])
    measurement.measure(Settings(only="missed"))
    assert read_rows("one-head")[0]["verdict"] == "undecided"  # kept until it is searched again
    measurement.measure(Settings())
    again = read_rows("one-head")
    assert again[:-1] == first[1:]
    assert again[-1]["verdict"] == first[0]["verdict"]
    assert read_rows("one-head-missed")[0]["missed"] > 1


def test_the_page_calls_a_gap_of_two_dimensions_undecided(rows: list[dict[str, Any]]) -> None:
    made_up = [
        rows[0] | {"items": 64, "seed": 9, "d_model": d, "verdict": verdict, "share": 0.1}
        for d, verdict in ((15, "excluded"), (16, "undecided"), (17, "held"))
    ]
    (one,) = transitions(made_up)
    assert (one.excluded, one.held, one.undecided, one.decided) == (15, 17, (16,), False)
    tables = read_tables(("one-head-missed", "one-head-hubs", "one-head-machine"))
    text = page({**tables, "one-head": [*matching(rows, family="permutation", items=64, seed=0), *made_up]})
    assert "| permutation | 64 | 17.2 | 15 to 16 | 17 | 1 of 2 |" in text
    assert "All others are *open*:\n  permutation, m = 64, seed 9." in text
    assert "Undecided: permutation (64, 16), seed 9." in text
    alone = page({**tables, "one-head": [*matching(rows, family="permutation", items=128, seed=0), *made_up]})
    assert "| permutation | 64 | 17.2 | 15 | 17 | open |" in alone


def test_the_picture_shows_every_decision(rows: list[dict[str, Any]]) -> None:
    left, right = draw_transition(rows).axes
    shown = {str(dots.get_label()): len(np.asarray(dots.get_offsets())) for dots in right.collections}
    for verdict in ("excluded", "held", "undecided"):
        assert shown[verdict] == sum(row["family"] != "wordnet" for row in matching(rows, verdict=verdict))
    places = {(one.family, one.items) for one in transitions(rows)}
    assert sum(len(bar[0].get_xdata()) for bar in left.containers) == len(places)


def sets_held(problem: Problem) -> list[set[tuple[int, int]]]:
    """Every set of relations that one form holds while it rejects all other pairs, by exact fractions."""
    graph = problem.graph
    relations = list(zip(graph.sources.tolist(), graph.targets.tolist(), strict=True))
    subsets = [set(chosen) for count in range(len(relations) + 1) for chosen in combinations(relations, count)]
    return [held for held in subsets if one_head_holds(graph, problem.rows, ignored=set(relations) - held)]


def fewest_heads(relations: int, held: list[set[tuple[int, int]]]) -> int:
    """The fewest heads under the rule max that hold all relations together; more than all where none do."""
    for heads in range(1, relations + 1):
        if any(len(set().union(*chosen)) == relations for chosen in combinations(held, heads)):
            return heads
    return relations + 1


@pytest.mark.parametrize(("items", "d_model", "seed"), [(5, 1, 0), (6, 1, 1), (6, 2, 0), (6, 2, 1)])
def test_the_bound_is_not_above_what_every_head_misses(items: int, d_model: int, seed: int) -> None:
    rows = np.round(gaussian(items, d_model, seed=seed) * 16) / 16  # short fractions: the oracle is exact
    problem = Problem(permutation_graph(items, seed=seed), rows)
    row, held = missed_row(problem), sets_held(problem)
    assert 1 <= row["missed"] <= items - max(len(one) for one in held)
    assert row["heads"] <= fewest_heads(items, held)


def test_any_dual_numbers_prove_no_bound_below_the_programme() -> None:
    """Numbers that do not solve the programme, and numbers with errors, give larger bounds, never smaller ones."""
    problem = Problem(permutation_graph(8, seed=0), gaussian(8, 2, seed=0))
    matrix = exclude(problem, workers=1).matrix
    assert matrix is not None
    related, vectors = problem.graph.adjacency(), pair_vectors(problem)
    others, weights = vectors[~related], -matrix[~related]
    factor, rng = rest_factor(others), np.random.default_rng(0)
    for relation in vectors[related]:
        least = -linprog(
            relation, others, np.zeros(len(others)), -(weights @ others)[None], [1.0], bounds=(None, None)
        ).fun
        numbers = dual_numbers(relation, others, weights)
        assert numbers is not None
        assert proved_bound(relation, others, weights, numbers, factor) == pytest.approx(least, rel=1e-6)
        for wrong in (0 * numbers, 0.9 * numbers, numbers + 1e-3 * rng.standard_normal(len(numbers))):
            assert proved_bound(relation, others, weights, wrong, factor) > least


def test_rows_of_too_low_a_rank_bound_nothing() -> None:
    column = gaussian(6, 1, seed=0)
    problem = Problem(permutation_graph(6, seed=0), np.concatenate([column, 2 * column], axis=1))
    assert rest_factor(pair_vectors(problem)[~problem.graph.adjacency()]) == math.inf


def test_a_graph_that_one_head_holds_has_no_such_bound() -> None:
    with pytest.raises(ValueError, match="one head is not excluded"):
        missed_row(Problem(permutation_graph(8, seed=0), gaussian(8, 7, seed=0)))


def test_the_shares_do_not_depend_on_the_scale_of_the_proof() -> None:
    problem = Problem(permutation_graph(8, seed=0), gaussian(8, 2, seed=0))
    matrix = exclude(problem, workers=1).matrix
    assert matrix is not None
    np.testing.assert_allclose(miss_shares(problem, matrix), miss_shares(problem, 8 * matrix), rtol=1e-6)
