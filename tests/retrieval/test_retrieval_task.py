"""Retrieval tasks: their targets by the definition, their inputs, and the sentence for each malformed task."""

from __future__ import annotations

from dataclasses import replace
from itertools import product

import numpy as np
import pytest
from support.tiny_retrieval import SQUARES, curved

from manyheads import InputError
from manyheads.retrieval import Feature, RetrievalTask, TheoremWarning, draw_examples, max_and_min, sum_of_maxima
from manyheads.retrieval.retrieval_task import unit_directions

RNG = np.random.default_rng(5)


def test_targets_are_the_definition_word_for_word() -> None:
    subsets = (np.array([0, 2, 5]), np.array([1, 2, 3, 4]))
    task, x = curved(6, subsets), RNG.uniform(size=(20, 6, 2))
    for sequence, target in zip(x, task.targets(x), strict=True):
        z = [min(float(f.value(sequence[t][None])[0]) for t in s) for f, s in zip(task.features, subsets, strict=True)]
        assert target == pytest.approx(z[0] ** 2 + np.sin(z[1]), rel=1e-14)


def test_the_presets_are_what_they_are_called() -> None:
    directions, x = unit_directions(3, 4, RNG), RNG.uniform(-2, 2, size=(9, 7, 4))
    np.testing.assert_allclose(np.linalg.norm(directions, axis=1), 1)
    task = sum_of_maxima(directions, 7, box=(-2.0, 2.0))
    np.testing.assert_allclose(task.targets(x), (x @ directions.T).max(axis=1).sum(axis=1))
    both = max_and_min(7, box=(-2.0, 2.0))
    np.testing.assert_allclose(both.targets(x[..., :1]), x[..., 0].max(axis=1) + x[..., 0].min(axis=1))
    for feature in (*task.features, *both.features):  # ranges are exact: corners of the box attain them
        assert feature.slope is not None
        values = feature.value(np.array(list(product((-2.0, 2.0), repeat=len(feature.slope)))))
        assert (feature.low, feature.high) == pytest.approx((values.min(), values.max()))


def test_a_network_reads_who_is_outside() -> None:
    task = curved(4, (np.array([1, 3]), np.arange(4)))
    tokens = task.tokens(np.zeros((2, 4, 2)))
    assert tokens.shape == (2, 4, 3)
    np.testing.assert_array_equal(tokens[1, :, 2], [1, 0, 1, 0])
    drawn = draw_examples(task, 5, seed=1)
    assert drawn.tokens.shape == (5, 4, 3)
    assert drawn.tokens.dtype == np.float32


def test_subsets_shorter_than_a_quarter_are_warned_about() -> None:
    with pytest.warns(TheoremWarning, match="S_2 has 1 of 5 places, less than the quarter"):
        curved(5, (np.arange(2), np.arange(1)))
    assert curved(4, (np.arange(2), np.arange(1))).caveat is None


@pytest.mark.parametrize(
    ("features", "subsets", "says"),
    [
        (0, None, "D ≥ 1 features, not 0"),
        (2, (np.arange(3), np.arange(0)), "S_2 is empty"),
        (2, (np.arange(3),), "2 features need 2 subsets"),
        (2, (np.arange(3), np.array([1, 6])), "S_2 has the place 6, but the places of a sequence are 0 to 5"),
        (2, (np.array([1, 1]), np.arange(3)), "S_1 has a place twice"),
    ],
)
def test_bad_tasks_are_one_sentence(features: int, subsets: tuple[np.ndarray, ...] | None, says: str) -> None:
    with pytest.raises(InputError, match=says):
        RetrievalTask(curved(6).features[:features], SQUARES, 6, 2, subsets)


def test_bad_functions_and_inputs_are_one_sentence() -> None:
    with pytest.raises(InputError, match=r"has the shape \(6, 2\), not \(5, 2\)"):
        curved(6).targets(np.zeros((1, 5, 2)))
    flat = replace(curved(6).features[0], value=lambda x: x.sum())
    with pytest.raises(InputError, match=r"f_1 gives the shape \(\)"):
        RetrievalTask((flat,), SQUARES, 6, 2).targets(np.zeros((1, 6, 2)))
    with pytest.raises(InputError, match="range goes from a number to a larger one"):
        Feature(lambda x: x[..., 0], 1.0, 1.0)
