"""Construction I: one-hot items, one head, and a random word for each target (Algorithm 3, Theorem B.1)."""

from __future__ import annotations

import numpy as np
from jaxtyping import Float
from numpy import ndarray

from manyheads.construct.assembly import assemble, de_embed
from manyheads.construct.conditions import require_permutation, require_sizes
from manyheads.construct.signatures import Bernoulli, Signatures
from manyheads.construct.widths import binomial_width
from manyheads.errors import InputError
from manyheads.layer.layer import Layer
from manyheads.problem.problem import Problem

QUARTER = Bernoulli(0.25)  # the paper's example of a p


def one_hot(
    problem: Problem,
    *,
    seed: int,
    key_width: int | None = None,
    signatures: Signatures = QUARTER,
) -> Layer:
    """Algorithm 3: the key of j is j's signature, the query of i the signature of π(i); one head serves them all.

    Without a key width it takes the smallest one that Theorem B.1's union bound proves to hold with probability
    1 − m^−3, by exact binomial tails.
    """
    key_width = binomial_width(problem.items, signatures) if key_width is None else key_width
    require_sizes(key_width=key_width, block_size=problem.items)
    require_permutation(problem.graph)
    if not _is_identity(problem.rows):
        raise InputError("construction I reads one-hot items, an embedding that is the identity; others take II or III")
    words = signatures.draw(problem.items, key_width, seed=seed)
    head = de_embed(problem.rows, (problem.graph.sources, problem.graph.targets), words)
    return assemble([head], threshold=signatures.threshold(key_width))


def _is_identity(embedding: Float[ndarray, "items d_model"]) -> bool:
    items, d_model = embedding.shape
    return items == d_model and bool((embedding.diagonal() == 1).all() and np.count_nonzero(embedding) == items)
