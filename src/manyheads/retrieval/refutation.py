"""challenge: sequences that try to break a promised error, and what came of it.

The promise of `SharpHeads` is proved, so that nothing here may break it; a network whose weights were changed, or one
that was trained, is caught by the sequence that refutes it. What is not refuted is not thereby proved.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from itertools import product
from typing import Literal

import numpy as np
from jaxtyping import Float64
from numpy import ndarray

from manyheads.errors import InputError
from manyheads.retrieval.retrieval_task import RetrievalTask
from manyheads.retrieval.sharp_heads import softness

Answer = Callable[[Float64[ndarray, "n length width"]], Float64[ndarray, " n"]]
HALVINGS = 60


@dataclass(frozen=True, eq=False)
class Challenge:
    """The worst sequence that was found, and whether it breaks the promise."""

    verdict: Literal["stands", "refuted"]
    promised: float
    worst: float  # |answer − y| of the witness
    by: str  # which kind of sequence it is
    witness: Float64[ndarray, "length width"]
    sequences: int  # how many were tried

    @property
    def share(self) -> float:
        """How much of the promised error was found to be used."""
        return self.worst / self.promised


def challenge(
    answer: Answer,
    task: RetrievalTask,
    promised: float,
    *,
    inverse_temperature: float,
    seed: int,
    sequences: int = 2_000,
    rounds: int = 40,
) -> Challenge:
    """Compare the answer with the task itself on random, adversarial and improved sequences.

    Adversarial are, for each feature, the sequences on which the soft minimum is proved to be worst at this inverse
    temperature, and those of equal tokens, on which it is best. Then the worst of all are changed at random, `rounds`
    times, keeping what makes them worse.
    """
    if not promised > 0:
        raise InputError(f"a promised error is positive, not {promised}")
    rng = np.random.default_rng(seed)
    kinds = {
        "random": rng.uniform(*task.box, size=(sequences, task.length, task.width)),
        "equal": _equal(task, rng),
        "worst for one head": _adversarial(task, inverse_temperature, rng),
    }
    tried = sum(map(len, kinds.values()))
    errors = {kind: _errors(answer, task, x) for kind, x in kinds.items() if len(x)}
    by = max(errors, key=lambda kind: errors[kind].max())
    worst, witness = float(errors[by].max()), kinds[by][int(errors[by].argmax())]
    pool = np.concatenate(list(kinds.values()))[np.argsort(-np.concatenate(list(errors.values())))[:20]]
    for _ in range(rounds):
        tried += 5 * len(pool)
        pool, error = _improved(answer, task, np.repeat(pool, 5, axis=0), rng, keep=len(pool))
        if error > worst:
            worst, witness, by = error, pool[0], "improved"
    verdict: Literal["stands", "refuted"] = "stands" if worst <= promised else "refuted"
    return Challenge(verdict, promised, worst, by, witness, tried)


def _errors(answer: Answer, task: RetrievalTask, x: Float64[ndarray, "n length width"]) -> Float64[ndarray, " n"]:
    """How far the answers are off; no answer (NaN) is off by more than any."""
    return np.nan_to_num(np.abs(answer(x) - task.targets(x)), nan=np.inf, posinf=np.inf)


def _equal(task: RetrievalTask, rng: np.random.Generator) -> Float64[ndarray, "n length width"]:
    """Sequences of one token repeated: every soft minimum is exact before it is centred."""
    tokens = rng.uniform(*task.box, size=(50, 1, task.width))
    return np.repeat(tokens, task.length, axis=1)


def _adversarial(
    task: RetrievalTask, inverse_temperature: float, rng: np.random.Generator
) -> Float64[ndarray, "n length width"]:
    """For each feature one token (1 + c)/β below all others: far down, and right below the top of its range.

    At the top, what lies outside S_i weighs as much as it ever can.
    """
    found, tokens = [], _candidates(task, rng)
    for number, feature in enumerate(task.features):
        places = np.flatnonzero(task.members[number])
        gap = (1 + float(softness(np.array([len(places) - 1.0]))[0])) / inverse_temperature
        values = np.asarray(feature.value(tokens[None]), dtype=np.float64)[0]
        _check_range(values, feature.low, feature.high, number)
        order = np.argsort(values)
        bottom, top = order[0], order[-1]
        if values[top] - values[bottom] <= gap:
            continue
        for start in order[:10][values[order[:10]] + gap < values[top]]:
            rival = _between(feature.value, tokens[start], tokens[top], values[start] + gap)
            found.append(_one_below(tokens[start], rival, task.length, places[0]))
        lower = _between(feature.value, tokens[bottom], tokens[top], values[top] - gap)
        found.append(_one_below(lower, tokens[top], task.length, places[0]))
    return np.array(found).reshape(-1, task.length, task.width)


def _candidates(task: RetrievalTask, rng: np.random.Generator) -> Float64[ndarray, "tokens width"]:
    """Tokens all over the box, and its corners where there are not too many."""
    corners = np.array(list(product(task.box, repeat=task.width))) if task.width <= 8 else np.empty((0, task.width))
    return np.concatenate([corners, rng.uniform(*task.box, size=(200, task.width))])


def _one_below(
    low: Float64[ndarray, " width"], others: Float64[ndarray, " width"], length: int, place: int | np.integer
) -> Float64[ndarray, "length width"]:
    sequence = np.repeat(others[None], length, axis=0)
    sequence[place] = low
    return sequence


def _between(
    value: Callable[[Float64[ndarray, "*batch width"]], Float64[ndarray, "*batch"]],
    low: Float64[ndarray, " width"],
    high: Float64[ndarray, " width"],
    wanted: float,
) -> Float64[ndarray, " width"]:
    """A token on the way from one to the other at which a continuous feature has this value."""
    near, far = 0.0, 1.0
    for _ in range(HALVINGS):
        middle = (near + far) / 2
        below = float(value((low + middle * (high - low))[None, None])[0, 0]) < wanted
        near, far = (middle, far) if below else (near, middle)
    return low + far * (high - low)


def _improved(
    answer: Answer,
    task: RetrievalTask,
    x: Float64[ndarray, "n length width"],
    rng: np.random.Generator,
    *,
    keep: int,
) -> tuple[Float64[ndarray, "kept length width"], float]:
    """Each sequence as it is or changed a little, whichever is worse; the worst of them, and its error."""
    low, high = task.box
    size = (high - low) * 10.0 ** rng.uniform(-5, -0.5, size=(len(x), 1, 1))
    changed = np.clip(x + size * rng.standard_normal(x.shape) * (rng.uniform(size=x.shape) < 0.3), low, high)
    both = np.concatenate([x, changed])
    errors = _errors(answer, task, both)
    order = np.argsort(-errors)[:keep]
    return both[order], float(errors[order[0]])


def _check_range(values: Float64[ndarray, " n"], low: float, high: float, number: int) -> None:
    slack = 1e-9 * (high - low)
    if values.min() < low - slack or values.max() > high + slack:
        stray = values.min() if values.min() < low - slack else values.max()
        raise InputError(
            f"f_{number + 1} takes the value {stray:.6g}, outside the range from {low:g} to {high:g} given"
        )
