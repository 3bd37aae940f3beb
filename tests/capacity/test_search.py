"""The search for D_K* on made-up score surfaces, against trying every point."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from manyheads.capacity import threshold
from manyheads.capacity.search import Bracket, Search

HEADS, SEEDS, LIMIT = (1, 2, 4, 8, 16), tuple(range(5)), 128


def surface(seed: int, noise: float) -> dict[tuple[int, int, int], float]:
    """A sigmoid in the key budget, with a centre that is smallest at some head count, and noise of each run."""
    rng = np.random.default_rng(seed)
    favourite, centre = rng.integers(0, 5), rng.uniform(15, 60)
    scores = {}
    for position, heads in enumerate(HEADS):
        middle = centre * (1 + 0.15 * abs(position - favourite))
        for width in range(1, LIMIT // heads + 1):
            for run in SEEDS:
                x = (heads * width - middle) / 1.5 + noise * rng.standard_normal()
                scores[heads, width, run] = 1 / (1 + math.exp(-max(-50.0, x)))
    return scores


def run_search(scores: dict[tuple[int, int, int], float], start: int) -> tuple[Search, int]:
    search = Search({heads: max(1, start // heads) for heads in HEADS}, SEEDS, 0.99, LIMIT, widest=LIMIT)
    used = 0
    while wanted := search.wanted():
        assert len(set(wanted)) == len(wanted)
        used += len(wanted)
        search.tell({want: scores[want] for want in wanted})
    return search, used


def exhaustive(scores: dict[tuple[int, int, int], float]) -> int | None:
    budgets = [
        heads * width
        for heads in HEADS
        for width in range(1, LIMIT // heads + 1)
        if np.mean([scores[heads, width, seed] for seed in SEEDS]) >= 0.99
    ]
    return min(budgets, default=None)


@pytest.mark.parametrize("start", [4, 30, 120])
def test_finds_what_the_grid_finds_with_a_quarter_of_its_runs(start: int) -> None:
    same, used, grid = 0, 0, 0
    for case in range(20):
        scores = surface(case, noise=0.5)
        search, runs = run_search(scores, start)
        same += threshold(search.full_points()).key_budget == exhaustive(scores)
        used += runs
        reached = max(heads * width for heads, width in search.scores)
        grid += sum(reached // heads for heads in HEADS) * len(SEEDS)
    assert same >= 18
    assert used <= grid / 4


@settings(max_examples=60)
@given(st.integers(0, 10_000), st.integers(1, 128), st.floats(0, 3))
def test_never_claims_what_it_did_not_see(seed: int, start: int, noise: float) -> None:
    scores = surface(seed, noise)
    search, _ = run_search(scores, start)
    found, true = threshold(search.full_points()).key_budget, exhaustive(scores)
    if found is not None:
        assert true is not None
        assert found >= true  # it can miss a lucky point, not invent one
        assert any(search.verdict(point.heads, point.key_width) for point in search.points())


def test_nothing_passes() -> None:
    search, _ = run_search(dict.fromkeys(surface(0, 0.0), 0.5), 30)
    assert threshold(search.full_points()).key_budget is None
    assert search.best is None


def test_everything_passes() -> None:
    search, _ = run_search(dict.fromkeys(surface(0, 0.0), 1.0), 30)
    assert threshold(search.full_points()).key_budget == 1


def test_a_hole_just_below_the_threshold_is_looked_behind() -> None:
    # one head passes at 20 and again at 18, not at 19
    scores = {want: float(want[0] == 1 and (want[1] >= 20 or want[1] == 18)) for want in surface(0, 0.0)}
    search, _ = run_search(scores, 22)  # bisection from here looks at 19, not at 18
    assert threshold(search.full_points()).key_budget == 18


def test_a_run_without_a_score_is_no_pass_and_no_zero() -> None:
    search = Search({1: 4}, (0, 1, 2), 0.99, limit=16, widest=16)
    search.tell(dict.fromkeys(search.wanted()))
    assert search.verdict(1, 4) is False
    assert [point.scores for point in search.points()] == [()]


def test_a_run_without_a_score_fails_its_point_whatever_the_others_score() -> None:
    """With exact recovery the target is ½: two of three seeds would reach it if the third counted as 0."""
    search = Search({1: 4}, (0, 1, 2), 0.5, limit=16, widest=16)
    search.tell({(1, 4, 0): 1.0, (1, 4, 1): 1.0, (1, 4, 2): None})
    assert search.verdict(1, 4) is False


def test_a_hopeless_point_costs_two_seeds() -> None:
    search = Search({1: 4}, tuple(range(10)), 0.99, limit=16, widest=16)
    search.tell({want: 0.5 for want in search.wanted()})
    assert len(search.scores[1, 4]) == 2
    bracket = search.brackets[1]
    assert (bracket.failed, bracket.passed) == (4, None)
    assert bracket.looking is not None
    assert bracket.looking > 4


def test_brackets_close_around_the_threshold() -> None:
    scores = {want: float(want[0] == 1 and want[1] >= 20) for want in surface(0, 0.0)}
    search, _ = run_search(scores, 24)
    assert search.brackets[1] == Bracket(failed=19, passed=20, looking=None)
    assert search.brackets[2].passed is None
    assert search.outlook == len(search.wanted_around())


def test_the_neighbours_of_the_threshold_get_all_seeds() -> None:
    scores = surface(3, noise=0.5)
    search, _ = run_search(scores, 30)
    before = threshold(search.full_points())
    while wanted := search.wanted_around():
        search.tell({want: scores[want] for want in wanted})
    after = threshold(search.full_points())
    assert after.key_budget is not None
    assert before.key_budget is not None
    assert after.key_budget <= before.key_budget
    assert after.high is not None
    assert after.low is not None
    assert after.low <= after.key_budget <= after.high


def test_no_head_is_tried_wider_than_the_widest() -> None:
    search = Search({1: 30, 2: 15}, SEEDS, 0.99, limit=128, widest=12)
    while wanted := search.wanted():
        search.tell(dict.fromkeys(wanted, 0.5))
    assert max(width for _, width in search.scores) == 12


def test_with_shared_keys_the_search_finds_the_fewest_weights() -> None:
    """A layer works from 30 rows of weights on: (h + 1)·d_k. Every head count is bounded by that size."""
    seen: set[tuple[int, int]] = set()
    search = Search({2: 4, 4: 3, 8: 2}, SEEDS, 0.99, LIMIT, widest=LIMIT, key_heads={2: 1, 4: 1, 8: 1}.get)
    while wanted := search.wanted():
        seen |= {(heads, width) for heads, width, _ in wanted}
        search.tell({want: float((want[0] + 1) * want[1] >= 30) for want in wanted})
    found = threshold(search.full_points())
    assert search.best == 15
    assert (found.heads, found.key_heads, found.key_budget) == (2, 1, 10)
    assert {point.size for point in search.points()} == {search.size(heads, width) for heads, width in seen}
    assert search.size(8, 2) == 9
