"""capacity: the paper's statistics against statsmodels and against definitions written out."""

from __future__ import annotations

import numpy as np
import pytest
import statsmodels.api as sm
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import binomtest
from statsmodels.stats.weightstats import DescrStatsW

from manyheads import InputError
from manyheads.capacity import (
    Goal,
    Point,
    affine_regression,
    points,
    regression_through_origin,
    search_threshold,
    threshold,
)
from manyheads.capacity.thresholds import differs


def point(heads: int, key_width: int, *scores: float) -> Point:
    return Point(heads, key_width, tuple(enumerate(scores)))


@given(st.lists(st.floats(0, 1), min_size=2, max_size=12))
def test_interval_is_the_t_interval(scores: list[float]) -> None:
    expected = DescrStatsW(np.array(scores)).tconfint_mean(alpha=0.05)
    np.testing.assert_allclose(point(2, 3, *scores).interval, expected, rtol=1e-9, atol=1e-12)


def test_one_seed_has_no_interval() -> None:
    low, high = point(1, 4, 0.995).interval
    assert low == -np.inf
    assert high == np.inf


def test_the_three_values_of_the_threshold() -> None:
    noisy, wide, sure = point(2, 5, 0.97, 1.0), point(2, 6, 0.985, 1.0), point(4, 5, 0.999, 1.0)
    found = threshold([sure, noisy, wide])
    # the mean passes first at 12; the upper end of the interval already at 10; the lower end only at 20
    assert (found.key_budget, found.low, found.high) == (12, 10, 20)
    assert (found.heads, found.key_width) == (2, 6)


def test_ties_in_budget_go_to_the_larger_mean() -> None:
    assert threshold([point(2, 6, 0.991, 0.992), point(3, 4, 0.995, 0.996)]).heads == 3


def test_nothing_passes() -> None:
    found = threshold([point(2, 6, 0.5, 0.501), point(3, 4)])
    assert (found.key_budget, found.low, found.high, found.heads, found.key_width) == (None, None, None, None, None)


def test_the_range_of_head_counts() -> None:
    best = point(4, 5, 0.995, 0.996, 0.994)
    close = point(2, 11, 0.996, 0.995, 0.994)  # D_K = 22, within 10 %, no significant difference
    worse = point(1, 20, 0.900, 0.902, 0.899)  # within 10 %, significantly worse
    far = point(8, 3, 0.995, 0.996, 0.994)  # D_K = 24, outside the pool
    found = threshold([best, close, worse, far])
    assert (found.heads, found.heads_low, found.heads_high) == (4, 2, 4)
    # a head count stays if any of its tested key budgets in the pool is not significantly different
    second = point(1, 22, 0.995, 0.996, 0.995)
    assert threshold([best, close, worse, far, second]).heads_low == 1


def test_identical_scores_give_no_t_and_are_retained() -> None:
    assert not differs(point(1, 4, 0.99, 1.0), point(2, 2, 0.99, 1.0))
    assert differs(point(1, 4, 0.98, 0.99), point(2, 2, 0.99, 1.0))


@given(st.lists(st.tuples(st.floats(0, 1), st.floats(0, 1)), min_size=3, max_size=10))
def test_paired_test_is_statsmodels_paired_test(pairs: list[tuple[float, float]]) -> None:
    one, other = point(1, 4, *(a for a, _ in pairs)), point(2, 2, *(b for _, b in pairs))
    differences = one.values - other.values
    if np.std(differences) < 1e-9:
        return
    _, p, _ = DescrStatsW(differences).ttest_mean(0.0)
    assert differs(one, other) == (p <= 0.05)


def test_a_pair_is_compared_on_common_seeds_only() -> None:
    one = Point(1, 4, ((0, 0.1), (1, 0.99), (2, 0.98), (3, 0.97)))
    other = Point(2, 2, ((1, 0.98), (2, 0.99), (3, 0.97), (9, 0.0)))
    assert not differs(one, other)


def test_points_group_by_shape_and_refuse_a_seed_twice() -> None:
    made = points([(2, 3, 1, 0.5), (1, 4, 0, 0.7), (2, 3, 0, 0.6)])
    assert [(p.heads, p.key_width, p.scores) for p in made] == [(1, 4, ((0, 0.7),)), (2, 3, ((0, 0.6), (1, 0.5)))]
    with pytest.raises(InputError, match="twice"):
        points([(2, 3, 1, 0.5), (2, 3, 1, 0.6)])


@given(st.integers(4, 15), st.integers(0, 10_000))
def test_fits_are_statsmodels_fits(n: int, seed: int) -> None:
    rng = np.random.default_rng(seed)
    x = rng.uniform(1, 100, n)
    y = 1.2 * x + 3 + rng.standard_normal(n)
    through, line = regression_through_origin(x, y), affine_regression(x, y)
    origin, affine = sm.OLS(y, x).fit(), sm.OLS(y, sm.add_constant(x)).fit()
    np.testing.assert_allclose([through.slope, *through.slope_interval], [origin.params[0], *origin.conf_int()[0]])
    np.testing.assert_allclose(through.r_squared_uncentred, origin.rsquared)
    np.testing.assert_allclose([line.intercept, line.slope], affine.params)
    np.testing.assert_allclose([line.intercept_interval, line.slope_interval], affine.conf_int())
    np.testing.assert_allclose(line.r_squared, affine.rsquared)
    np.testing.assert_allclose(
        through.r_squared, 1 - ((y - through.slope * x) ** 2).sum() / ((y - y.mean()) ** 2).sum()
    )
    assert line(2.0) == line.slope * 2.0 + line.intercept


def test_too_few_points_say_so() -> None:
    with pytest.raises(InputError, match="at least 3"):
        affine_regression(np.array([1.0, 2.0]), np.array([1.0, 2.0]))
    with pytest.raises(InputError, match="different x"):
        affine_regression(np.array([1.0, 1.0, 1.0]), np.array([1.0, 2.0, 3.0]))


@pytest.mark.parametrize(("successes", "count"), [(0, 3), (2, 3), (3, 3), (5, 10), (1, 1)])
def test_the_interval_of_a_share_is_wilsons(successes: int, count: int) -> None:
    made = point(2, 3, *[1.0] * successes, *[0.0] * (count - successes))
    expected = binomtest(successes, count).proportion_ci(method="wilson")
    np.testing.assert_allclose(Goal(exact=True).interval(made), (expected.low, expected.high), atol=1e-12)


@pytest.mark.parametrize("share", [0.0, 1.0])
def test_the_interval_of_a_share_has_the_share_in_it(share: float) -> None:
    """A rounding error puts the lower end above 0 for some counts; a picture cannot draw a negative error bar."""
    for count in range(1, 60):
        low, high = Goal(exact=True).interval(point(2, 3, *[share] * count))
        assert 0 <= low <= share <= high <= 1


def test_the_interval_of_an_f1_stays_within_its_range() -> None:
    made = point(2, 3, 0.7, 1.0, 1.0)
    assert made.interval[1] > 1
    assert Goal().interval(made) == (made.interval[0], 1.0)
    assert Goal().interval(point(2, 3, 0.5)) == (0.0, 1.0)


BEST = [point(3, 5, 0.991, 0.992, 0.99), point(3, 6, 0.999, 0.999, 0.999), point(3, 4, 0.9, 0.91, 0.9)]


def test_points_of_other_shapes_do_not_change_the_range() -> None:
    """A curve that was filled for a picture adds wide intervals and head counts that never reach the goal."""
    filled = [point(1, 12, 0.6, 0.99, 0.99), point(1, 15, 0.98, 0.99, 0.989), point(4, 3, 0.5, 0.9, 0.99)]
    found = search_threshold(BEST, Goal())
    assert (found.key_budget, found.low, found.high) == (15, 15, 18)
    assert (found.heads, found.heads_low, found.heads_high) == (3, 3, 3)
    assert search_threshold([*BEST, *filled], Goal()) == found
    assert threshold([*BEST, *filled]).heads_low == 1  # as on the paper's grids


def test_a_head_count_that_reaches_the_goal_nearby_is_not_worse() -> None:
    near, far = point(4, 4, 0.99, 0.993, 0.991), point(2, 9, 0.999, 0.999, 0.999)
    found = search_threshold([*BEST, near, far], Goal())
    assert (found.heads_low, found.heads_high) == (3, 4)


def test_nothing_that_works_has_no_threshold() -> None:
    assert search_threshold([point(1, 4, 0.5, 0.6)], Goal()).key_budget is None


def shared(heads: int, key_heads: int, key_width: int, *scores: float) -> Point:
    return Point(heads, key_width, tuple(enumerate(scores)), key_heads)


def test_where_heads_share_keys_the_smallest_layer_has_the_fewest_weights() -> None:
    """8 heads of width 4 cache 4 numbers and have 36 rows of weights; 2 heads of width 7 cache 7 and have 21."""
    many, few = shared(8, 1, 4, 1.0, 1.0), shared(2, 1, 7, 1.0, 1.0)
    narrow, wide = shared(2, 1, 6, 0.9, 0.91), shared(2, 1, 8, 1.0, 1.0)
    assert (many.key_budget, few.key_budget, many.size, few.size) == (4, 7, 18.0, 10.5)
    for found in (threshold([many, few, narrow]), search_threshold([many, few, narrow, wide], Goal())):
        assert (found.key_budget, found.heads, found.key_heads, found.key_width) == (7, 2, 1, 7)
        assert (found.low, found.high) == (7, 7)
        assert found.facts["key_heads"] == 1
    assert "key_heads" not in threshold(BEST).facts


def test_the_size_of_a_layer_without_shared_keys_is_its_key_budget() -> None:
    for one in (point(3, 5, 1.0), shared(3, 3, 5, 1.0)):
        assert (one.size, one.key_budget, one.groups) == (15, 15, 3)
