"""Rules: scores against loops, tensors against arrays, rounding bounds against exact fractions."""

from __future__ import annotations

import copy
import math
import pickle
from fractions import Fraction

import numpy as np
import pytest

from manyheads import InputError
from manyheads.layer.rules import (
    LOGSUMEXP,
    MAX,
    RULES,
    SOFTMAX,
    SUM,
    UNIT,
    Rule,
    gamma,
    register_rule,
    rule_named,
)

HEADS, SOURCES, TARGETS, KEY_WIDTH = 4, 5, 6, 3
NAMES = list(RULES)
BLIND = [rule for rule in RULES.values() if rule.context_blind]


def scores(seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).normal(scale=2.0, size=(HEADS, SOURCES, TARGETS))


def by_hand(name: str, heads: list[list[float]], target: int) -> float:
    """One pair's score: `heads` holds each head's scores of one source with every target."""
    own = [row[target] for row in heads]
    if name == "softmax":
        shares = []
        for row in heads:
            logits = [score / math.sqrt(KEY_WIDTH) for score in row]
            shares.append(math.exp(logits[target]) / math.fsum(math.exp(logit) for logit in logits))
        return math.fsum(shares)
    if name == "logsumexp":
        return math.log(math.fsum(map(math.exp, own)))
    return {"max": max(own), "sum": math.fsum(own)}[name]


@pytest.mark.parametrize("name", NAMES)
def test_scores_are_joined_as_by_hand(name: str) -> None:
    given = scores()
    joined = RULES[name].join(given, key_width=KEY_WIDTH)
    assert joined.shape == (SOURCES, TARGETS)
    for source in range(SOURCES):
        for target in range(TARGETS):
            expected = by_hand(name, given[:, source].tolist(), target)
            assert joined[source, target] == pytest.approx(expected, rel=1e-12)


@pytest.mark.parametrize("name", NAMES)
def test_contributions_name_the_head_that_holds_a_pair(name: str) -> None:
    given, rule = scores(1), RULES[name]
    parts = rule.contributions(given, key_width=KEY_WIDTH)
    assert parts.shape == given.shape
    if rule.context_blind:
        np.testing.assert_array_equal(parts, given)
    else:
        np.testing.assert_allclose(parts.sum(axis=2), 1.0)
        np.testing.assert_allclose(parts.sum(axis=0), rule.join(given, key_width=KEY_WIDTH))


@pytest.mark.parametrize("name", NAMES)
def test_tensors_are_joined_like_arrays(name: str) -> None:
    torch = pytest.importorskip("torch")
    rule, given = RULES[name], np.stack([scores(n) for n in range(6)])
    tensor = torch.tensor(given).reshape(2, 3, HEADS, SOURCES, TARGETS)
    joined = rule.join_tensor(tensor / rule.divisor(KEY_WIDTH)).reshape(6, SOURCES, TARGETS).numpy()
    for one, expected in zip(joined, given, strict=True):
        np.testing.assert_allclose(one, rule.join(expected, key_width=KEY_WIDTH), rtol=1e-12)


@pytest.mark.parametrize("rule", BLIND, ids=str)
def test_heads_are_added_one_by_one(rule: Rule) -> None:
    given = scores(2)
    joined = given[0].copy()
    for head in given[1:]:
        rule.add_head(joined, head)
    np.testing.assert_allclose(joined, rule.join(given, key_width=KEY_WIDTH), rtol=1e-14)


@pytest.mark.parametrize("rule", [MAX, SUM], ids=str)
def test_no_rounded_join_strays_further_than_its_bound(rule: Rule) -> None:
    """Each head's score is off by its error; the exact join of exact scores is a fraction."""
    rng = np.random.default_rng(0)
    exact = [[Fraction(int(n), 3**k) for n in rng.integers(-(3**9), 3**9, 200)] for k in range(8)]
    # each head's scores as float64 has them, off by a little more, and by how much
    rounded = np.array([[float(score) for score in head] for head in exact]) * (
        1 + 8 * UNIT * rng.uniform(-1, 1, (8, 200))
    )
    off = [
        [abs(Fraction(r) - s) for r, s in zip(*pair, strict=True)] for pair in zip(rounded.tolist(), exact, strict=True)
    ]
    errors = np.array([[np.nextafter(float(one), np.inf) for one in head] for head in off])
    joined = rule.join(rounded[:, None], key_width=1)[0]
    # the sum itself rounds; the head errors leave room for that in projection.py, as here
    room = gamma(8) * np.abs(rounded).sum(axis=0) if rule is SUM else 0.0
    bounds = rule.error_bound(errors) + room
    for column in range(200):
        own = [head[column] for head in exact]
        true = max(own) if rule is MAX else sum(own, Fraction(0))
        assert abs(Fraction(float(joined[column])) - true) <= Fraction(float(bounds[column]))
    if rule is SUM:
        assert (rule.error_bound(errors) >= errors.sum(axis=0)).all()


def test_the_bound_of_logsumexp_holds_to_sixty_digits() -> None:
    mpmath = pytest.importorskip("mpmath")
    rng = np.random.default_rng(1)
    given = rng.normal(scale=30.0, size=(8, 300))
    errors = np.abs(given) * 8 * UNIT
    joined = given[0].copy()[None]
    for head in given[1:]:
        LOGSUMEXP.add_head(joined, head[None])
    # |score| · u of each step is in the head errors, as projection.py gives them
    bounds = LOGSUMEXP.error_bound(errors)
    with mpmath.workdps(60):
        for column in range(300):
            true = mpmath.log(mpmath.fsum(mpmath.exp(mpmath.mpf(score)) for score in given[:, column]))
            assert abs(mpmath.mpf(joined[0, column]) - true) <= mpmath.mpf(bounds[column])


@pytest.mark.parametrize("shape", [(3,), (3, 4)])
def test_bounds_keep_the_shape_of_the_errors(shape: tuple[int, ...]) -> None:
    for rule in BLIND:
        assert rule.error_bound(np.ones((HEADS, *shape))).shape == shape


def test_gamma_is_the_standard_bound() -> None:
    assert Fraction(gamma(1000)) == pytest.approx(float(Fraction(1000, 2**53) / (1 - Fraction(1000, 2**53))), rel=1e-15)


def test_what_a_rule_says_of_itself() -> None:
    assert [rule.name for rule in (MAX, SOFTMAX, SUM, LOGSUMEXP)] == list(RULES)
    assert [rule for rule in RULES.values() if not rule.context_blind] == [SOFTMAX]
    assert [rule for rule in RULES.values() if rule.long_training] == [SOFTMAX]
    assert [rule for rule in RULES.values() if rule.kernel] == [MAX, SOFTMAX]
    assert [rule for rule in RULES.values() if rule.has_rounding_bound] == [MAX, SUM, LOGSUMEXP]
    assert (str(MAX), repr(MAX), MAX.divisor(16), SOFTMAX.divisor(16)) == ("max", "'max'", 1.0, 4.0)


@pytest.mark.parametrize("rule", RULES.values(), ids=str)
def test_a_rule_is_one_object_in_every_process(rule: Rule) -> None:
    assert pickle.loads(pickle.dumps(rule)) is rule
    assert copy.deepcopy(rule) is rule
    assert rule_named(rule.name) is rule
    assert rule_named(rule) is rule


def test_softmax_is_not_joined_head_by_head() -> None:
    with pytest.raises(InputError, match="softmax does not join heads one by one"):
        SOFTMAX.add_head(np.zeros((1, 1)), np.zeros((1, 1)))
    with pytest.raises(InputError, match="softmax has no rounding bound"):
        SOFTMAX.error_bound(np.zeros((1, 1)))


def test_unknown_and_taken_names_are_refused() -> None:
    with pytest.raises(InputError, match="unknown rule 'median': choose from max, softmax, sum, logsumexp"):
        rule_named("median")
    with pytest.raises(InputError, match="a rule 'max' exists already"):
        register_rule(type(MAX)())
