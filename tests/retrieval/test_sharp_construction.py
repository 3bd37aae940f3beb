"""The construction: no sequence exceeds the bound on its error, and the bound is attained."""

from __future__ import annotations

import warnings
from dataclasses import replace

import mpmath
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from support.tiny_retrieval import curved

from manyheads import InputError
from manyheads.retrieval import Combination, Feature, RetrievalTask, SharpHeads, TheoremWarning, challenge, sharp_heads
from manyheads.retrieval.sharp_construction import softness

RNG = np.random.default_rng(5)


@given(st.floats(0, 1e6))
def test_softness_solves_its_equation(rivals: float) -> None:
    (c,) = softness(np.array([rivals]))
    assert float(mpmath.lambertw(mpmath.mpf(rivals) / mpmath.e)) == pytest.approx(float(c), rel=1e-12, abs=1e-12)
    assert c <= np.log1p(rivals) + 1e-12  # below the bound that is usually given


@settings(max_examples=60, deadline=None)
@given(
    values=st.lists(st.floats(0, 1), min_size=2, max_size=9),
    inside=st.integers(1, 9),
    beta=st.floats(0.1, 1e4),
    penalty=st.floats(0, 3),
)
def test_no_sequence_breaks_the_bound_on_a_soft_minimum(
    values: list[float], inside: int, beta: float, penalty: float
) -> None:
    inside = min(inside, len(values))
    feature, one = Feature(lambda x: x[..., 0], 0.0, 1.0), Combination(lambda z: z[..., 0], np.ones(1))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", TheoremWarning)
        task = RetrievalTask((feature,), one, len(values), 1, (np.arange(inside),))
    sharp = SharpHeads(task, beta, penalty)
    x = np.array(values)[None, :, None]
    off = float(sharp.soft_minima(x)[0, 0] - min(values[:inside]))
    assert abs(off) <= sharp.guarantee.error + sharp.guarantee.rounding
    # by the formula that the proof begins with
    gaps = [beta * (v - min(values[:inside])) for v in values[:inside]]
    outside = beta * (1 - min(values[:inside]))
    weights = [np.exp(-s) for s in gaps] + [np.exp(-beta * penalty - outside)] * (len(values) - inside)
    bias = sum(w * s for w, s in zip(weights, [*gaps, *[outside] * (len(values) - inside)], strict=True)) / sum(weights)
    assert off == pytest.approx(bias / beta - float(sharp.softness[0]) / (2 * beta), abs=1e-9)


def test_the_bound_is_attained() -> None:
    task = replace(curved(50), features=(Feature(lambda x: x[..., 0], 0.0, 1.0),) * 2)
    sharp = SharpHeads(task, 300.0)
    x = np.full((2, 50, 2), 0.25)
    x[0, 1:] += (1 + sharp.softness[0]) / 300
    off = sharp.soft_minima(x) - task.minima(x)
    np.testing.assert_allclose(
        off[:, 0], [sharp.guarantee.per_extremum[0], -sharp.guarantee.per_extremum[0]], rtol=1e-9
    )


def test_what_the_encoder_is_off_is_part_of_the_promise() -> None:
    task, delta = curved(12), 0.02

    def roughened(feature: Feature) -> Feature:
        return replace(feature, value=lambda x: feature.value(x) + delta * np.sin(1e3 * x.sum(-1)))

    rough = tuple(map(roughened, task.features))
    sharp = SharpHeads(task, 100.0, feature_error=delta, combination_error=0.1)
    built = SharpHeads(replace(task, features=rough), 100.0)
    x = RNG.uniform(size=(500, 12, 2))
    off = np.abs(built.soft_minima(x) - task.minima(x))
    assert (off <= sharp.guarantee.per_extremum).all()
    assert (off > SharpHeads(task, 100.0).guarantee.per_extremum).any()
    assert sharp.guarantee.error == pytest.approx(
        2 * sharp.guarantee.per_extremum[0] + sharp.guarantee.per_extremum[1] + 0.1
    )


def test_sharper_heads_promise_less_error_and_longer_sequences_hardly_more() -> None:
    errors = [SharpHeads(curved(64), beta).guarantee.error for beta in (10.0, 100.0, 1000.0)]
    assert errors[0] == pytest.approx(10 * errors[1]) == pytest.approx(100 * errors[2])
    long = SharpHeads(curved(64_000), 10.0).guarantee.error
    assert errors[0] < long < 5 * errors[0]


def test_bad_constructions_are_one_sentence() -> None:
    with pytest.raises(InputError, match="inverse_temperature is a positive number, not 0"):
        SharpHeads(curved(4), 0.0)
    with pytest.raises(InputError, match="a positive number, not 0"):
        sharp_heads(curved(4), error=0.0)
    unknown = replace(curved(4), combination=Combination(lambda z: z[..., 0]))
    with pytest.raises(InputError, match="bound of F0's derivatives"):
        _ = SharpHeads(unknown, 1.0).guarantee
    narrow = replace(curved(4), features=(replace(curved(4).features[0], high=0.1), curved(4).features[1]))
    with pytest.raises(InputError, match="f_1 takes the value"):
        challenge(SharpHeads(narrow, 9.0).answer, narrow, 1.0, inverse_temperature=9.0, seed=0, sequences=2)
