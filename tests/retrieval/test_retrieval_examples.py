"""Examples of retrieval runs, and the digits."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from support.tiny_retrieval import TINY

from manyheads import InputError
from manyheads.retrieval.retrieval_examples import EDGES, digit_examples, digit_patches, examples_of, task_of


def test_examples_are_the_tasks() -> None:
    run = replace(TINY, dimension=3, input_width=4)
    examples, task = examples_of(run), task_of(run)
    np.testing.assert_allclose(task.targets(examples.tokens.astype(float)), examples.targets, atol=1e-5)
    slopes = [feature.slope for feature in task.features]
    for other in (replace(run, length=9), replace(run, heads=1)):
        np.testing.assert_array_equal([feature.slope for feature in task_of(other).features], slopes)
    other_slope = task_of(replace(run, seed=1)).features[0].slope
    assert other_slope is not None
    assert slopes[0] is not None
    assert not np.allclose(other_slope, slopes[0])
    small = examples_of(replace(run, task="max_and_min", dimension=2, input_width=1))
    assert 0 <= small.tokens.min() <= small.tokens.max() <= 1


def test_digits_are_patches_and_blanks() -> None:
    pytest.importorskip("sklearn", reason="the digits need the digits extra")
    from sklearn.datasets import load_digits

    images, patches = load_digits().images / 16, digit_patches(20)
    assert patches.shape == (1797, 20, 4)
    np.testing.assert_array_equal(patches[7, 6], images[7, 2:4, 4:6].ravel())  # second row of patches, third of it
    assert not patches[:, 16:].any()
    short, long = (digit_examples(length, 1797, seed=3) for length in (16, 40))
    assert (short.targets <= long.targets + 1e-12).all()
    assert np.mean(np.isclose(short.targets, long.targets)) > 0.99  # padding changes the crowd, not the answer
    left, right = EDGES[0].reshape(2, 2).sum(axis=0)
    assert (left, right) == (1, -1)
    with pytest.raises(InputError, match="at least 16, not 15"):
        digit_patches(15)
    with pytest.raises(InputError, match="there are 1,797 digits, not 1,798"):
        digit_examples(16, 1798, seed=0)
