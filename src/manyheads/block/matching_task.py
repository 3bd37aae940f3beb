"""Permutation→matching retrieval (Sec. 7.3): a stored successor, then a partner that only the context tells.

Sampling costs O(batch · ℓ²), whatever m: nothing is shuffled but the codes of what is drawn.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import IntEnum
from functools import cached_property

import numpy as np
from jaxtyping import Int64
from numpy import ndarray

from manyheads.errors import InputError
from manyheads.training.data import Stream


class Purpose(IntEnum):
    """What a seed is for, its first word; other words than those of `training.problem`."""

    PERMUTATION = 11
    EXAMPLES = 12
    EMBEDDING = 13
    WEIGHTS = 14


@dataclass(frozen=True, eq=False)
class Examples:
    """Contexts of ℓ pairs, a query each, and the item to be named: the partner of the query's successor."""

    queries: Int64[ndarray, " examples"]
    pairs: Int64[ndarray, "examples context 2"]
    places: Int64[ndarray, " examples"]  # which pair holds the successor
    labels: Int64[ndarray, " examples"]


@dataclass(frozen=True, eq=False)
class Task:
    """A permutation of the items, fixed for training, validation and test, and how many pairs a context has."""

    successors: Int64[ndarray, " items"]
    context: int
    seed: int  # of the examples

    def __post_init__(self) -> None:
        check_context(len(self.successors), self.context)

    def batches(self, stream: Stream, start: int, count: int, *, size: int) -> Examples:
        """Batches start … start + count − 1 of a stream, end to end; each is drawn by a generator of its own."""
        items, fellows = len(self.successors), 2 * self.context - 1
        # which query, which place its successor's pair takes, and the code of the 2ℓ − 1 further items
        choices = np.array([len(self._moved), self.context, *range(items - 2, items - 2 - fellows, -1)])
        words = (int(Purpose.EXAMPLES), self.seed, items, self.context, int(stream))
        generators = [np.random.default_rng((*words, number)) for number in range(start, start + count)]
        drawn = np.concatenate([rng.integers(choices, size=(size, len(choices))) for rng in generators]).T
        queries, places = self._moved[drawn[0]], drawn[1]
        successors = self.successors[queries]
        # the code begins with query and successor, so that what follows is neither
        members = decode(np.vstack([queries, successors - (successors > queries), drawn[2:]]))[1:]
        pairs = np.ascontiguousarray(members.T).reshape(-1, self.context, 2)
        example = np.arange(len(pairs))
        first = pairs[:, 0].copy()  # the successor and its partner
        pairs[:, 0] = pairs[example, places]
        pairs[example, places] = first
        return Examples(queries, pairs, places, first[:, 1])

    @cached_property
    def _moved(self) -> Int64[ndarray, " moved"]:
        """The items that may be asked for: those that are not their own successors."""
        return np.flatnonzero(self.successors != np.arange(len(self.successors)))


def retrieval_task(items: int, context: int, *, seed: int) -> Task:
    """A random permutation; the identity, which leaves nothing to ask for, is drawn again."""
    check_context(items, context)
    rng = np.random.default_rng((int(Purpose.PERMUTATION), seed, items))
    successors = rng.permutation(items)
    while (successors == np.arange(items)).all():
        successors = rng.permutation(items)
    return Task(successors, context, seed)


def check_context(items: int, context: int) -> None:
    """Refuse contexts that the items do not suffice for."""
    if context < 1:
        raise InputError(f"a context needs at least 1 pair, not {context}")
    if 2 * context + 1 > items:
        needed = 2 * context + 1
        raise InputError(f"a query and {context} disjoint pairs need 2·{context} + 1 = {needed} items, not {items}")


def decode(code: Int64[ndarray, "length n"]) -> Int64[ndarray, "length n"]:
    """Distinct numbers by their Lehmer code: code[i] counts the smaller numbers that code[:i] has not taken.

    A code with code[i] < m − i stands for one ordered choice from range(m), and every choice has one: a uniform
    code is a uniform choice. From the back, each number makes room for itself among those after it.

    >>> decode(np.array([[3], [0], [2]])).T
    array([[3, 0, 4]])
    """
    numbers = code.copy()
    for i in range(len(numbers) - 2, -1, -1):
        numbers[i + 1 :] += numbers[i + 1 :] >= numbers[i]
    return numbers
