"""The data of a block: permutation→matching retrieval (Sec. 7.3) and the frozen table of embedding rows.

The task asks for two steps. The block stores the successor π(q) of each query q in its weights. The context contains a
pair {π(q), b}; the answer is b, which only the context tells.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import IntEnum
from functools import cached_property

import numpy as np
from jaxtyping import Float, Float32, Int64, Integer
from numpy import ndarray

from manyheads.block.block_run import BlockRun, check_context
from manyheads.errors import InputError
from manyheads.problem.embedding import GIVEN, given_name
from manyheads.problem.embedding_kinds import gaussian
from manyheads.training.data import Stream


class BlockSeedKey(IntEnum):
    """The first number of every seed: it says which data the seed generates. No other room uses these numbers."""

    PERMUTATION = 11
    EXAMPLES = 12
    EMBEDDING = 13
    WEIGHTS = 14


@dataclass(frozen=True, eq=False)
class MatchingExamples:
    """Contexts of ℓ pairs, each with a query and the correct answer.

    Attributes:
        queries: The item q of each example.
        pairs: The pairs of each context.
        places: The number of the pair that contains the successor of the query.
        labels: The correct answer: the other item of that pair.
    """

    queries: Int64[ndarray, " examples"]
    pairs: Int64[ndarray, "examples context 2"]
    places: Int64[ndarray, " examples"]
    labels: Int64[ndarray, " examples"]


@dataclass(frozen=True, eq=False)
class MatchingTask:
    """A permutation π of the items, the same in training, validation and test.

    Attributes:
        successors: π(q) of each item q.
        context: ℓ, the number of pairs in a context.
        seed: The seed of the examples.
    """

    successors: Int64[ndarray, " items"]
    context: int
    seed: int

    def __post_init__(self) -> None:
        check_context(len(self.successors), self.context)

    def batches(self, stream: Stream, start: int, count: int, *, size: int) -> MatchingExamples:
        """Generate batches of a stream. Each batch has a random generator of its own.

        The time is O(examples · ℓ²), for every number of items.

        Args:
            stream: Training, validation or test.
            start: The number of the first batch.
            count: The number of batches.
            size: The number of examples in a batch.

        Returns:
            The examples of batches start … start + count − 1, one batch after the other.
        """
        items, others = len(self.successors), 2 * self.context - 1
        # the query, the place of the pair with its successor, and the Lehmer code of the 2ℓ − 1 other items
        choices = np.array([len(self._moved), self.context, *range(items - 2, items - 2 - others, -1)])
        words = (int(BlockSeedKey.EXAMPLES), self.seed, items, self.context, int(stream))
        generators = [np.random.default_rng((*words, number)) for number in range(start, start + count)]
        codes = np.concatenate([rng.integers(choices, size=(size, len(choices))) for rng in generators]).T
        queries, places = self._moved[codes[0]], codes[1]
        successors = self.successors[queries]
        # The code begins with the query and its successor: therefore no other item is one of them.
        members = decode(np.vstack([queries, successors - (successors > queries), codes[2:]]))[1:]
        pairs = np.ascontiguousarray(members.T).reshape(-1, self.context, 2)
        example = np.arange(len(pairs))
        first = pairs[:, 0].copy()  # the successor and the correct answer
        pairs[:, 0] = pairs[example, places]
        pairs[example, places] = first
        return MatchingExamples(queries, pairs, places, first[:, 1])

    @cached_property
    def _moved(self) -> Int64[ndarray, " moved"]:
        """The items that can be queries: the items that are not their own successors."""
        return np.flatnonzero(self.successors != np.arange(len(self.successors)))


def draw_matching_task(items: int, context: int, *, seed: int) -> MatchingTask:
    """Generate a task with a random permutation that is not the identity.

    Args:
        items: m, the number of items.
        context: ℓ, the number of pairs in a context.
        seed: The seed of the permutation and of the examples.

    Returns:
        The task.

    Raises:
        InputError: m is below 2·ℓ + 1.
    """
    check_context(items, context)
    rng = np.random.default_rng((int(BlockSeedKey.PERMUTATION), seed, items))
    successors = rng.permutation(items)
    while (successors == np.arange(items)).all():
        successors = rng.permutation(items)
    return MatchingTask(successors, context, seed)


def decode(code: Int64[ndarray, "length n"]) -> Int64[ndarray, "length n"]:
    """Turn Lehmer codes into distinct numbers: code[i] counts the smaller numbers that code[:i] has not used.

    Every code with 0 ≤ code[i] < m − i stands for one ordered choice from range(m), and every choice has one code.
    Therefore a uniform code gives a uniform choice.

    >>> decode(np.array([[3], [0], [2]])).T
    array([[3, 0, 4]])
    """
    numbers = code.copy()
    for i in range(len(numbers) - 2, -1, -1):
        numbers[i + 1 :] += numbers[i + 1 :] >= numbers[i]
    return numbers


def task_of(run: BlockRun) -> MatchingTask:
    """The task of a run. Runs with the same problem seed have the same task, for every (heads, key_width).

    Args:
        run: The run.

    Returns:
        The task.
    """
    return draw_matching_task(run.items, run.context, seed=run.problem)


def table_of(run: BlockRun, given: Float[ndarray, "rows width"] | None = None) -> Float32[ndarray, "rows d_model"]:
    """E, the frozen table of a run: one row for each item, then the row of NULL.

    Args:
        run: The run.
        given: The table that the run names by its fingerprint; None for a run with a Gaussian table.

    Returns:
        The table, of shape (items + 1, d_model).

    Raises:
        InputError: The table is missing, is not the table of the run, or has another shape.
    """
    reason = table_refusal(run, given)
    if reason is not None:
        raise InputError(reason)
    if given is not None:
        return principal(given, run.d_model) if run.reduction == "pca" else np.ascontiguousarray(given, np.float32)
    words = (int(BlockSeedKey.EMBEDDING), run.problem, run.items, run.d_model)
    return gaussian(run.items + 1, run.d_model, seed=int(np.random.default_rng(words).integers(1 << 63)))


def table_refusal(run: BlockRun, given: Float[ndarray, "rows width"] | None) -> str | None:
    """The reason why a run cannot train on this table; None if it can."""
    if given is None:
        needs = run.embedding.startswith(GIVEN)
        return f"the run trains on the table {run.embedding}: pass this table too" if needs else None
    if run.reduction == "pca":
        if len(given) != run.items + 1 or given.shape[1] < run.d_model:
            return (
                f"the table has the shape {given.shape}: {run.items} items and NULL, reduced to d_model = "
                f"{run.d_model}, need {run.items + 1} rows of at least {run.d_model} numbers"
            )
    elif given.shape != (run.items + 1, run.d_model):
        return (
            f"the table has the shape {given.shape}: {run.items} items and NULL of d_model = {run.d_model} "
            f"need ({run.items + 1}, {run.d_model})"
        )
    if not np.isfinite(given).all():
        return "the table must hold finite numbers only"
    if given_name(given) != run.embedding:
        return f"the table passed is {given_name(given)}, but the run names {run.embedding}"
    return None


def frozen_table(
    embedding: Float[ndarray, "rows d_model"], ranking: Integer[ndarray, " tokens"], *, items: int, null: int
) -> Float32[ndarray, "table d_model"]:
    """Build the table of a block from a model's token embedding.

    Args:
        embedding: One row for each token of the model.
        ranking: Token numbers, the most frequent token first. The token `null` is skipped.
        items: The number of items; they are the most frequent tokens.
        null: The token number of NULL, usually the token that ends a text.

    Returns:
        The rows of the items in the order of the ranking, then the row of NULL.

    Raises:
        InputError: The embedding or the ranking has too few tokens, or the two do not belong together.

    >>> frozen_table(np.eye(4), np.array([3, 0, 1]), items=2, null=0).argmax(axis=1)
    array([3, 1, 0])
    """
    rows = len(embedding)
    if items + 1 > rows:
        raise InputError(f"{items} items and NULL need {items + 1} rows, but the table has {rows}")
    if not 0 <= null < rows:
        raise InputError(f"NULL cannot be row {null}: the table has the rows 0 to {rows - 1}")
    if len(ranking) and not 0 <= ranking.min() <= ranking.max() < rows:
        stray = ranking.max() if ranking.max() >= rows else ranking.min()
        raise InputError(
            f"the tokenizer does not fit the table: it has a token {stray}, the table rows 0 to {rows - 1}"
        )
    chosen = ranking[ranking != null][:items]
    if len(chosen) < items:
        raise InputError(f"the ranking has {len(chosen)} tokens besides NULL, but {items} items are needed")
    if len(np.unique(chosen)) < items:
        raise InputError("the ranking has a token twice")
    return np.ascontiguousarray(embedding[np.append(chosen, null)], dtype=np.float32)


def principal(table: Float[ndarray, "rows width"], d_model: int) -> Float32[ndarray, "rows d_model"]:
    """The first d_model principal components of the centred rows, the row of NULL included; no rescaling.

    The sign of each direction makes its largest entry positive.
    """
    centred = table.astype(np.float64) - table.mean(axis=0, dtype=np.float64)
    _, directions = np.linalg.eigh(centred.T @ centred)  # ascending: the largest variance last
    kept = directions[:, ::-1][:, :d_model]
    largest = np.abs(kept).argmax(axis=0)
    kept = kept * np.sign(kept[largest, np.arange(d_model)])
    return np.ascontiguousarray(centred @ kept, dtype=np.float32)
