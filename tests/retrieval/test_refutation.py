"""challenge: it refutes blunt heads and missing answers, and does not refute the construction."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from support.tiny_retrieval import curved

from manyheads.retrieval import SharpHeads, challenge, sharp_heads


def test_no_answer_is_refuted() -> None:
    task = curved(20)
    sharp = SharpHeads(task, 300.0)

    def answer(x: np.ndarray) -> np.ndarray:  # none where all tokens are equal
        return np.where((x == x[:, :1]).all(axis=(1, 2)), np.nan, sharp.answer(x))

    found = challenge(answer, task, 10.0, inverse_temperature=300.0, seed=0, sequences=20, rounds=1)
    assert (found.verdict, found.worst) == ("refuted", np.inf)


@pytest.mark.parametrize("subsets", [None, (np.arange(8), np.arange(4, 20))])
def test_curved_tasks_keep_their_promise(subsets: tuple[np.ndarray, ...] | None) -> None:
    task = curved(20, subsets)
    sharp = sharp_heads(task, error=0.01)
    assert sharp.guarantee.error == pytest.approx(0.01, rel=1e-6)
    beta = sharp.inverse_temperature
    found = challenge(sharp.answer, task, 0.01 * (1 + 1e-9), inverse_temperature=beta, seed=0, sequences=300)
    assert found.verdict == "stands"
    assert 0.2 < found.share <= 1  # F0 is not as steep as that everywhere
    blunt = challenge(
        replace(sharp, inverse_temperature=beta / 3).answer, task, 0.01, inverse_temperature=beta / 3, seed=0
    )
    assert blunt.verdict == "refuted"
    refuting = float(np.abs(replace(sharp, inverse_temperature=beta / 3).answer(blunt.witness[None]) - task.targets(
        blunt.witness[None]))[0])  # fmt: skip
    assert refuting == pytest.approx(blunt.worst)
