"""The matching task against a direct simulation, its properties and its cost; tables of embedding rows."""

from __future__ import annotations

import itertools
import random
import tracemalloc
from collections import Counter
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import chi2_contingency, chisquare
from support.small_models import ROWS

from manyheads.block import (
    BlockRun,
    MatchingExamples,
    MatchingTask,
    draw_matching_task,
    frozen_table,
    table_of,
    task_of,
)
from manyheads.block.block_data import decode, principal
from manyheads.errors import InputError
from manyheads.training import fingerprint
from manyheads.training.data import Stream

BASE = BlockRun(items=64, d_model=16, heads=4, key_width=5, seed=3)
Outcome = tuple[int, int, frozenset[frozenset[int]]]  # query, label, the pairs


@st.composite
def tasks(draw: st.DrawFn) -> MatchingTask:
    context = draw(st.integers(1, 6))
    items = draw(st.integers(2 * context + 1, 2 * context + 12))
    return draw_matching_task(items, context, seed=draw(st.integers(0, 10**6)))


def outcomes(examples: MatchingExamples) -> list[Outcome]:
    parts = zip(examples.queries.tolist(), examples.labels.tolist(), examples.pairs.tolist(), strict=True)
    return [(query, label, frozenset(map(frozenset, pairs))) for query, label, pairs in parts]


def simulated(successors: list[int], context: int, rng: random.Random) -> Outcome:
    """Sec. 7.3, sentence by sentence."""
    items = range(len(successors))
    query = rng.choice(items)
    while successors[query] == query:
        query = rng.choice(items)
    successor = successors[query]
    others = rng.sample([item for item in items if item not in (query, successor)], 2 * context - 1)
    members = [successor, *others]
    rng.shuffle(members)
    pairs = [members[n : n + 2] for n in range(0, len(members), 2)]
    (label,) = (b if a == successor else a for a, b in pairs if successor in (a, b))
    return query, label, frozenset(map(frozenset, pairs))


@settings(max_examples=25)
@given(tasks(), st.sampled_from(Stream), st.integers(0, 50))
def test_every_example_is_of_the_task(task: MatchingTask, stream: Stream, start: int) -> None:
    items = len(task.successors)
    examples = task.batches(stream, start, 2, size=20)
    assert examples.pairs.shape == (40, task.context, 2)
    for n, (query, label, place) in enumerate(zip(examples.queries, examples.labels, examples.places, strict=True)):
        successor, members = task.successors[query], examples.pairs[n].ravel()
        assert successor != query
        assert query not in members
        assert len(set(members)) == 2 * task.context
        assert set(members) <= set(range(items))
        assert set(examples.pairs[n, place]) == {successor, label}


@settings(max_examples=25)
@given(tasks(), st.integers(0, 9), st.integers(1, 4), st.integers(1, 9))
def test_a_batch_is_the_same_in_whatever_company(task: MatchingTask, start: int, count: int, size: int) -> None:
    together = task.batches(Stream.TRAIN, start, count, size=size)
    for n in range(count):
        alone, part = task.batches(Stream.TRAIN, start + n, 1, size=size), slice(n * size, (n + 1) * size)
        np.testing.assert_array_equal(together.pairs[part], alone.pairs)
        np.testing.assert_array_equal(together.queries[part], alone.queries)


def test_streams_and_seeds_differ() -> None:
    task, other = draw_matching_task(50, 4, seed=0), draw_matching_task(50, 4, seed=1)
    assert (task.successors != other.successors).any()
    drawn = [task.batches(stream, n, 1, size=30).pairs for stream in Stream for n in (0, 1)]
    assert len({pairs.tobytes() for pairs in drawn}) == len(drawn)


def test_draws_are_distributed_as_the_direct_simulation() -> None:
    # one fixed point, and all of the 5 · 12 possible (query, label, other pair)
    task = MatchingTask(np.array([1, 2, 0, 3, 5, 4]), 2, seed=0)
    count, rng = 12_000, random.Random(0)
    drawn = Counter(outcomes(task.batches(Stream.TRAIN, 0, 4, size=count // 4)))
    direct = Counter(simulated(task.successors.tolist(), 2, rng) for _ in range(count))
    assert set(drawn) == set(direct)
    assert len(drawn) == 60
    assert chisquare(list(drawn.values())).pvalue > 1e-3
    assert chi2_contingency([[drawn[key] for key in direct], list(direct.values())]).pvalue > 1e-3


def test_the_successors_pair_stands_at_any_place_equally() -> None:
    examples = draw_matching_task(40, 5, seed=3).batches(Stream.TRAIN, 0, 1, size=5_000)
    assert chisquare(np.bincount(examples.places, minlength=5)).pvalue > 1e-3


@pytest.mark.parametrize(("items", "length"), [(4, 4), (5, 3), (6, 1)])
def test_codes_and_choices_are_one_to_one(items: int, length: int) -> None:
    codes = np.array(list(itertools.product(*[range(items - n) for n in range(length)]))).T
    choices = [tuple(choice) for choice in decode(codes).T.tolist()]
    assert sorted(choices) == list(itertools.permutations(range(items), length))


def test_sampling_does_no_work_for_items_it_does_not_draw() -> None:
    task = draw_matching_task(1_000_000, 16, seed=0)
    task.batches(Stream.TRAIN, 0, 1, size=1)  # what is found once for the task
    tracemalloc.start()
    task.batches(Stream.TRAIN, 0, 1, size=128)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak < 1 << 20  # a byte for each of batch · m would be 122 MiB


def test_the_identity_is_drawn_again() -> None:
    for seed in range(60):  # at 3 items every sixth permutation is the identity
        assert (draw_matching_task(3, 1, seed=seed).successors != np.arange(3)).any()


@pytest.mark.parametrize(
    ("items", "context", "says"), [(32, 16, r"2·16 \+ 1 = 33 items, not 32"), (9, 0, "at least 1 pair")]
)
def test_an_impossible_context_says_why(items: int, context: int, says: str) -> None:
    with pytest.raises(InputError, match=says):
        draw_matching_task(items, context, seed=0)


def test_the_frozen_table_has_the_most_frequent_rows_and_null_last() -> None:
    embedding = np.arange(12, dtype=np.float64).reshape(6, 2)
    table = frozen_table(embedding, np.array([4, 0, 5, 2]), items=3, null=0)
    np.testing.assert_array_equal(table, embedding[[4, 5, 2, 0]])
    assert table.dtype == np.float32


@pytest.mark.parametrize(
    ("ranking", "items", "null", "says"),
    [
        ([0, 1, 2, 3, 4, 5], 6, 5, "6 items and NULL need 7 rows, but the table has 6"),
        ([0, 1, 6], 2, 5, "tokenizer does not fit the table: it has a token 6, the table rows 0 to 5"),
        ([0, -1, 2], 2, 5, "tokenizer does not fit the table: it has a token -1"),
        ([0, 5, 2], 3, 5, "2 tokens besides NULL, but 3 items"),
        ([0, 1, 1], 3, 5, "a token twice"),
        ([0, 1, 2], 2, 6, "NULL cannot be row 6: the table has the rows 0 to 5"),
    ],
)
def test_an_impossible_table_says_why(ranking: list[int], items: int, null: int, says: str) -> None:
    with pytest.raises(InputError, match=says):
        frozen_table(np.ones((6, 2)), np.array(ranking), items=items, null=null)


def test_all_splits_of_a_seed_meet_the_same_problem() -> None:
    other = replace(BASE, heads=2, key_width=9, steps=7, batch=3)
    np.testing.assert_array_equal(task_of(BASE).successors, task_of(other).successors)
    np.testing.assert_array_equal(table_of(BASE), table_of(other))
    assert table_of(BASE).shape == (65, 16)
    assert (table_of(BASE) != table_of(replace(BASE, seed=4))).any()
    np.testing.assert_array_equal(table_of(BASE), table_of(replace(BASE, seed=4, problem_seed=3)))


def test_a_table_that_is_not_the_runs_says_why() -> None:
    table = np.random.default_rng(0).standard_normal((65, 16))
    named = replace(BASE, embedding=fingerprint(table))
    np.testing.assert_array_equal(table_of(named, table), table.astype(np.float32))
    for run, other, says in (
        (named, None, "pass this table too"),
        (BASE, table, "the run names gaussian"),
        (named, table[:-1], r"64 items and NULL of d_model = 16 need \(65, 16\)"),
        (named, table + 1, "the run names given:"),
        (named, np.where(table > 3, np.nan, table * np.nan), "finite numbers only"),
    ):
        with pytest.raises(InputError, match=says):
            table_of(run, other)


def test_principal_components_are_those_of_a_singular_value_decomposition() -> None:
    table = np.random.default_rng(1).standard_normal((30, 7)) * np.arange(1, 8) + 3
    reduced = principal(table, 3)
    centred = table - table.mean(axis=0)
    left, sizes, _ = np.linalg.svd(centred, full_matrices=False)
    np.testing.assert_allclose(np.abs(reduced), np.abs(left[:, :3] * sizes[:3]), rtol=1e-4, atol=1e-5)
    np.testing.assert_allclose(reduced @ reduced.T, (left[:, :3] * sizes[:3] ** 2) @ left[:, :3].T, atol=1e-3)
    whole = principal(table, 7)  # a rotation: nothing is lost
    np.testing.assert_allclose(whole @ whole.T, centred @ centred.T, atol=1e-3)


def test_a_run_records_that_its_table_is_reduced() -> None:
    table = frozen_table(ROWS, np.arange(1, 12), items=9, null=0)
    np.testing.assert_array_equal(table[-1], ROWS[0])
    run = BlockRun(9, 2, 1, 3, 0, embedding=fingerprint(table), reduction="pca", context=2)
    np.testing.assert_array_equal(table_of(run, table), principal(table, 2))
    assert run.meaning["reduction"] == "pca"
    wide = BlockRun(9, 17, 1, 3, 0, embedding=fingerprint(table), reduction="pca", context=2)
    with pytest.raises(InputError, match="need 10 rows of at least 17 numbers"):
        table_of(wide, table)
    with pytest.raises(InputError, match="there is nothing to reduce"):
        BlockRun(9, 2, 1, 3, 0, reduction="pca", context=2)
