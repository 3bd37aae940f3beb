"""Prediction and split: near the measured thresholds, and monotone in the sizes."""

from __future__ import annotations

import math

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from manyheads import InputError
from manyheads.bounds import freedom_key_width
from manyheads.planning import prediction
from manyheads.planning.prediction import freedom_law, key_widths, predict, split


def test_the_law_without_rounding_is_below_the_law_with_it() -> None:
    for items, d_model in ((64, 16), (256, 32), (512, 64)):
        rounded = min(
            heads * width
            for heads in range(1, 40)
            if (width := freedom_key_width(items=items, relations=items, d_model=d_model, heads=heads))
        )
        assert (
            freedom_law(items=items, relations=items, d_model=d_model)
            <= rounded
            <= freedom_law(items=items, relations=items, d_model=d_model) + 8
        )


def test_the_prediction_is_near_what_was_measured_elsewhere() -> None:
    """The paper's own thresholds (docs/reference/claims.md, reading notes) were not part of the calibration."""
    paper = {(64, 16): 20, (256, 32): 64, (512, 64): 56, (128, 32): 21, (256, 64): 24}
    for (items, d_model), threshold in paper.items():
        assert 0.7 * threshold <= predict(items=items, relations=items, d_model=d_model).key_budget <= 1.3 * threshold


@settings(max_examples=60, deadline=None)
@given(items=st.integers(32, 500), d_model=st.integers(12, 95), degree=st.integers(1, 4))
def test_the_prediction_grows_with_the_items_and_falls_with_the_width(items: int, d_model: int, degree: int) -> None:
    try:
        here = predict(items=items, relations=items * degree, d_model=d_model).key_budget
        if items + 8 <= prediction.STEEP * d_model:  # beyond that the protocol trains for longer
            assert predict(items=items + 8, relations=(items + 8) * degree, d_model=d_model).key_budget > here
    except InputError as error:
        assert "too narrow" in str(error)  # noqa: PT017
        return
    if items <= prediction.STEEP * d_model:
        assert predict(items=items, relations=items * degree, d_model=d_model + 1).key_budget <= 1.01 * here


def test_a_split_is_the_cheapest_safe_one() -> None:
    widths = key_widths(items=256, relations=1024, d_model=32)
    best = split(widths, d_model=32)
    every = [
        heads * math.ceil(safe)
        for heads, safe, share in zip(widths.heads, widths.safe, widths.shares, strict=True)
        if safe <= 32 and share <= prediction.FULLEST
    ]
    assert best.key_budget == min(every)
    assert best.key_width <= 32
    assert split(widths, d_model=32, key_budget=600.0).key_budget >= 600
    assert split(widths, d_model=32, multiple=16).key_width in (16, 32)
    assert split(widths, d_model=32, most_heads=16).heads <= 16


def test_more_heads_need_narrower_ones() -> None:
    for items, relations, d_model in ((64, 64, 16), (256, 1024, 32), (512, 512, 64), (50_257, 50_257, 768)):
        widths = key_widths(items=items, relations=relations, d_model=d_model, most_heads=64)
        usable = np.flatnonzero(widths.shares <= 1)
        likely = widths.likely[usable]  # a thousandth: with many heads the widths hardly differ
        assert (np.diff(likely) <= 1e-3 * likely[1:]).all()
        assert (widths.safe[usable] > widths.likely[usable]).all()
        assert np.isinf(widths.safe[widths.shares > 1]).all()
