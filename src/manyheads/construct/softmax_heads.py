"""Softmax: construction II behind a softmax over the context, the heads summed (Algorithm 2, Theorem 8.1).

As published it speaks of one fixed context, and at every size a computer reaches most contexts defeat it: non-owner
heads have logits of size √d_k times the embedding's overlaps, and the softmax turns these into attention at random.
A scale below one on the logits quietens them; what then separates is rarely τ = ½, so the threshold comes from a
certificate. `softmax` is the published construction with its numbers as arguments, `mended_softmax` finds others.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from manyheads.certificate import Certificate, certify
from manyheads.certificate.calibration import calibrate
from manyheads.construct.assembly import assemble, de_embed
from manyheads.construct.conditions import require_permutation, require_sizes, warn_if_narrow
from manyheads.construct.signatures import RADEMACHER
from manyheads.construct.split import split_sources
from manyheads.errors import InputError
from manyheads.layer.layer import Layer
from manyheads.layer.rules import SOFTMAX
from manyheads.problem.problem import Problem


def softmax(
    problem: Problem,
    *,
    key_width: int,
    seed: int,
    block_size: int | None = None,
    scale: float = 1.0,
    threshold: float = 0.5,
) -> Layer:
    """Algorithm 2: the heads of Algorithm 1, whose shares of the context add up, at τ = ½.

    The published construction has blocks of d_model, no scale and this threshold; `scale` multiplies every logit.
    """
    block_size = problem.d_model if block_size is None else block_size
    require_sizes(key_width=key_width, block_size=block_size)
    require_permutation(problem.graph)
    if not (scale > 0 and math.isfinite(scale)):
        raise InputError(f"the scale of the logits must be a positive number, not {scale}")
    warn_if_narrow(problem)
    words = RADEMACHER.draw(problem.items, key_width, seed=seed)
    blocks = split_sources(problem.graph, size=block_size)
    heads = [de_embed(problem.rows, block, words) for block in blocks]
    return assemble([(scale * query, key) for query, key in heads], threshold=threshold, rule=SOFTMAX)


@dataclass(frozen=True)
class ScaleTrial:
    """A scale of the logits, and the thresholds that provably work with it (none where low ≥ high)."""

    scale: float
    window: tuple[float, float]


@dataclass(frozen=True, eq=False)
class MendedSoftmax:
    """Algorithm 2 with the scale whose window is widest, its threshold in the middle, and its certificate."""

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
    block_size: int | None = None,
    scales: Sequence[float] | None = None,
) -> MendedSoftmax:
    """Algorithm 2 with a scale and a threshold that make it work in every context of this length, if any scale does.

    A scale s leaves the owner head a gap of about s·√d_k between its target and the ℓ − 1 rivals, which has to exceed
    ln ℓ (Lemma 8.2); all above that only makes the other heads louder. So the scales tried put it 0 … 4 above ln ℓ.
    """
    if scales is None:
        scales = [(math.log(context_length) + excess) / math.sqrt(key_width) for excess in range(5)]
    trials, best = [], None
    for scale in scales:
        layer = softmax(problem, key_width=key_width, seed=seed, block_size=block_size, scale=scale)
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
