"""Hand-written digits as sequences of patches: a retrieval task with four extrema on data that scikit-learn ships.

It stands in for the paper's CIFAR-10, and is not it: 1,797 images of 8×8 pixels in 16 patches of 2×2, padded with blank
patches to the length T as the paper pads its images. The four things to retrieve are the strongest edges: the largest
difference between the halves of a patch, left less right, right less left, top less bottom, bottom less top. Their sum
is the target. Blank patches have no edges, so that padding changes the crowd and not the answer.
"""

from __future__ import annotations

import numpy as np
from jaxtyping import Float64
from numpy import ndarray

from manyheads.errors import InputError
from manyheads.retrieval.examples import Examples
from manyheads.retrieval.presets import sum_of_maxima
from manyheads.retrieval.retrieval_task import RetrievalTask
from manyheads.retrieval.seeds import Purpose

IMAGES, SIDE, PATCH = 1_797, 8, 2
PATCHES = (SIDE // PATCH) ** 2
EDGES = np.array([[1, -1, 1, -1], [-1, 1, -1, 1], [1, 1, -1, -1], [-1, -1, 1, 1]]) / 2  # of the pixels row by row


def digits_task(length: int) -> RetrievalTask:
    """The strongest edge in each of four directions, summed; pixels go from 0 to 1."""
    return sum_of_maxima(EDGES, length)


def digit_patches(length: int) -> Float64[ndarray, "images length 4"]:
    """Every image as its 16 patches of 4 pixels, and blank ones up to the length."""
    if length < PATCHES:
        raise InputError(f"a digit has {PATCHES} patches, so that sequences have at least as many, not {length}")
    try:
        from sklearn.datasets import load_digits
    except ModuleNotFoundError:
        raise InputError("the digits are scikit-learn's: install manyheads[digits]") from None
    pixels = load_digits().images / 16.0
    grid = pixels.reshape(-1, SIDE // PATCH, PATCH, SIDE // PATCH, PATCH).swapaxes(2, 3)
    patches = grid.reshape(len(pixels), PATCHES, PATCH * PATCH)
    return np.pad(patches, ((0, 0), (0, length - PATCHES), (0, 0)))


def digit_examples(length: int, count: int, *, seed: int) -> Examples:
    """So many of the images, in an order of this seed."""
    if not 1 <= count <= IMAGES:
        raise InputError(f"there are {IMAGES:,} digits, not {count:,}")
    x = digit_patches(length)
    chosen = x[np.random.default_rng((int(Purpose.EXAMPLES), seed)).permutation(len(x))[:count]]
    return Examples(chosen.astype(np.float32), digits_task(length).targets(chosen))
