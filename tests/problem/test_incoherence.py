"""Incoherence: every number against the sentence of Definition B.4 that defines it, set by set."""

from __future__ import annotations

import json
import math
from dataclasses import asdict
from itertools import combinations, product

import numpy as np
import pytest

import manyheads.problem.incoherence as module
from manyheads import InputError, gaussian, one_hot, permutation_graph, sparse_binary
from manyheads.problem.incoherence import incoherence_profile, realised_profile

EMBEDDINGS = {
    "one-hot": one_hot(6),
    "gaussian": gaussian(6, 3, seed=0),
    "sparse binary": sparse_binary(7, 5, seed=1),
    "uneven lengths": np.random.default_rng(2).standard_normal((6, 2)) * np.array([[0.1], [1], [2], [3], [1], [1]]),
    "opposite rows": np.array([[1.0, 0.0], [-1.0, 0.0], [0.0, 1.0], [0.0, -1.0], [0.6, 0.8]]),
    "one item": np.array([[3.0, 4.0]]),
    "one zero row": np.array([[0.0, 0.0], [1.0, 1.0], [1.0, -1.0]]),
}


def deltas(embedding: np.ndarray) -> tuple[np.ndarray, float]:
    lengths = [float(row @ row) for row in embedding.astype(np.float64)]
    mu = (max(lengths) + min(lengths)) / 2
    return embedding.astype(np.float64) @ embedding.T.astype(np.float64) / mu - np.eye(len(embedding)), mu


def subsets(items: range, size: int) -> list[tuple[int, ...]]:
    return [chosen for n in range(min(size, len(items)) + 1) for chosen in combinations(items, n)]


def blocks_of(items: int, size: int, *, seed: int) -> list[tuple[np.ndarray, np.ndarray]]:
    graph = permutation_graph(items, seed=seed)
    return [(graph.sources[s : s + size], graph.targets[s : s + size]) for s in range(0, items, size)]


@pytest.mark.parametrize("name", EMBEDDINGS)
@pytest.mark.parametrize("matching_size", [1, 2, 3, 9])
def test_profile_against_every_set(name: str, matching_size: int) -> None:
    embedding = EMBEDDINGS[name]
    delta, mu = deltas(embedding)
    everyone = range(len(embedding))
    sets = subsets(everyone, matching_size)
    profile = incoherence_profile(embedding, matching_size=matching_size)
    assert (profile.items, profile.d_model, profile.matching_size) == (*embedding.shape, matching_size)
    assert (profile.exact, profile.sampled_pairs) == (True, None)
    assert profile.mu == pytest.approx(mu)
    assert profile.epsilon == pytest.approx(max(abs(delta[i, i]) for i in everyone))
    assert profile.rho == pytest.approx(
        max(sum(delta[i, s] ** 2 for s in S) for i in everyone for S in sets if i not in S)
    )
    cross = {
        (i, j): max(abs(sum(delta[i, a] * delta[j, a] for a in S)) for S in sets) for i in everyone for j in everyone
    }
    assert profile.gamma == pytest.approx(max(cross.values()))
    assert profile.gamma_distinct == pytest.approx(max((v for (i, j), v in cross.items() if i != j), default=0.0))


@pytest.mark.parametrize("name", EMBEDDINGS)
@pytest.mark.parametrize("matching_size", [1, 2, 4])
def test_realised_profile_against_the_formula(name: str, matching_size: int) -> None:
    embedding = EMBEDDINGS[name]
    delta, _ = deltas(embedding)
    everyone, blocks = range(len(embedding)), blocks_of(len(embedding), matching_size, seed=4)
    profile = realised_profile(embedding, blocks)
    masses = [sum(delta[i, s] ** 2 for s in ends if s != i) for i in everyone for block in blocks for ends in block]
    assert profile.rho == pytest.approx(max(masses))
    cross = {
        (i, j, k): abs(sum(delta[i, s] * delta[j, t] for s, t in zip(*block, strict=True)))
        for i in everyone
        for j in everyone
        for k, block in enumerate(blocks)
    }
    assert profile.gamma == pytest.approx(max(cross.values()))
    assert profile.gamma_distinct == pytest.approx(max((v for (i, j, _), v in cross.items() if i != j), default=0.0))
    assert (profile.exact, profile.matching_size) == (True, min(matching_size, len(embedding)))


def plain_gamma_distinct(delta: np.ndarray, size: int) -> float:
    largest = 0.0
    for i in range(len(delta) - 1):
        products = np.sort(delta[i] * delta[i + 1 :], axis=1)
        largest = max(
            largest,
            np.maximum(products[:, -size:], 0).sum(axis=1).max(),
            np.maximum(-products[:, :size], 0).sum(axis=1).max(),
        )
    return largest


@pytest.mark.parametrize("size", [1, 7, 64, 300])
@pytest.mark.parametrize(
    "embedding", [gaussian(300, 40, seed=0), sparse_binary(300, 40, seed=0)], ids=["gaussian", "sparse binary"]
)
def test_pairs_left_out_by_their_bound_do_not_hold_the_maximum(embedding: np.ndarray, size: int) -> None:
    expected = plain_gamma_distinct(deltas(embedding)[0], size)
    assert incoherence_profile(embedding, matching_size=size).gamma_distinct == pytest.approx(expected, rel=1e-12)


def test_bounds_are_bounds() -> None:
    delta = deltas(sparse_binary(40, 12, seed=0))[0]
    for size in (1, 5, 20, 40):
        bounds = module._pair_bounds(delta, delta, size)
        for i, j in product(range(40), repeat=2):
            assert bounds[i, j] >= plain_gamma_distinct(delta[[i, j]], size)


def test_the_value_of_the_laws() -> None:
    # Gaussian, m = 512, d_model = 64, B = 16: ρ is about 2.0, where B/d_model is 0.25
    rhos = [incoherence_profile(gaussian(512, 64, seed=seed), matching_size=16).rho for seed in range(3)]
    assert np.mean(rhos) == pytest.approx(2.0, abs=0.15)


def test_no_other_mu_gives_a_smaller_epsilon() -> None:
    lengths = np.linalg.norm(EMBEDDINGS["uneven lengths"], axis=1) ** 2
    profile = incoherence_profile(EMBEDDINGS["uneven lengths"], matching_size=2)
    assert profile.epsilon <= min(np.abs(lengths / mu - 1).max() for mu in np.linspace(0.1, 30, 3000))


def test_blocks_realise_no_more_leakage_than_the_worst_sets() -> None:
    for embedding, size in product((gaussian(64, 16, seed=0), sparse_binary(64, 16, seed=0)), (1, 8, 64)):
        realised = realised_profile(embedding, blocks_of(64, size, seed=0))
        assert realised.rho <= incoherence_profile(embedding, matching_size=size).rho * (1 + 1e-12)


def test_scaling_the_embedding_changes_only_mu() -> None:
    one, seven = (
        incoherence_profile(c * gaussian(40, 8, seed=0).astype(np.float64), matching_size=5) for c in (1.0, 7.0)
    )
    assert seven.mu == pytest.approx(49 * one.mu)
    for name in ("epsilon", "rho", "gamma", "gamma_distinct"):
        assert getattr(seven, name) == pytest.approx(getattr(one, name), abs=1e-12)


def test_above_the_limit_pairs_are_sampled_and_it_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    embedding, blocks = gaussian(60, 8, seed=0), blocks_of(60, 10, seed=0)
    whole, whole_realised = incoherence_profile(embedding, matching_size=10), realised_profile(embedding, blocks)
    monkeypatch.setattr(module, "EXACT_ITEMS", 20)
    monkeypatch.setattr(module, "HEAVIEST_ROWS", 15)
    sampled, realised = incoherence_profile(embedding, matching_size=10), realised_profile(embedding, blocks)
    assert (sampled.exact, sampled.sampled_pairs) == (False, math.comb(15, 2))
    assert (sampled.rho, sampled.gamma) == (whole.rho, whole.gamma)
    assert 0.5 * whole.gamma_distinct < sampled.gamma_distinct <= whole.gamma_distinct
    assert (realised.exact, realised.sampled_pairs) == (False, 6 * 20**2)
    assert realised.rho == whole_realised.rho
    assert 0.5 * whole_realised.gamma < realised.gamma <= whole_realised.gamma * (1 + 1e-12)


def test_above_the_limit_a_few_heavy_rows_can_still_decide(monkeypatch: pytest.MonkeyPatch) -> None:
    rows = gaussian(60, 8, seed=0).astype(np.float64)
    rows[:12] *= 6  # the leakage among these exceeds anything the rest can reach
    whole = incoherence_profile(rows, matching_size=10)
    monkeypatch.setattr(module, "EXACT_ITEMS", 20)
    monkeypatch.setattr(module, "HEAVIEST_ROWS", 15)
    sampled = incoherence_profile(rows, matching_size=10)
    assert (sampled.exact, sampled.sampled_pairs) == (True, None)
    assert sampled.gamma_distinct == pytest.approx(whole.gamma_distinct)


def test_a_profile_is_a_row_of_plain_numbers() -> None:
    profile = incoherence_profile(gaussian(10, 4, seed=0), matching_size=3)
    assert json.loads(json.dumps(asdict(profile))) == asdict(profile)


def test_no_matchings_and_empty_matchings_overlap_nowhere() -> None:
    nothing = np.array([], dtype=np.int64)
    for blocks in ([], [(nothing, nothing)]):
        profile = realised_profile(gaussian(5, 3, seed=0), blocks)
        assert (profile.matching_size, profile.rho, profile.gamma) == (0, 0.0, 0.0)


@pytest.mark.parametrize(
    ("embedding", "says"),
    [
        (np.full((3, 2), np.nan), "NaN"),
        (np.zeros((3, 2)), "every row .* is zero"),
        (np.ones((0, 2)), "a row of numbers"),
    ],
)
def test_an_embedding_without_a_profile_says_why(embedding: np.ndarray, says: str) -> None:
    with pytest.raises(InputError, match=says):
        incoherence_profile(embedding, matching_size=1)
    with pytest.raises(InputError, match=says):
        realised_profile(embedding, [])


@pytest.mark.parametrize(
    ("sources", "targets", "says"),
    [([0, 1], [2], "each source with its target"), ([0, 5], [1, 2], "item 5"), ([0, 0], [1, 2], "no item twice")],
)
def test_a_malformed_matching_says_why(sources: list[int], targets: list[int], says: str) -> None:
    with pytest.raises(InputError, match=says):
        realised_profile(gaussian(5, 3, seed=0), [(np.array(sources), np.array(targets))])


def test_a_matching_holds_something() -> None:
    with pytest.raises(InputError, match="at least 1"):
        incoherence_profile(one_hot(3), matching_size=0)
