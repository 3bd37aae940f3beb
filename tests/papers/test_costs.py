"""Clocks, and the verdicts on claims 19 and 20."""

from __future__ import annotations

from collections.abc import Callable
from importlib import import_module

import numpy as np
import pytest
from support.made_up import made_up, made_up_scores, outcomes, trial_row
from support.runs import make_run

from manyheads import gaussian
from manyheads.construct import Matching
from manyheads.papers import Row
from manyheads.papers.exhibits.clocks import BuildClock, SplitClock, quickest
from manyheads.sweep.store.record import Storable


def test_the_quickest_round_counts(monkeypatch: pytest.MonkeyPatch) -> None:
    """By a clock of its own: one work takes twice as long as the other, and every third call is slow."""
    clock, calls = [0.0], [0]

    def work(seconds: float) -> Callable[[int], None]:
        def repeated(times: int) -> None:
            calls[0] += 1
            clock[0] += times * seconds * (3.0 if calls[0] % 3 == 0 else 1.0)

        return repeated

    monkeypatch.setattr("time.perf_counter", lambda: clock[0])
    found = quickest({"once": work(1e-4), "twice": work(2e-4)}, rounds=6, unit=1e-3)
    assert found == pytest.approx({"once": 0.1, "twice": 0.2})


@pytest.mark.parametrize(("channel", "work"), [("torch", "scores"), ("torch", "training"), ("kernel", "training")])
def test_every_split_is_timed(channel: str, work: str) -> None:
    if channel == "torch":
        pytest.importorskip("torch")
    found = SplitClock(channel, work, 16, 16, 8, (1, 4, 16), 1).make()  # type: ignore[arg-type]
    assert list(found) == ["1", "4", "16"]
    assert all(value is not None and 0 < value < 1e5 for value in found.values())


def test_torch_computes_the_layers_scores() -> None:
    torch = pytest.importorskip("torch")
    from manyheads import Layer
    from manyheads.papers.exhibits.clocks import _channel, _tensors
    from manyheads.training.data import initial_weights

    run = make_run(64, 16, 4, 5, seed=0, context=8)
    rows, query, key = _tensors(run)
    expected = Layer(*initial_weights(run), 0.0).head_scores(gaussian(64, 16, seed=0)[:8])
    np.testing.assert_allclose(_channel(rows, query, key, 4).numpy(), expected, atol=1e-5)
    assert isinstance(rows, torch.Tensor)


def test_a_level_cost_reproduces_and_a_rising_one_differs() -> None:
    def rising(run: Storable) -> Row:
        assert isinstance(run, SplitClock)
        return trial_row(run, {str(heads): 100.0 + heads * (run.channel == "kernel") for heads in run.splits})

    assert outcomes("split_cost", made_up) == {"20": "reproduced"}
    assert outcomes("split_cost", rising) == {"20": "differs"}


def test_multiply_adds_are_those_of_the_products(monkeypatch: pytest.MonkeyPatch) -> None:
    from manyheads.construct.heads import de_embed

    counted = []

    def counting(embedding: np.ndarray, block: Matching, signatures: np.ndarray) -> object:
        query, key = de_embed(embedding, block, signatures)
        counted.append(len(block[0]) * (query.size + key.size))
        return query, key

    # the package's `compressive` is the function, which hides its module
    monkeypatch.setattr(import_module("manyheads.construct.matchings"), "de_embed", counting)
    found = BuildClock(100, 80, 2.0, rounds=1).make()
    assert found["multiply_adds"] == sum(counted[: int(found["heads"] or 0)])
    assert found["heads"] == 2
    assert 0 < (found["build_seconds"] or 0) < 1


def test_the_exponent_decides() -> None:
    def power(run: Storable, exponent: float, more: int = 1) -> Row:
        assert isinstance(run, BuildClock)
        scores = made_up_scores(run)
        counted = more * int(scores["multiply_adds"] or 0)
        return trial_row(
            run, {**scores, "build_seconds": (scores["build_seconds"] or 0) ** exponent, "multiply_adds": counted}
        )

    assert outcomes("construction_cost", made_up) == {"19": "reproduced"}
    assert outcomes("construction_cost", lambda run: power(run, 1.4)) == {"19": "differs"}
    assert outcomes("construction_cost", lambda run: power(run, 1.0, more=2)) == {"19": "differs"}
