"""The bench on tiny shapes: that it compares what it says, and what it does without its peers."""

from __future__ import annotations

import importlib.util
import json

import pytest

from benchmarks.bench import contenders
from benchmarks.bench.__main__ import Bench, growth_of, main
from benchmarks.bench.contenders import Peer, Shape, Timing
from benchmarks.bench.tables import Spread, Versus

TINY = Shape(20, 4, 2, 6)


@pytest.fixture(autouse=True)
def _tiny(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(contenders, "SHAPES", (TINY,))
    monkeypatch.setattr(contenders, "GROWING", (Shape(20, 4, 2, 6), Shape(20, 8, 2, 6)))
    monkeypatch.setattr(contenders, "SLICE", 0.002)
    monkeypatch.setattr(contenders, "SLICES", 4)
    monkeypatch.setattr(contenders, "matmul_peak", lambda: 50.0)
    monkeypatch.setenv("COLUMNS", "80")


def fake_peer(monkeypatch: pytest.MonkeyPatch, *, loss: float) -> None:
    """A peer that takes a millisecond and says this loss."""
    monkeypatch.setattr(contenders, "PEERS", (Peer("PyTorch", "eager_torch.py", "json", steps=(50,)),))
    monkeypatch.setattr(Peer, "time", lambda self, shape: Timing(1000.0, loss))


def test_ratios_losses_and_the_machine(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    fake_peer(monkeypatch, loss=contenders.native_loss(TINY, steps=50))
    assert main(["--rounds", "2", "--json"]) == 0
    told = json.loads(capsys.readouterr().out)
    [row] = told["shapes"]
    versus = row["peers"]["PyTorch"]
    assert versus["loss"] == versus["native_loss"]
    assert versus["ratio"]["high"] == pytest.approx(1000 / row["training"]["low"])
    assert row["flops"] == 8 * 16 * 4 * 6 + 2 * 16**2 * 6 + 4 * 16**2 * 3
    assert row["of_peak"]["high"] == pytest.approx(row["flops"] / 50e3 / row["one_thread"]["low"])
    assert row["speed_up"]["median"] > 0
    assert {"cpu", "cores", "compiler", "python", "numpy"} <= told["machine"].keys()
    assert told["left_out"] == {}


def test_a_peer_that_trains_something_else_is_found_out(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    fake_peer(monkeypatch, loss=1.05 * contenders.native_loss(TINY, steps=50))
    assert main(["--rounds", "1"]) == 1
    assert "not the same training: PyTorch" in capsys.readouterr().out


def test_without_peers_the_native_numbers_remain(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    assert main(["--rounds", "1"]) == 0
    told = capsys.readouterr().out
    assert "native, evaluated" in told
    assert "left out: JAX, because jax is not installed (pip install '.[bench]')" in " ".join(told.split())
    assert max(map(len, told.splitlines())) <= 80


def test_growth_measures_the_distance_from_a_line() -> None:
    shapes = [Shape(64, d_model, 1, 10) for d_model in (10, 20, 30, 40)]
    straight = {shape: [Timing(3.0 + shape.d_model)] for shape in shapes}
    bent = {shape: [Timing(0.1 * shape.d_model**2)] for shape in shapes}
    assert growth_of(straight).off_the_line < 1e-9
    assert growth_of(bent).off_the_line > 0.2


def test_spreads_and_agreement() -> None:
    assert str(Spread.of([2.0, 2.2, 1.9])) == "2 ±8%"
    assert str(Spread.of([1234.0])) == "1,234"
    once = Spread.of([1.0])
    assert Versus(once, once, loss=0.5, native_loss=0.504).agrees
    assert not Versus(once, once, loss=0.5, native_loss=0.51).agrees
    assert Versus(once, once, loss=0.5, native_loss=None).agrees


def test_no_rounds_is_bad_input(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--rounds", "0"]) == 2
    assert capsys.readouterr().err == "bench: --rounds is at least 1, not 0\n"
    assert Bench().rounds == 3
