"""The engine in torch against the native engine, against autograd and against formulas in numpy, on the CPU."""

from __future__ import annotations

import math
import subprocess
import sys
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch
from numpy import ndarray

from manyheads import Graph, InputError, Problem, gaussian, permutation_graph, power_law_graph, random_graph, star_graph
from manyheads._native import Fitting32, Fitting64
from manyheads.cli import main
from manyheads.fitting import Descent, FitOptions, best_split, fit, torch_descent
from manyheads.fitting.latent_descent import LatentFitting
from manyheads.fitting.torch_descent import GROUP, TorchFitting
from manyheads.layer.rules import SOFTMAX

GRAPHS = {
    "permutation": permutation_graph(110, seed=0),
    "hubs": power_law_graph(60, 150, exponent=2.2, seed=1),
    "star": star_graph(50, direction="out"),
    "dense": random_graph(17, 200, seed=2),
    "empty": Graph(30, np.empty(0, dtype=np.int64), np.empty(0, dtype=np.int64)),
}
SHAPES = [(1, 1, 1), (3, 3, 5), (5, 5, 9), (4, 2, 5), (6, 1, 9)]  # (heads, key_heads, key_width)
LEVELS = {"max": (-math.inf, 0.4, 2.1, 1.3, 3.0), "softmax": (-0.7, 0.7, 3.0, 1.5, 1.0)}
RATIOS = {"max": 0.0, "softmax": 3.0}
FIELDS = ("loss", "by_ceiling", "by_summit", "lowest", "low", "high", "missed", "false_pairs", "costly")


def both(
    graph: Graph, heads: int, key_heads: int, key_width: int, scale: float = 1.2, single: bool = False
) -> tuple[TorchFitting, Fitting32 | Fitting64, list[ndarray]]:
    """The two engines with the same weights."""
    rows, rng = gaussian(graph.items, 11, seed=3), np.random.default_rng(0)
    start = [rng.standard_normal((number, 11, key_width)) * scale for number in (heads, key_heads)]
    precision = torch.float32 if single else torch.float64
    mine = TorchFitting(graph, rows, heads=heads, key_width=key_width, key_heads=key_heads, precision=precision)
    native = (Fitting32 if single else Fitting64)(graph.row_starts, graph.targets, rows, heads, key_width, 1, key_heads)
    for fitting in (mine, native):
        fitting.set_weights(start[0], start[1], 1.3)
    return mine, native, start


@pytest.mark.parametrize("name", GRAPHS)
@pytest.mark.parametrize(("heads", "key_heads", "key_width"), SHAPES)
@pytest.mark.parametrize("rule", LEVELS)
def test_a_survey_is_the_native_one_in_every_number(
    name: str, heads: int, key_heads: int, key_width: int, rule: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(torch_descent.BLOCK_NUMBERS, "cpu", 7 * GRAPHS[name].items)  # blocks of 7 sources
    mine, native, _ = both(GRAPHS[name], heads, key_heads, key_width)
    found, wanted = mine.look(*LEVELS[rule]), native.look(*LEVELS[rule])
    for field in FIELDS:
        assert getattr(found, field) == pytest.approx(getattr(wanted, field), rel=1e-12), field
    for got, right in zip(mine.gradient(), native.gradient(), strict=True):
        np.testing.assert_allclose(got, right, rtol=1e-9, atol=1e-11 * max(1.0, float(np.abs(right).max())))


@pytest.mark.parametrize(("heads", "key_heads"), [(3, 3), (4, 2), (3, 1)])
@pytest.mark.parametrize("rule", LEVELS)
def test_the_gradient_is_that_of_autograd_in_float64(heads: int, key_heads: int, rule: str) -> None:
    graph, (floor, ceiling, summit, threshold, weight) = GRAPHS["hubs"], LEVELS[rule]
    rows = torch.tensor(gaussian(graph.items, 11, seed=3), dtype=torch.float64)
    related = torch.tensor(graph.adjacency())
    for single, tolerance in ((False, 1e-12), (True, 1e-5)):
        mine, _, start = both(graph, heads, key_heads, 5, single=single)
        query, key = (torch.tensor(part, requires_grad=True) for part in start)
        keys = torch.stack([rows @ key[head * key_heads // heads] for head in range(heads)])
        scores = (rows @ query) @ keys.transpose(1, 2)
        others = scores[:, ~related]
        loss = (others - ceiling).clamp(min=0).square().sum()
        loss = loss + weight * (summit - scores.amax(0)[related]).clamp(min=0).square().sum()
        if floor > -math.inf:
            loss = loss + (floor - others).clamp(min=0).square().sum()
        loss.backward()
        assert mine.look(floor, ceiling, summit, threshold, weight).loss == pytest.approx(loss.item(), rel=tolerance)
        for got, wanted in zip(mine.gradient(), (query.grad, key.grad), strict=True):
            assert wanted is not None
            np.testing.assert_allclose(got, wanted.numpy(), atol=10 * tolerance * float(wanted.abs().max()))


@pytest.mark.parametrize(("heads", "key_heads"), [(3, 3), (4, 2), (3, 1)])
@pytest.mark.parametrize("rule", RATIOS)
def test_losses_and_weights_agree_after_1_20_and_100_steps(heads: int, key_heads: int, rule: str) -> None:
    """In float64 to 1e-9 of the largest weight; in float32, where both round, the loss of 20 steps to 1e-3."""
    mine, native, _ = both(GRAPHS["permutation"], heads, key_heads, 4, scale=0.3)
    rough, rough_native, _ = both(GRAPHS["permutation"], heads, key_heads, 4, scale=0.3, single=True)
    descent, taken = Descent(), 0
    for steps in (1, 20, 100):
        rates = descent.rates()[taken:steps]
        settings = (descent.beta1, descent.beta2, descent.weight, RATIOS[rule], 1.0, math.inf, False)
        burst, wanted = mine.burst(rates, *settings), native.burst(rates, *settings)
        assert burst.steps == wanted.steps == len(rates)
        assert burst.finding.loss == pytest.approx(wanted.finding.loss, rel=1e-9)
        for got, right in zip(mine.weights(), native.weights(), strict=True):
            bound = 1e-9 * float(np.abs(np.asarray(right)).max())
            np.testing.assert_allclose(np.asarray(got), np.asarray(right), atol=bound)
        if steps <= 20:
            loss = rough.burst(rates, *settings).finding.loss
            assert loss == pytest.approx(rough_native.burst(rates, *settings).finding.loss, rel=1e-3)
            assert loss == pytest.approx(burst.finding.loss, rel=1e-3)
        taken = steps


def test_a_burst_ends_where_the_native_one_ends() -> None:
    for until_open in (True, False):
        mine, native, _ = both(permutation_graph(30, seed=0), 2, 2, 11, scale=0.5)
        settings = (0.95, 0.95, 3.0, 0.0, 1.0, math.inf, until_open)
        burst, wanted = mine.burst([0.05] * 2_000, *settings), native.burst([0.05] * 2_000, *settings)
        assert burst.steps == wanted.steps
        assert 0 < burst.steps < 2_000
        assert (burst.finding.loss == 0) is not until_open
    timed, _, _ = both(GRAPHS["hubs"], 3, 3, 5)
    assert timed.burst([0.1] * 10, 0.9, 0.9, 3.0, 0.0, 1.0, 0.0, False).steps == 0  # no time is left


def test_shares_of_the_sources_add_up_to_all_of_them() -> None:
    graph = permutation_graph(10 * GROUP, seed=5)
    mine, _, _ = both(graph, 2, 2, 4)
    whole = mine.look(-math.inf, 0.3, 2.3, 1.3, 3.0)
    gradient = mine.gradient()
    orders = []
    for _ in range(2):  # a second round goes through them in another order
        sums = [np.zeros_like(part) for part in gradient]
        parts = []
        for _ in range(5):
            parts.append(mine.survey((-math.inf, 0.3, 2.3, 1.3), 3.0, 0.2))
            sums = [total + part for total, part in zip(sums, mine.gradient(), strict=True)]
        assert sum(part.loss for part in parts) == pytest.approx(whole.loss)
        assert sum(part.costly for part in parts) == whole.costly
        for total, wanted in zip(sums, gradient, strict=True):
            np.testing.assert_allclose(total, wanted, atol=1e-9 * float(np.abs(wanted).max()))
        orders.append([part.loss for part in parts])
    assert orders[0] != orders[1]


@pytest.mark.parametrize(
    ("shape", "options"),
    [
        ({"heads": 3, "key_width": 5}, {}),
        ({"heads": 4, "key_heads": 1, "key_width": 5}, {}),
        ({"heads": 4, "key_width": 4}, {"latent": 9}),
        ({"heads": 3, "key_width": 5}, {"descent": Descent(rate=0.05, beta1=0.99, beta2=0.99, share=0.5, widen=20)}),
        ({"heads": 3, "key_width": 5}, {"precision": "bfloat16"}),
    ],
)
def test_what_is_fitted_certifies(shape: dict[str, Any], options: dict[str, Any]) -> None:
    problem = Problem(permutation_graph(64, seed=0), gaussian(64, 16, seed=1))
    made = FitOptions(seed=0, engine="torch", **options)
    one, same = (fit(problem, **shape, options=made) for _ in range(2))
    assert one.certificate.holds_in(made.precision)
    assert one.layer.query.tobytes() == same.layer.query.tobytes()
    assert made.provenance()["engine"] == "torch"


def test_softmax_and_a_search() -> None:
    problem = Problem(permutation_graph(24, seed=0), gaussian(24, 24, seed=1))
    options = FitOptions(seed=0, engine="torch", rule=SOFTMAX, context_length=8, restarts=2)
    assert fit(problem, heads=1, key_width=23, options=options).certificate.holds
    brief = FitOptions(seed=0, engine="torch", trials=3, descent=Descent(steps=200, widen=10))
    found = [best_split(problem, key_budget=12, options=replace(brief, workers=workers)) for workers in (1, 2)]
    assert [trial.wrong for trial in found[0].trials] == [trial.wrong for trial in found[1].trials]
    assert found[0].certificate is not None
    assert found[0].certificate == found[1].certificate


def test_latent_steps_are_those_on_the_native_engine() -> None:
    for rule, ratio in RATIOS.items():
        mine, native, start = both(GRAPHS["permutation"], 3, 3, 4, scale=0.3)
        fittings = [LatentFitting(fitting, 6) for fitting in (mine, native)]
        for fitting in fittings:
            fitting.set_weights(start[0], start[1], 1.3)
            assert fitting.burst([0.1] * 20, 0.98, 0.98, 3.0, ratio, 1.0, math.inf, False).steps == 20
        for got, wanted in zip(*(fitting.weights() for fitting in fittings), strict=True):
            np.testing.assert_allclose(np.asarray(got), np.asarray(wanted), atol=1e-8, err_msg=rule)


def test_a_device_that_is_not_there_is_one_sentence(capsys: pytest.CaptureFixture[str]) -> None:
    words = ["fit", "--graph", "permutation:32", "--embedding", "gaussian:16", "--heads", "2", "--key-width", "6"]
    assert main([*words, "--engine", "torch", "--device", "nowhere"]) == 2
    assert capsys.readouterr().err == "manyheads: PyTorch has no device 'nowhere' here\n"
    assert main([*words, "--device", "cuda"]) == 2
    assert "the native engine runs on the cpu, not on 'cuda': choose the engine torch" in capsys.readouterr().err
    assert main([*words, "--engine", "torch", "--device", "cpu", "--json"]) == 0
    with pytest.raises(InputError, match="PyTorch has no device"):
        fit(
            Problem(GRAPHS["hubs"], gaussian(60, 11, seed=3)), heads=3, key_width=5,
            options=FitOptions(engine="torch", device="nowhere"),
        )  # fmt: skip
    with pytest.raises(Exception, match="engine"):  # the type checker of the tests may come first
        replace(FitOptions(), engine="other")  # type: ignore[arg-type]


def test_without_torch_the_engine_names_the_extra_and_nothing_else_needs_it() -> None:
    code = """
import sys
sys.modules["torch"] = None  # as where torch is not installed
from manyheads import InputError, Problem, gaussian, permutation_graph
from manyheads.fitting import FitOptions, fit
problem = Problem(permutation_graph(32, seed=0), gaussian(32, 16, seed=1))
print(fit(problem, heads=2, key_width=6).certificate.verdict)
try:
    fit(problem, heads=2, key_width=6, options=FitOptions(engine="torch"))
except InputError as error:
    print(error)
"""
    ended = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert ended.stdout == "holds\nthe engine torch needs torch: install manyheads[torch]\n", ended.stderr


def test_too_little_memory_is_one_sentence(monkeypatch: pytest.MonkeyPatch) -> None:
    mine, _, _ = both(GRAPHS["hubs"], 3, 3, 5)

    def full(*_: object) -> torch.Tensor:
        raise torch.OutOfMemoryError("CUDA out of memory.\nTried to allocate 20 GiB")

    monkeypatch.setattr(TorchFitting, "_survey_block", full)
    with pytest.raises(InputError, match="cpu has too little memory for a fit of 3 × 5, d_model 11: fit fewer items"):
        mine.look(*LEVELS["max"])
