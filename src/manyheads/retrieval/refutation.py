"""challenge: sequences that try to refute a bound on an answer's error, and the worst of them.

The bound of `SharpHeads` is proved: no sequence can refute it. A network with changed weights, or a trained network, is
refuted by a sequence. A bound that is not refuted is not thereby proved.
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
from manyheads.retrieval.sharp_construction import softness

Answer = Callable[[Float64[ndarray, "n length width"]], Float64[ndarray, " n"]]
HALVINGS = 60


@dataclass(frozen=True, eq=False)
class Challenge:
    """The worst sequence that was found.

    Attributes:
        verdict: "refuted" if the error of the sequence exceeds the bound, else "stands".
        promised: The bound.
        worst: |answer − y| of the sequence; infinite if there is no answer.
        sequence_kind: How the sequence was generated: random, equal, worst for one head, or improved.
        witness: The sequence.
        sequences: The number of sequences that were tried.
    """

    verdict: Literal["stands", "refuted"]
    promised: float
    worst: float
    sequence_kind: str
    witness: Float64[ndarray, "length width"]
    sequences: int

    @property
    def share(self) -> float:
        """The worst error as a share of the bound."""
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
    """Compare answers with the targets of a task on random, adversarial and improved sequences.

    The adversarial sequences of a feature are those for which the theorem says that the soft minimum is worst at this
    inverse temperature, and those of equal tokens, for which it is best. Then the worst sequences of all are changed at
    random; a change that makes a sequence worse is kept.

    Args:
        answer: Maps sequences of shape (n, length, width) to n answers.
        task: The task.
        promised: The bound on |answer − y|, positive.
        inverse_temperature: β, for the adversarial sequences.
        seed: The seed of the random sequences and changes.
        sequences: The number of random sequences.
        rounds: The number of rounds of random changes.

    Returns:
        The worst sequence and the verdict.

    Raises:
        InputError: The bound is not positive, or a feature leaves its range.

    >>> from manyheads.retrieval import SharpHeads, max_and_min
    >>> sharp = SharpHeads(max_and_min(8), inverse_temperature=100.0)
    >>> challenge(sharp.answer, sharp.task, sharp.guarantee.error, inverse_temperature=100.0, seed=0).verdict
    'stands'
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
    worst_kind = max(errors, key=lambda kind: errors[kind].max())
    worst, witness = float(errors[worst_kind].max()), kinds[worst_kind][int(errors[worst_kind].argmax())]
    pool = np.concatenate(list(kinds.values()))[np.argsort(-np.concatenate(list(errors.values())))[:20]]
    for _ in range(rounds):
        tried += 5 * len(pool)
        pool, error = _improved(answer, task, np.repeat(pool, 5, axis=0), rng, keep=len(pool))
        if error > worst:
            worst, witness, worst_kind = error, pool[0], "improved"
    verdict: Literal["stands", "refuted"] = "stands" if worst <= promised else "refuted"
    return Challenge(verdict, promised, worst, worst_kind, witness, tried)


def _errors(answer: Answer, task: RetrievalTask, x: Float64[ndarray, "n length width"]) -> Float64[ndarray, " n"]:
    """|answer − y| of each sequence; infinite for an answer that is not a number."""
    return np.nan_to_num(np.abs(answer(x) - task.targets(x)), nan=np.inf, posinf=np.inf)


def _equal(task: RetrievalTask, rng: np.random.Generator) -> Float64[ndarray, "n length width"]:
    """Sequences of one token repeated: every soft minimum is exact before c/(2β) is subtracted."""
    tokens = rng.uniform(*task.box, size=(50, 1, task.width))
    return np.repeat(tokens, task.length, axis=1)


def _adversarial(
    task: RetrievalTask, inverse_temperature: float, rng: np.random.Generator
) -> Float64[ndarray, "n length width"]:
    """For each feature, one token (1 + c)/β below all others: low in the range of the feature, and near its top.

    Near the top, the places outside S_i have their largest weight.
    """
    built, tokens = [], _candidates(task, rng)
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
            built.append(_one_below(tokens[start], rival, task.length, places[0]))
        lower = _between(feature.value, tokens[bottom], tokens[top], values[top] - gap)
        built.append(_one_below(lower, tokens[top], task.length, places[0]))
    return np.array(built).reshape(-1, task.length, task.width)


def _candidates(task: RetrievalTask, rng: np.random.Generator) -> Float64[ndarray, "tokens width"]:
    """Random tokens in the box, and its corners up to 8 dimensions."""
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
    """A token on the line from `low` to `high` at which a continuous feature has the wanted value."""
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
    """The worst of the sequences and of small random changes of them, and the largest error."""
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
        raise InputError(f"f_{number + 1} takes the value {stray:.6g}, outside its range from {low:g} to {high:g}")
