"""Explicit key widths of construction I: against exact tails summed in rationals, and against draws."""

from __future__ import annotations

from fractions import Fraction
from math import comb, log

import numpy as np
import pytest

from manyheads import InputError, construct, one_hot, permutation_graph
from manyheads.certificate import certify
from manyheads.construct import RADEMACHER, Bernoulli
from manyheads.construct.one_hot_items import (
    binomial_width,
    chernoff_exponents,
    chernoff_width,
    failure_bound,
    paper_width,
    rademacher_width,
)
from manyheads.problem.problem import Problem


def tail(trials: int, p: Fraction, hits: range) -> Fraction:
    return sum((comb(trials, n) * p**n * (1 - p) ** (trials - n) for n in hits), Fraction(0))


def exact_bound(items: int, width: int, p: Fraction | None) -> Fraction:
    pairs = Fraction(items * (items - 1), 2)
    if p is None:  # signs
        agree = [n for n in range(width + 1) if 2 * (2 * n - width) >= width]
        return pairs * tail(width, Fraction(1, 2), range(agree[0], width + 1))
    threshold = (p + p**2) / 2 * width
    missed = tail(width, p, range(int(threshold) + 1))
    reached = next(n for n in range(width + 2) if n >= threshold)
    return items * missed + pairs * tail(width, p**2, range(reached, width + 1))


@pytest.mark.parametrize("p", [Fraction(1, 4), Fraction(1, 2), Fraction(1, 10), None])
@pytest.mark.parametrize("items", [2, 50])
def test_failure_bound_is_exact(items: int, p: Fraction | None) -> None:
    widths = np.array([1, 2, 3, 4, 8, 31, 40])
    bounds = failure_bound(items, widths, RADEMACHER if p is None else Bernoulli(float(p)))
    np.testing.assert_allclose(bounds, [float(exact_bound(items, w, p)) for w in widths.tolist()], rtol=1e-9)


@pytest.mark.parametrize("p", [0.05, 0.25, 0.5])
@pytest.mark.parametrize("items", [2, 64, 1024])
def test_every_width_keeps_its_promise(items: int, p: float) -> None:
    c1, c2 = chernoff_exponents(p)
    closed, sharp, paper = chernoff_width(items, p=p), binomial_width(items, Bernoulli(p)), paper_width(items, p=p)
    assert sharp < closed
    chernoff = items * np.exp(-c1 * closed) + items**2 * np.exp(-c2 * closed)
    assert chernoff <= items**-3.0
    later = np.arange(sharp, closed + 200)
    assert (failure_bound(items, later, Bernoulli(p)) <= items**-3.0).all()
    assert failure_bound(items, np.array([sharp - 1]), Bernoulli(p))[0] > items**-3.0
    # the paper's width misses what it promises by its own bound, and keeps 2·m^−2
    assert items**-3.0 < items * np.exp(-c1 * paper) + items**2 * np.exp(-c2 * paper) <= 2 * items**-2.0


def test_values_of_the_laws() -> None:
    assert (chernoff_width(1024, p=0.25), binomial_width(1024, Bernoulli(0.25))) == (1617, 968)
    assert rademacher_width(1024) == int(np.ceil(8 * (5 * log(1024) - log(2)))) == 272
    assert binomial_width(1024, RADEMACHER) < 272
    assert failure_bound(1024, np.array([272]), RADEMACHER)[0] <= 1024**-3.0
    assert rademacher_width(1) == 1


@pytest.mark.parametrize("signatures", [Bernoulli(0.25), Bernoulli(0.5), RADEMACHER])
def test_the_default_width_certifies_in_every_draw(signatures: construct.Signatures) -> None:
    graph, x = permutation_graph(24, seed=0), one_hot(24)
    layers = [construct.one_hot(Problem(graph, x), seed=seed, signatures=signatures) for seed in range(20)]
    assert {layer.key_width for layer in layers} == {binomial_width(24, signatures)}
    assert all(certify(layer, Problem(graph, x)).holds for layer in layers)


def test_the_closed_form_is_for_p_up_to_one_half() -> None:
    with pytest.raises(InputError, match="1/2"):
        chernoff_width(10, p=0.7)
