"""Construction II behind a softmax over the context, the heads summed (Algorithm 2, Theorem 8.1).

The published theorem is about one fixed context. At every size that a computer reaches, the construction fails in most
contexts: heads that do not own a source have logits of √d_k times the embedding's overlaps, and the softmax turns these
into attention at random. A scale below 1 makes these logits smaller. The threshold that then separates is rarely ½, so
it is taken from a certificate. `softmax` is the published construction with its numbers as arguments; `mended_softmax`
finds a scale and a threshold.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from manyheads.certificate import Certificate, certify
from manyheads.certificate.certificate import calibrate
from manyheads.construct.heads import RADEMACHER, assemble, de_embed, require_permutation, require_sizes, warn_if_narrow
from manyheads.construct.matchings import split_sources
from manyheads.errors import InputError
from manyheads.layer.layer import Layer
from manyheads.layer.rules import SOFTMAX
from manyheads.numbers import check_number, check_numbers
from manyheads.problem.problem import Problem


def softmax(
    problem: Problem,
    *,
    key_width: int,
    seed: int,
    matching_size: int | None = None,
    scale: float = 1.0,
    threshold: float = 0.5,
) -> Layer:
    """Algorithm 2: the heads of Algorithm 1 under the rule softmax.

    Args:
        problem: A permutation, and rows of about length one.
        key_width: d_k, the width of a head, at least 1.
        seed: Decides the signatures.
        matching_size: The most relations of a head, at least 1; by default d_model, as published.
        scale: Factor on every logit, above 0; the published construction has 1.
        threshold: τ; the published construction has ½.

    Returns:
        A layer of ⌈m/matching_size⌉ heads.

    Raises:
        InputError: The graph is no permutation, a size is below 1, or the scale is not positive.
    """
    matching_size = problem.d_model if matching_size is None else matching_size
    require_sizes(problem, key_width=key_width, matching_size=matching_size, seed=seed)
    require_permutation(problem.graph)
    scale = check_number("logit_scale", scale, said="the scale of the logits")
    warn_if_narrow(problem)
    words = RADEMACHER.draw(problem.items, key_width, seed=seed)
    matchings = split_sources(problem.graph, size=matching_size)
    heads = [de_embed(problem.rows, matching, words) for matching in matchings]
    return assemble([(scale * query, key) for query, key in heads], threshold=threshold, rule=SOFTMAX)


@dataclass(frozen=True)
class ScaleTrial:
    """A scale of the logits, and the window of thresholds that provably work with it (empty where low ≥ high)."""

    scale: float
    window: tuple[float, float]


@dataclass(frozen=True, eq=False)
class MendedSoftmax:
    """Algorithm 2 with the scale that has the widest window, and with the threshold in the middle of this window.

    Attributes:
        layer: The layer.
        certificate: The layer's certificate.
        scale: The scale of the scores.
        trials: The scales that were tried.
    """

    layer: Layer
    certificate: Certificate
    scale: float
    trials: tuple[ScaleTrial, ...]


def mended_softmax(
    problem: Problem,
    *,
    key_width: int,
    context_length: int,
    seed: int,
    matching_size: int | None = None,
    scales: Sequence[float] | None = None,
) -> MendedSoftmax:
    """Algorithm 2 with a scale and a threshold that work in every context of one length, if a tried scale does.

    With a scale s, the head that owns a source gives its target a logit about s·√d_k above those of the ℓ − 1 other
    items. This gap has to exceed ln ℓ (Lemma 8.2). A larger gap only increases the attention of the other heads. So the
    scales tried by default make the gap ln ℓ + 0, 1, 2, 3 and 4.

    Args:
        problem: A permutation, and rows of about length one.
        key_width: d_k, the width of a head, at least 1.
        context_length: ℓ, the number of items in a context, from 2 to the number of items.
        seed: Decides the signatures.
        matching_size: The most relations of a head, at least 1; by default d_model.
        scales: The scales to try, each above 0.

    Returns:
        The layer with its certificate, and the window of every scale.

    Raises:
        InputError: As `softmax`, or there is no scale to try.
    """
    check_numbers(key_width=key_width, context_length=context_length)
    if scales is None:
        scales = [(math.log(context_length) + excess) / math.sqrt(key_width) for excess in range(5)]
    trials, best = [], None
    for scale in scales:
        layer = softmax(problem, key_width=key_width, seed=seed, matching_size=matching_size, scale=scale)
        certificate = certify(layer, problem, context_length=context_length)
        trials.append(ScaleTrial(scale, certificate.window))
        low, high = certificate.window
        if best is None or high - low > best[0]:
            best = high - low, scale, layer, certificate
    if best is None:
        raise InputError("there must be at least one scale to try")
    _, scale, layer, certificate = best
    layer = calibrate(layer, certificate)
    certificate = certify(layer, problem, context_length=context_length)
    return MendedSoftmax(layer, certificate, scale, tuple(trials))
