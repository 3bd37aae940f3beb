"""The order of trials of a search: each trial is chosen from the results of the trials before it.

The same results give the same trials, whatever the workers and their speed. A search therefore runs ahead with a copy
of its order (`TrialOrder.copy`): the copy says which trials follow if those that still run do not certify.
"""

from __future__ import annotations

import copy
import math
from abc import ABC, abstractmethod
from collections import Counter
from dataclasses import dataclass
from itertools import chain

import numpy as np

from manyheads.fitting.descent import Weights, fewer_heads_start, narrowed_start, random_start
from manyheads.fitting.options import ShapeTrial, Start
from manyheads.fitting.shapes import least_budgets, likeliest, predicted_shape, shapes_within
from manyheads.problem.graph import Graph

SPLIT_TRIALS = 3  # trials of every split of a given key budget
FIRST_STEP = 0.2  # after a budget certifies, the next is smaller by this part at first
NARROWEST = 1.5  # a certified width is narrowed by at most this factor

Key = tuple[object, ...]  # names a trial: two trials with the same key have the same result


@dataclass(frozen=True)
class ShapeSpace:
    """The shapes that a search may try.

    Attributes:
        graph: The graph to hold.
        d_model: The width of the embedding.
        most_heads: The largest number of heads.
        key_heads: The number of key heads that the heads share; None: as many as heads.
    """

    graph: Graph
    d_model: int
    most_heads: float = math.inf
    key_heads: int | None = None

    @property
    def step(self) -> int:
        """The smallest change of the number of heads."""
        return self.key_heads or 1

    def both(self, heads: int) -> int:
        """The number of heads and key heads together."""
        return heads + (self.key_heads or heads)

    def shapes(self, target: int, only_heads: int | None, only_width: int | None) -> list[tuple[int, int]]:
        """The shapes with D_Q + D_K of about the target, with the number of heads or the width that is given."""
        if only_heads is not None:
            width = min(target // self.both(only_heads), self.d_model)
            return [(only_heads, width)] if width else []
        if only_width is not None:  # with key heads: (h + g) · d_k ≤ target
            heads = (target // only_width - self.step) // self.step * self.step
            return [(heads, only_width)] if 0 < heads <= self.most_heads else []
        within = shapes_within(target, self.d_model, key_heads=self.key_heads)
        return [shape for shape in within if shape[0] <= self.most_heads]


@dataclass(frozen=True, eq=False)
class TrialPlan:
    """A trial that was chosen: its shape, its seed and the weights it starts from.

    Attributes:
        heads: h.
        key_width: d_k.
        seed: Decides random first weights.
        start: The kind of the first weights.
        larger: For a start that is not random: the weights of a larger certified shape, which are cut down.
        origin: The key of the trial that `larger` comes from; () for a random start.
    """

    heads: int
    key_width: int
    seed: int
    start: Start
    larger: Weights | None = None
    origin: Key = ()

    @property
    def key(self) -> Key:
        """Names the trial."""
        return self.heads, self.key_width, self.seed, self.start, self.origin

    def weights(self, d_model: int, key_heads: int | None) -> Weights:
        """The first weights."""
        if self.larger is None:
            return random_start(
                d_model, heads=self.heads, key_width=self.key_width, key_heads=key_heads, seed=self.seed
            )
        narrowed = self.start == "narrowed"
        return narrowed_start(self.larger, key_width=self.key_width) if narrowed else fewer_heads_start(self.larger)


class TrialOrder(ABC):
    """Chooses one trial after another.

    Args:
        space: The shapes that can be tried.
        seed: Decides the trials, with their results.
    """

    def __init__(self, space: ShapeSpace, seed: int) -> None:
        self.space, self.seed = space, seed
        self.best: ShapeTrial | None = None
        self._trials: list[ShapeTrial] = []
        self._spare: dict[tuple[int, int], tuple[Key, Weights]] = {}  # certified; one smaller shape may start from each
        self._tried: Counter[tuple[int, int]] = Counter()

    def copy(self) -> TrialOrder:
        """An order that goes on on its own from here."""
        other = copy.copy(self)
        other._trials, other._spare, other._tried = self._trials[:], self._spare.copy(), self._tried.copy()
        return other

    def next(self) -> TrialPlan | None:
        """Choose the next trial; None if there is none."""
        shape = self.next_shape()
        if shape is None:
            return None
        seed = self.seed + self._tried[shape]
        self._tried[shape] += 1
        heads, key_width = shape
        wider = min(
            (width for h, width in self._spare if h == heads and key_width < width <= NARROWEST * key_width), default=0
        )
        if (spare := self._spare.pop((heads, wider), None)) is not None:
            return TrialPlan(heads, key_width, seed, "narrowed", spare[1], spare[0])
        if (spare := self._spare.pop((heads + self.space.step, key_width), None)) is not None:
            return TrialPlan(heads, key_width, seed, "fewer heads", spare[1], spare[0])
        return TrialPlan(heads, key_width, seed, "random")

    def take(self, plan: TrialPlan, trial: ShapeTrial, weights: Weights | None) -> bool:
        """Note the result of the trial that `next` chose last.

        Args:
            plan: The plan of the trial.
            trial: Its result.
            weights: The weights it ended with, if it certified.

        Returns:
            Whether it is the best so far.
        """
        self._trials.append(trial)
        if weights is not None:
            self._spare[trial.heads, trial.key_width] = plan.key, weights
        if not trial.certified or (self.best is not None and not self.is_better(trial, self.best)):
            return False
        self.best = trial
        return True

    @abstractmethod
    def next_shape(self) -> tuple[int, int] | None:
        """The heads and the key width of the next trial, by the trials so far; None if there is none."""

    @abstractmethod
    def is_better(self, one: ShapeTrial, other: ShapeTrial) -> bool:
        """Whether one certified trial is better than another."""


class SplitOrder(TrialOrder):
    """Every split of a key budget, in turns; the widest normalised margin is the best."""

    def __init__(self, space: ShapeSpace, seed: int, *, key_budget: int) -> None:
        super().__init__(space, seed)
        self._left = tuple(space.shapes(2 * key_budget, None, None) * SPLIT_TRIALS)

    def next_shape(self) -> tuple[int, int] | None:
        """The next split."""
        shape, self._left = next(iter(self._left), None), self._left[1:]
        return shape

    def is_better(self, one: ShapeTrial, other: ShapeTrial) -> bool:
        """Whether the margin of one is wider."""
        return one.normalised_margin > other.normalised_margin


class DownwardOrder(TrialOrder):
    """Shapes with smaller and smaller D_Q + D_K, in rounds; the fewest weights are the best.

    The budgets are counted in units: 2 without shared keys, where D_Q + D_K is twice a key budget. Heads that share
    keys can have every number.
    """

    def __init__(
        self,
        space: ShapeSpace,
        seed: int,
        *,
        max_budget: int | None = None,
        only_heads: int | None = None,
        only_width: int | None = None,
    ) -> None:
        super().__init__(space, seed)
        self._only = only_heads, only_width
        self._unit = unit = 2 if space.key_heads is None else 1
        least = -(-least_budgets(space.graph, space.d_model) // unit)
        key_budget, self._centre = predicted_shape(
            space.graph, space.d_model, heads=only_heads, key_heads=space.key_heads
        )
        target = space.both(self._centre) * (key_budget // (space.key_heads or self._centre)) // unit
        # a head of width 1 for each relation always works on distinct rows of length one, so no search needs more;
        # where heads share keys of width d_model, a head for each relation always works
        full = space.both(space.graph.relations) * (1 if space.key_heads is None else space.d_model) // unit
        self._most = max(target, full) if max_budget is None else 2 * max_budget // unit
        target = max(least, min(target, self._most))
        if only_width is not None:  # at least one group of heads
            least = max(least, 2 * space.step * only_width // unit)
            target = max(target, least)
        self._least, self._target = least, target
        self._step = self._growth = FIRST_STEP
        self._rounds = 0
        self._round: tuple[tuple[int, int], ...] = ()  # the shapes of the present round that were not tried yet

    def next_shape(self) -> tuple[int, int] | None:
        """The next shape of the round, or the first of the next round."""
        if not self._round or self._is_reached():
            if self._rounds:
                self._aim()
            self._round = self._new_round()
            if not self._round:
                return None
        shape, self._round = self._round[0], self._round[1:]
        return shape

    def is_better(self, one: ShapeTrial, other: ShapeTrial) -> bool:
        """Whether one has fewer weights."""
        return one.both_budgets < other.both_budgets

    def _is_reached(self) -> bool:
        return self.best is not None and self.best.both_budgets <= self._target * self._unit

    def _aim(self) -> None:
        """The budget of the next round."""
        best = None if self.best is None else self.best.both_budgets // self._unit
        if (
            self.best is not None and best is not None and best <= self._target
        ):  # it certified: smaller by the same part
            self._centre = self.best.heads
            self._target = best - max(1, round(self._step * best))
        elif best is None:  # nothing has certified yet: a larger budget, by a growing part
            grown = self._target + max(1, round(self._growth * self._target))
            self._target, self._growth = min(grown, self._most), min(2 * self._growth, 1.0)
        else:  # nothing below the best certified: the next is smaller by half the part
            self._step /= 2
            self._target = best - max(1, round(self._step * best))

    def _new_round(self) -> tuple[tuple[int, int], ...]:
        """The shapes to try at the present budget; none if no smaller layer is possible."""
        self._rounds += 1
        shapes = self.space.shapes(self._target * self._unit, *self._only) if self._target >= self._least else []
        if not shapes:
            return ()
        rng = np.random.default_rng((self.seed, self._rounds))
        return *self._cuts(), *likeliest(shapes, self._trials, self._centre, rng)

    def _cuts(self) -> list[tuple[int, int]]:
        """Smaller shapes than the best that can start from the unused weights of a certified shape."""
        spare, both, target = sorted(self._spare), self.space.both, self._target * self._unit
        narrower = [
            (heads, min(width - 1, max(target // both(heads), math.ceil(width / NARROWEST)))) for heads, width in spare
        ]
        fewer = [(heads - self.space.step, width) for heads, width in spare]
        best = self.best.both_budgets if self.best else 0
        only_heads, only_width = self._only
        return [
            (heads, width)
            for heads, width in chain(narrower, fewer)
            if heads and width and both(heads) * width < best
            and only_heads in (None, heads) and only_width in (None, width)
        ]  # fmt: skip
