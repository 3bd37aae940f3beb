"""Certificates for float32 and bfloat16 against PyTorch itself, and no certificate where subnormals become zero."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import replace

import numpy as np
import pytest

from manyheads import Graph, InputError, Layer, exclude, gaussian, permutation_graph
from manyheads.certificate import certify, precisions
from manyheads.certificate.precisions import (
    BFLOAT16,
    FLOAT32,
    NumberType,
    proved_precisions,
    reduce_scores,
    softmax_error,
    to_bfloat16,
)
from manyheads.certificate.projection import project
from manyheads.layer.rules import LOGSUMEXP, MAX, SOFTMAX
from manyheads.problem.problem import Problem

torch = pytest.importorskip("torch")


@contextmanager
def flush_to_zero() -> Iterator[None]:
    if not torch.set_flush_denormal(True):
        pytest.skip("this processor cannot flush subnormal numbers")
    try:
        yield
    finally:
        torch.set_flush_denormal(False)


def tiny_layer(rule: str = "max") -> tuple[Layer, Problem]:
    """Scores of 4 · 2e−308, each of whose products is below the smallest normal number; the threshold is 5e−308."""
    query, key = np.full((1, 1, 4), 2e-154), np.full((1, 1, 4), 1e-154)
    return Layer(query, key, 5e-308, rule), Problem(Graph(2, np.array([], int), np.array([], int)), np.ones((2, 1)))


def test_no_certificate_where_subnormal_numbers_become_zero() -> None:
    layer, problem = tiny_layer()
    assert certify(layer, problem).verdict == "refuted"  # 8e−308 is above the threshold
    with flush_to_zero():
        with pytest.raises(InputError, match="subnormal numbers by zero"):
            certify(layer, problem)
        with pytest.raises(InputError, match="subnormal numbers by zero"):
            certify(replace(layer, rule=SOFTMAX), problem, context_length=2)
        with pytest.raises(InputError, match="subnormal numbers by zero"):
            exclude(Problem(permutation_graph(32, seed=0), gaussian(32, 8, seed=1)))
        with ThreadPoolExecutor(1) as pool, pytest.raises(InputError, match="subnormal numbers by zero"):
            pool.submit(certify, layer, problem).result()  # a thread starts with the mode of its parent
    assert certify(layer, problem).verdict == "refuted"


def test_a_cast_to_bfloat16_is_the_cast_of_pytorch() -> None:
    rng = np.random.default_rng(0)
    bits = rng.integers(0, 2**32, 20_000, dtype=np.uint64).astype(np.uint32).view(np.float32)
    single = bits[np.isfinite(bits) & (np.abs(bits) < 3e38)]
    double = rng.standard_normal(20_000) * 10.0 ** rng.uniform(-40, 38, 20_000)
    double = double[np.abs(double) < 3e38]
    for numbers in (single, double):
        cast = torch.tensor(numbers).to(torch.bfloat16).float().numpy()
        np.testing.assert_array_equal(to_bfloat16(numbers), cast)


def weights(seed: int, *, cancel: bool = False) -> tuple[np.ndarray, Layer]:
    rng = np.random.default_rng(seed)
    rows = rng.standard_normal((9, 24)).astype(np.float32) * 10.0 ** rng.uniform(-1, 1, (9, 1)).astype(np.float32)
    query, key = rng.standard_normal((2, 3, 24, 5))
    if cancel:
        rows[:, -1], query[:, 0], query[:, -1] = -rows[:, 0], 100.0, 100.0
    return rows, Layer(query, key, 0.0, ("max", "sum", "softmax")[seed % 3])


@pytest.mark.parametrize("type", [FLOAT32, BFLOAT16], ids=lambda type: type.name)
@pytest.mark.parametrize("cancel", [False, True], ids=["ordinary", "cancel"])
def test_no_score_of_pytorch_strays_further_than_its_bound(type: NumberType, cancel: bool) -> None:
    """Also with its sums in other orders; and the bound is not far too wide."""
    from manyheads.files.standalone.attention import AttentionLayer

    used = 0.0
    for seed in range(60):
        rows, layer = weights(seed, cancel=cancel)
        rng = np.random.default_rng(seed)
        problem = Problem(Graph(9, np.array([0]), np.array([1])), rows)
        reduced = reduce_scores(type, layer, problem, project(layer, rows))
        if layer.rule.context_blind:
            bounds = np.array(
                [layer.rule.reduced_error_bound(*reduced.score_errors(source), type.unit) for source in range(9)]
            )
            row_bounds = layer.rule.reduced_error_bound(*reduced.row_errors(), type.unit)
            assert (bounds <= row_bounds[:, None] * (1 + 1e-12)).all()
        else:
            bounds = np.repeat(softmax_error(reduced, 9)[:, None], 9, axis=1)
        one, other = rng.permutation(24), rng.permutation(5)
        query, key = (torch.tensor(part[:, one][:, :, other]) for part in (layer.query, layer.key))
        module = AttentionLayer(query, key, 0.0, layer.rule.name, torch.tensor(rows[:, one]))
        module = module.to(getattr(torch, type.name))
        errors = np.abs(module(module.rows(range(9))).detach().double().numpy() - layer.scores(rows))
        assert (errors <= bounds).all()
        used = max(used, float((errors / bounds).max()))
    assert used > (0.02 if type is BFLOAT16 else 0.001)


def held(scale: float = 1.0, gap: float = 0.5) -> tuple[Layer, Problem]:
    """Every item attends to itself: scores are scale² and 0, the threshold is the part `gap` of the way up."""
    eye = np.eye(4)[None] * scale
    return Layer(eye, eye, gap * scale**2), Problem(Graph(4, np.arange(4), np.arange(4)), np.eye(4))


@pytest.mark.parametrize(
    ("scale", "gap", "proved"),
    [
        (1.0, 0.5, (True, True)),
        (1.0, 1 - 1e-3, (True, False)),
        (1.0, 1 - 3e-7, (False, False)),
        (1e-18, 0.5, (True, True)),
        (1e-20, 0.5, (False, False)),  # scores below the smallest normal float32
        (1e20, 0.5, (False, False)),  # scores above the largest
    ],
)
def test_each_number_type_has_its_own_verdict(scale: float, gap: float, proved: tuple[bool, bool]) -> None:
    layer, problem = held(scale, gap)
    certificate = certify(layer, problem)
    assert certificate.verdict == "holds"
    assert (certificate.precisions["float32"], certificate.precisions["bfloat16"]) == proved
    assert [certificate.holds_in(name) for name in ("float64", "float32", "bfloat16")] == [True, *proved]
    assert certificate.to_json()["precisions"] == certificate.precisions
    words = {True: "proved", False: "not proved"}
    assert ("PyTorch", f"float32 {words[proved[0]]}, bfloat16 {words[proved[1]]}") in certificate.rows()


def test_what_does_not_hold_holds_in_no_number_type() -> None:
    layer, problem = held(gap=1.5)
    certificate = certify(layer, problem)
    assert certificate.precisions == {"float32": False, "bfloat16": False}
    assert not certificate.holds_in("float32")
    assert "PyTorch" not in dict(certificate.rows())
    by_another_rule = certify(replace(held()[0], rule=LOGSUMEXP, threshold=0.95), problem)
    assert by_another_rule.precisions == {"float32": False, "bfloat16": False}  # no bound for log and exp


def test_one_long_key_takes_the_bound_of_each_pair(monkeypatch: pytest.MonkeyPatch) -> None:
    """A key of length 1e9 widens the bound of every row. A few rows are judged pair by pair, many are not."""
    rows = np.eye(4)
    rows[3, 3] = 1e9
    query = np.eye(4)[None].copy()
    query[0, 3, 3] = 1e-9
    query[0, :3, 3] = 1e-3  # the scores with item 3 are 1e6 and more: relations
    problem = Problem(Graph(4, np.array([0, 0, 1, 1, 2, 2, 3]), np.array([0, 3, 1, 3, 2, 3, 3])), rows)
    layer = Layer(query, np.eye(4)[None], 0.5)
    assert certify(layer, problem).precisions["float32"]
    monkeypatch.setattr(precisions, "FEW_ROWS", 0)
    assert not certify(layer, problem).precisions["float32"]


def test_a_long_sum_that_loses_its_tail_stays_within_its_bound() -> None:
    """Each of 4,095 products is too small to change a sum of 1 in float32, where the sum begins with 1."""
    rows = np.full((2, 4096), 0.99 * 2.0**-25, dtype=np.float32)
    rows[:, 0] = 1
    key = np.zeros((1, 4096, 1))
    key[0, 0] = 1
    layer = Layer(np.ones((1, 4096, 1)), key, 0.0)
    problem = Problem(Graph(2, np.array([0]), np.array([1])), rows)
    reduced = reduce_scores(FLOAT32, layer, problem, project(layer, rows))
    bounds = MAX.reduced_error_bound(*reduced.row_errors(), FLOAT32.unit)
    error = abs(float(np.cumsum(rows[0], dtype=np.float32)[-1]) - layer.scores(rows)[0, 0])
    assert error > 1e-5  # else this test is too easy
    assert (error <= bounds).all()


def test_the_threshold_is_cast_too(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(precisions, "FEW_ROWS", 0)
    layer, problem = held()
    projection = project(layer, problem.rows)
    bounds = MAX.reduced_error_bound(*reduce_scores(BFLOAT16, layer, problem, projection).row_errors(), 2.0**-8)
    for share, proved in ((0.9, False), (1.1, True)):
        distances = bounds + share * 2.0**-8 * layer.threshold
        assert proved_precisions(layer, problem, projection, None, distances)["bfloat16"] is proved
