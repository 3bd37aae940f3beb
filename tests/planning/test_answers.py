"""Answers to the inverse questions, and the rows of the pictures: the laws themselves."""

from __future__ import annotations

import math

import numpy as np
import pytest

from manyheads import InputError, gaussian
from manyheads.bounds import Shape, freedom_key_width
from manyheads.bounds.inverse import (
    d_model_by_bits,
    d_model_by_freedom,
    d_model_by_labellings,
    relations_by_bits,
    relations_by_freedom,
    relations_by_labellings,
    relations_by_paper,
)
from manyheads.planning import answers, plan
from manyheads.planning.answers import capacity_map, head_curve
from manyheads.problem.graph_kinds import PERMUTATION_SLOPE, RELATION_SLOPE


def test_relations_that_fit_are_those_of_the_laws() -> None:
    shape = Shape(d_model=16, heads=4, key_width=8)
    found = answers.relations_that_fit(shape, items=64)
    assert found.impossible_beyond == relations_by_bits(shape, items=64, bits=16.0)
    assert found.likely == relations_by_freedom(shape, items=64)
    assert found.paper_law == relations_by_paper(shape, items=64, slope=RELATION_SLOPE)
    assert (found.guaranteed, found.guaranteed_by_heads, found.unproved) == (4, True, None)
    assert found.unconditional_beyond == relations_by_labellings(shape, items=64)
    fewer_bits = answers.relations_that_fit(shape, items=64, bits=2.0)
    assert fewer_bits.impossible_beyond < found.impossible_beyond
    assert fewer_bits.unconditional_beyond == found.unconditional_beyond  # no bits are assumed
    assert answers.relations_that_fit(shape, items=64, rule="softmax").unconditional_beyond is None


@pytest.mark.parametrize(("key_width", "relations"), [(1, 2), (3, 6), (4, 8), (9, 8)])
def test_shared_keys_guarantee_one_relation_for_each_dimension(key_width: int, relations: int) -> None:
    shape = Shape(d_model=16, heads=8, key_width=key_width, key_heads=2)
    found = answers.relations_that_fit(shape, items=64)
    assert found.guaranteed == relations
    assert found.guaranteed_by_heads == (relations == 8)


def test_nothing_is_guaranteed_without_a_proof() -> None:
    shape = Shape(d_model=8, heads=4, key_width=4)
    soft = answers.relations_that_fit(shape, items=40, rule="softmax")
    assert (soft.guaranteed, soft.unproved) == (None, "no proof with a stated constant")
    rows = gaussian(40, 8, seed=0)
    assert answers.relations_that_fit(shape, items=40, embedding=rows).guaranteed == 4
    rows[3] = -rows[5]
    spoilt = answers.relations_that_fit(shape, items=40, embedding=rows)
    assert spoilt.guaranteed is None
    assert "rows 3 and 5" in str(spoilt.unproved)


def test_the_d_model_needed_is_that_of_the_laws() -> None:
    found = answers.d_model_needed(items=64, relations=64, key_budget=20)
    assert found.impossible_below == d_model_by_bits(items=64, relations=64, key_budget=20, bits=16.0)
    assert found.likely_from == d_model_by_freedom(items=64, relations=64, key_budget=20)
    assert found.unconditional_below == d_model_by_labellings(items=64, relations=64, key_budget=20)
    assert answers.d_model_needed(items=64, relations=64, key_budget=20, rule="softmax").unconditional_below is None
    assert found.permutation
    assert found.paper_law == math.ceil(PERMUTATION_SLOPE * 64 * 6 / 20)
    other = answers.d_model_needed(items=64, relations=64, key_budget=20, permutation=False)
    assert other.paper_law == math.ceil(RELATION_SLOPE * 64 * 6 / 20)
    for items, relations, key_budget, says in (
        (4, 13, 4, "13 relations do not fit 4 items"),
        (1, 1, 4, "at least 2 items, not 1"),
        (4, 4, 0, "key_budget is a whole number from 1"),
    ):
        with pytest.raises(InputError, match=says):
            answers.d_model_needed(items=items, relations=relations, key_budget=key_budget)


def test_pictures_rows_are_the_laws_themselves() -> None:
    advice = plan(relations=256, items=256, d_model=32)
    curve = head_curve(advice)
    for heads, budget in zip(curve.heads, curve.law, strict=True):
        width = freedom_key_width(items=256, relations=256, d_model=32, heads=int(heads))
        assert budget == (np.inf if width is None else heads * width)
    for heads, budget in zip(curve.heads, curve.advised, strict=True):
        if np.isfinite(budget):
            assert budget == plan(relations=256, items=256, d_model=32, heads=int(heads)).recommended.key_budget
    best = advice.recommended
    assert curve.advised[list(curve.heads).index(best.heads)] == best.key_budget == curve.advised.min()
    rows = capacity_map(items=256, widest=64, key_budgets=(16, 64))
    assert (rows.likely <= rows.impossible).all()
    assert (rows.likely <= rows.unconditional).all()
    narrow = [Shape(d_model=round(d), heads=64, key_width=1) for d in rows.d_models]
    assert list(rows.unconditional[1]) == [relations_by_labellings(shape, items=256) for shape in narrow]
    assert not (rows.unconditional == rows.impossible).all()
    assert (np.diff(rows.likely, axis=1) >= 0).all()
    assert (rows.likely[1] >= rows.likely[0]).all()
