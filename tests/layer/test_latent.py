"""Latent keys: both forms score alike, the degrees of freedom are those of the derivative, and fits certify."""

from __future__ import annotations

import numpy as np
import pytest

from manyheads import InputError, Layer, Problem, certify, gaussian, permutation_graph
from manyheads.bounds.shape import Shape
from manyheads.fitting import FitOptions, fit, smallest
from manyheads.layer.latent import LatentKeys
from manyheads.layer.layer import degrees_of_freedom
from manyheads.layer.rules import MAX, SOFTMAX, Rule

PROBLEM = Problem(permutation_graph(64, seed=0), gaussian(64, 16, seed=1))


def drawn(*, heads: int, d_model: int, key_width: int, latent: int, rule: Rule = MAX) -> LatentKeys:
    rng = np.random.default_rng(0)
    shapes = (heads, d_model, key_width), (heads, latent, key_width), (d_model, latent)
    query, up, down = (rng.standard_normal(shape) for shape in shapes)
    return LatentKeys(query, up, down, 0.25, rule)


@pytest.mark.parametrize("rule", [MAX, SOFTMAX], ids=str)
@pytest.mark.parametrize(("key_width", "latent"), [(2, 5), (5, 5), (6, 3), (1, 8)])
def test_the_absorbed_form_scores_as_the_expanded_one(rule: Rule, key_width: int, latent: int) -> None:
    keys = drawn(heads=3, d_model=8, key_width=key_width, latent=latent, rule=rule)
    expanded, absorbed = keys.expanded(), keys.absorbed()
    assert expanded.key.shape == (3, 8, key_width)
    assert (absorbed.key_heads, absorbed.key_width, absorbed.key_budget) == (1, latent, latent)
    assert np.linalg.matrix_rank(absorbed.query).max() <= key_width
    x = gaussian(9, 8, seed=2)
    np.testing.assert_allclose(absorbed.scores(x), expanded.scores(x), rtol=1e-12, atol=1e-12)
    # the formula itself: (x·W_Q)·((x·W_D)·W_U)
    by_hand = np.stack([(x @ q) @ ((x @ keys.down) @ u).T for q, u in zip(keys.query, keys.up, strict=True)])
    np.testing.assert_allclose(expanded.head_scores(x), by_hand, rtol=1e-6, atol=1e-6)
    shape = Shape(d_model=8, heads=3, key_width=key_width, latent=latent)
    assert keys.weights == shape.parameters
    assert shape.key_budget == latent


@pytest.mark.parametrize("rule", [MAX, SOFTMAX], ids=str)
def test_the_matrices_are_found_again_in_both_forms(rule: Rule) -> None:
    keys = drawn(heads=3, d_model=8, key_width=2, latent=4, rule=rule)
    x = gaussian(9, 8, seed=2)
    for form in (keys.expanded(), keys.absorbed()):
        again = LatentKeys.of(form, latent=4, key_width=2)
        assert (again.query.shape, again.up.shape, again.down.shape) == ((3, 8, 2), (3, 4, 2), (8, 4))
        np.testing.assert_allclose(again.absorbed().scores(x), form.scores(x), rtol=1e-9, atol=1e-9)


def test_heads_as_wide_as_the_latent_are_multi_query_attention() -> None:
    """d_k ≥ r: every layer with one key head of width r has such a form, so the two families are the same."""
    rng = np.random.default_rng(0)
    shared = Layer(rng.standard_normal((4, 8, 3)), rng.standard_normal((1, 8, 3)), 0.1)
    x = gaussian(9, 8, seed=2)
    for key_width in (3, 5):
        keys = LatentKeys.of(shared, latent=3, key_width=key_width)
        np.testing.assert_allclose(keys.absorbed().scores(x), shared.scores(x), rtol=1e-9, atol=1e-9)
        latent = Shape(d_model=8, heads=4, key_width=key_width, latent=3)
        assert latent.all_freedom == shared.freedom
    narrower = LatentKeys.of(shared, latent=3, key_width=2)
    assert not np.allclose(narrower.absorbed().scores(x), shared.scores(x), rtol=1e-3)


@pytest.mark.parametrize(
    ("heads", "key_width", "latent", "query_latent"),
    [(2, 2, 3, None), (3, 2, 4, None), (2, 1, 4, None), (2, 4, 3, None), (3, 2, 3, 4), (4, 1, 2, 3), (2, 3, 2, 2)],
)
def test_the_degrees_of_freedom_are_the_rank_of_the_derivative(
    heads: int, key_width: int, latent: int, query_latent: int | None
) -> None:
    d_model, rng = 5, np.random.default_rng(0)
    inputs = query_latent or d_model
    parts = {
        "outer": rng.standard_normal((d_model, inputs)) if query_latent else np.eye(d_model),
        "query": rng.standard_normal((heads, inputs, key_width)),
        "up": rng.standard_normal((heads, latent, key_width)),
        "down": rng.standard_normal((d_model, latent)),
    }

    def forms(moved: dict[str, np.ndarray]) -> np.ndarray:
        return moved["outer"] @ moved["query"] @ (moved["down"] @ moved["up"]).swapaxes(1, 2)

    columns = []
    for name in ("outer", "query", "up", "down") if query_latent else ("query", "up", "down"):
        for place in np.ndindex(parts[name].shape):
            unit = np.zeros_like(parts[name])
            unit[place] = 1.0
            columns.append(forms(parts | {name: unit}).ravel())  # each form is linear in each of its matrices
    shape = Shape(d_model=d_model, heads=heads, key_width=key_width, latent=latent, query_latent=query_latent)
    freedom = degrees_of_freedom(
        d_model=d_model, heads=heads, key_width=key_width, key_heads=1, latent=latent, query_latent=query_latent
    )
    assert freedom == np.linalg.matrix_rank(np.array(columns))
    assert (shape.all_freedom, shape.parameters) == (freedom, len(columns))


@pytest.mark.parametrize(("heads", "key_width", "latent"), [(4, 3, 6), (8, 2, 8), (4, 6, 5)])
def test_a_fit_of_latent_keys_certifies(heads: int, key_width: int, latent: int) -> None:
    fitted = fit(PROBLEM, heads=heads, key_width=key_width, options=FitOptions(seed=0, latent=latent))
    layer = fitted.layer
    assert fitted.certificate.holds
    assert (layer.heads, layer.key_heads, layer.key_width) == (heads, 1, latent)
    # rounded to single precision, the other directions of a query are a millionth of its own
    strengths = np.linalg.svd(layer.query.astype(np.float64), compute_uv=False)
    assert strengths[:, min(key_width, latent) :].max(initial=0.0) < 1e-5 * strengths.max()
    keys = LatentKeys.of(layer, latent=latent, key_width=key_width)
    assert certify(keys.expanded(), PROBLEM).holds
    assert layer.record is not None
    assert layer.record.provenance["latent"] == latent


def test_softmax_and_a_map_with_latent_keys() -> None:
    rows = gaussian(24, 24, seed=1) + np.float32(0.6)
    problem = Problem(permutation_graph(24, seed=0), rows)
    options = FitOptions(seed=0, rule=SOFTMAX, context_length=8, latent=20)
    fitted = fit(problem, heads=2, key_width=12, options=options)
    assert (fitted.map, fitted.certificate.verdict) == ("whiten", "holds")
    expanded = LatentKeys.of(fitted.layer, latent=20, key_width=12).expanded()
    assert certify(expanded, problem, context_length=8).holds


def test_a_narrower_latent_fit_starts_from_a_wider_layer() -> None:
    wide = fit(PROBLEM, heads=4, key_width=5, options=FitOptions(seed=0, latent=10)).layer
    narrow = fit(PROBLEM, heads=4, key_width=4, options=FitOptions(seed=0, latent=8), start=wide)
    assert (narrow.certificate.holds, narrow.layer.key_width) == (True, 8)


def test_wrong_latents_are_refused() -> None:
    with pytest.raises(InputError, match="a latent of width 17 is wider than d_model 16"):
        fit(PROBLEM, heads=4, key_width=3, options=FitOptions(latent=17))
    with pytest.raises(InputError, match="keys from a latent need a shape"):
        fit(PROBLEM, heads=4, options=FitOptions(latent=6))
    with pytest.raises(InputError, match="key heads do not go with a latent"):
        fit(PROBLEM, heads=4, key_width=3, key_heads=2, options=FitOptions(latent=6))
    with pytest.raises(InputError, match="a search has no latent"):
        smallest(PROBLEM, options=FitOptions(latent=6, time_limit=1.0))
    with pytest.raises(InputError, match="latent is a whole number"):
        FitOptions(latent=0)
    with pytest.raises(InputError, match="wider than d_model 8"):
        drawn(heads=2, d_model=8, key_width=2, latent=9)
    with pytest.raises(InputError, match="a latent of the queries goes with"):
        Shape(d_model=8, heads=2, key_width=2, query_latent=3)
