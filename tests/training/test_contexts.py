"""Contexts: the native sampler against the paper's three steps, simulated directly and bit by bit."""

from __future__ import annotations

import hashlib
from collections.abc import Callable

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import chi2_contingency
from support.runs import make_run

from manyheads import Graph, permutation_graph, regular_graph
from manyheads.problem.graph import Graph as AnyGraph
from manyheads.training.data import Stream, TrainingData, training_data

MASK = (1 << 64) - 1
GOLDEN = 0x9E3779B97F4A7C15


def problem(graph: AnyGraph, *, context: int = 16, target_rate: float = 0.5, seed: int = 0) -> TrainingData:
    run = make_run(graph.items, 4, 1, 1, seed=seed, graph=graph, context=context, target_rate=target_rate)
    return training_data(run)


def neighbours(graph: AnyGraph, item: int) -> list[int]:
    return graph.targets[graph.row_starts[item] : graph.row_starts[item + 1]].tolist()


def simulate(graph: AnyGraph, length: int, rate: float, rng: np.random.Generator) -> list[int]:
    """App. A.1's three steps, as plainly as they can be written."""
    context = rng.permutation(graph.items)[:length].tolist()
    chosen = rng.permutation(context)[: rng.binomial(length, rate)].tolist()
    for i in chosen:
        targets = neighbours(graph, i)
        if targets and not set(targets) & set(context):
            j = rng.choice([item for item in context if item != i])
            context[context.index(j)] = int(rng.choice(targets))
    return context


class SplitMix:
    """native/engine/random.hpp, written again."""

    def __init__(self, key: int, stream: int, index: int) -> None:
        self.state = self.mix((self.mix((key + GOLDEN * (stream + 1)) & MASK) + GOLDEN * (index + 1)) & MASK)

    @staticmethod
    def mix(z: int) -> int:
        z = ((z ^ (z >> 30)) * 0xBF58476D1CE4E5B9) & MASK
        z = ((z ^ (z >> 27)) * 0x94D049BB133111EB) & MASK
        return z ^ (z >> 31)

    def draw(self) -> int:
        self.state = (self.state + GOLDEN) & MASK
        return self.mix(self.state)

    def below(self, count: int) -> int:
        return (self.draw() * count) >> 64


def redraw(given: TrainingData, stream: int, index: int) -> list[int]:
    """native/engine/contexts.hpp, written again: every random number in its place."""
    random, graph, length = SplitMix(given.context_key, stream, index), given.graph, given.context
    context: list[int] = []
    while len(context) < length:
        item = random.below(graph.items)
        if item not in context:
            context.append(item)
    exactly = [1.0] + [0.0] * length
    for n in range(1, length + 1):
        for k in range(n, -1, -1):
            exactly[k] = exactly[k] * (1 - given.target_rate) + (exactly[k - 1] * given.target_rate if k else 0)
    fraction = (random.draw() >> 11) * 2.0**-53
    chosen = int((fraction >= np.cumsum(exactly[:-1])).sum())
    order = list(context)
    for n in range(chosen):
        other = n + random.below(length - n)
        order[n], order[other] = order[other], order[n]
    for i in order[:chosen]:
        targets = neighbours(graph, i)
        if not targets:
            continue
        target = targets[random.below(len(targets))]
        replaceable = [p for p in range(length) if context[p] != i]
        position = replaceable[random.below(len(replaceable))]
        if not set(targets) & set(context):
            context[position] = target
    return context


CASES: dict[str, tuple[AnyGraph, int, float]] = {
    "permutation": (permutation_graph(40, seed=1), 16, 0.5),
    "sparse": (permutation_graph(512, seed=1), 16, 0.5),
    "regular": (regular_graph(40, 3, seed=1), 9, 0.7),
    "pairs": (permutation_graph(12, seed=1), 2, 0.8),
    "whole": (permutation_graph(12, seed=1), 12, 0.5),
    "dense": (regular_graph(12, 11, seed=1), 5, 0.5),
    "with sinks": (Graph(30, np.array([0, 0, 1, 2]), np.array([5, 6, 7, 2])), 8, 0.9),
    "always": (permutation_graph(30, seed=1), 6, 1.0),
    "never": (permutation_graph(30, seed=1), 6, 0.0),
}


@pytest.mark.parametrize("case", CASES)
def test_the_generator_is_what_its_description_says(case: str) -> None:
    graph, length, rate = CASES[case]
    given_problem = problem(graph, context=length, target_rate=rate)
    for stream in Stream:
        drawn = given_problem.contexts(stream, 0, 60)
        assert drawn.tolist() == [redraw(given_problem, int(stream), n) for n in range(60)]


@given(st.integers(3, 40), st.data())
@settings(max_examples=40, deadline=None)
def test_contexts_are_distinct_items_and_stand_alone(items: int, data: st.DataObject) -> None:
    length, start = data.draw(st.integers(2, items)), data.draw(st.integers(0, 2**40))
    given_problem = problem(permutation_graph(items, seed=items), context=length, seed=data.draw(st.integers(0, 9)))
    drawn = given_problem.contexts(Stream.TRAIN, start, 5)
    assert drawn.shape == (5, length)
    assert all(len(set(row)) == length and min(row) >= 0 and max(row) < items for row in drawn.tolist())
    np.testing.assert_array_equal(drawn[3:4], given_problem.contexts(Stream.TRAIN, start + 3, 1))


def relations(graph: AnyGraph, context: list[int]) -> int:
    return sum(t in context for i in context for t in neighbours(graph, i))


def place_of_first_item(graph: AnyGraph, context: list[int]) -> int:
    return context.index(0) if 0 in context else -1


def place_of_first_target(graph: AnyGraph, context: list[int]) -> int:
    """Where the target of the item in position 0 stands: brought ones replace any position but their source's."""
    targets = [p for p, item in enumerate(context) if item in neighbours(graph, context[0])]
    return targets[0] if targets else -1


def distant_pair(graph: AnyGraph, context: list[int]) -> int:
    """Chains i → t → u inside the context: bringing targets of brought targets, and evictions, show here."""
    return sum(
        u in context for i in context for t in neighbours(graph, i) if t in context for u in neighbours(graph, t)
    )


@pytest.mark.parametrize("statistic", [relations, place_of_first_item, place_of_first_target, distant_pair])
@pytest.mark.parametrize("case", ["permutation", "regular", "pairs", "whole", "with sinks"])
@pytest.mark.long
def test_frequencies_match_a_direct_simulation(case: str, statistic: Callable[[AnyGraph, list[int]], int]) -> None:
    graph, length, rate = CASES[case]
    rng, count = np.random.default_rng(7), 6_000
    simulated = [statistic(graph, simulate(graph, length, rate, rng)) for _ in range(count)]
    drawn = [
        statistic(graph, row)
        for row in problem(graph, context=length, target_rate=rate).contexts(Stream.TRAIN, 0, count).tolist()
    ]
    values = sorted({*simulated, *drawn})
    table = np.array([[sample.count(v) for v in values] for sample in (simulated, drawn)])
    table = table[:, np.argsort(-table.sum(axis=0))]
    rare = table.sum(axis=0) < 20
    table = np.column_stack([table[:, ~rare], table[:, rare].sum(axis=1)])
    table = table[:, table.sum(axis=0) > 0]
    if table.shape[1] > 1:
        assert chi2_contingency(table).pvalue > 1e-4


def test_the_literal_reading_has_the_positive_rate_of_the_notes() -> None:
    """docs/reference/claims.md: 0.26 relations a source at m = 512 if read literally, 0.41 if protected."""
    graph = permutation_graph(512, seed=0)
    drawn = problem(graph).contexts(Stream.TRAIN, 0, 20_000)
    rate = (graph.targets[drawn][:, :, None] == drawn[:, None, :]).any(axis=2).mean()
    assert rate == pytest.approx(0.256, abs=0.004)


def test_contexts_are_the_same_on_every_platform() -> None:
    graph = Graph(97, np.arange(97), (np.arange(97) * 5 + 3) % 97)
    drawn = problem(graph, seed=11).contexts(Stream.VALIDATION, 5, 1_000)
    assert hashlib.sha256(drawn.astype("<i4").tobytes()).hexdigest()[:16] == "b57ffb8ba4846030"


def test_streams_and_problem_seeds_differ_but_weights_do_not_matter() -> None:
    graph = permutation_graph(64, seed=0)
    drawn = [problem(graph, seed=s).contexts(stream, 0, 50).tobytes() for s in (0, 1) for stream in Stream]
    assert len(set(drawn)) == 6
    runs = [make_run(64, 16, heads, width, seed=seed, problem_seed=5) for heads, width, seed in ((1, 4, 0), (8, 9, 1))]
    ours = [training_data(run) for run in runs]
    assert ours[0].graph == ours[1].graph
    np.testing.assert_array_equal(ours[0].rows, ours[1].rows)
    np.testing.assert_array_equal(ours[0].contexts(Stream.TEST, 0, 50), ours[1].contexts(Stream.TEST, 0, 50))
