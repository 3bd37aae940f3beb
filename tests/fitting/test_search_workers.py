"""Searches on any workers: the same trials and the same layer bit for bit, also where workers die or time ends."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import textwrap
import time
from collections.abc import Iterator
from concurrent.futures import Future, ProcessPoolExecutor, ThreadPoolExecutor
from contextlib import suppress
from dataclasses import replace
from itertools import takewhile
from multiprocessing import get_context
from pathlib import Path
from typing import Any

import pytest
from support.searches import assert_same, trials_of

from manyheads import InputError, Problem, gaussian, permutation_graph
from manyheads.executors import Workers, processes, threads
from manyheads.fitting import FitOptions, FitProgress, FitSearchResult, best_split, fit, smallest
from manyheads.fitting.shape_search import TRIES
from manyheads.fitting.trial_order import DownwardOrder, ShapeSpace, SplitOrder, TrialOrder
from manyheads.layer.rules import SOFTMAX

PROBLEM = Problem(permutation_graph(48, seed=0), gaussian(48, 16, seed=1))
OPTIONS = FitOptions(seed=3, trials=24)


@pytest.fixture(scope="module")
def two_processes() -> Iterator[Workers]:
    with processes(2) as workers:
        yield workers


@pytest.fixture(scope="module")
def alone() -> FitSearchResult:
    """The search with one worker, which never runs ahead."""
    found = smallest(PROBLEM, options=replace(OPTIONS, workers=1))
    assert len(found.trials) == 24
    assert {"random", "narrowed"} <= {trial.start for trial in found.trials}  # else this is too easy
    assert 1 < sum(trial.certified for trial in found.trials) < 24
    return found


@pytest.mark.parametrize("count", [2, 7])
def test_more_threads_make_the_same_trials(alone: FitSearchResult, count: int) -> None:
    assert_same(alone, smallest(PROBLEM, options=replace(OPTIONS, workers=count)))


def test_processes_make_the_same_trials(alone: FitSearchResult, two_processes: Workers) -> None:
    told: list[int] = []
    options = replace(OPTIONS, workers=two_processes, report=lambda trial: told.append(trial.heads))
    assert_same(alone, smallest(PROBLEM, options=options))
    assert told == [trial.heads for trial in alone.trials]


def test_executors_of_the_caller_make_the_same_trials(alone: FitSearchResult) -> None:
    with ThreadPoolExecutor(2) as executor:
        assert_same(alone, smallest(PROBLEM, options=replace(OPTIONS, workers=executor)))
        assert executor.submit(len, "it still works").result() == 14


def test_best_split_and_softmax_are_the_same_too(two_processes: Workers) -> None:
    problem = Problem(permutation_graph(16, seed=0), gaussian(16, 16, seed=1))
    options = FitOptions(seed=0, trials=4, rule=SOFTMAX, context_length=6)
    every = [
        best_split(problem, key_budget=16, options=replace(options, workers=workers))
        for workers in (1, 3, two_processes)
    ]
    assert_same(every[0], every[1])
    assert_same(every[0], every[2])
    shared = [
        smallest(PROBLEM, key_heads=1, options=replace(OPTIONS, trials=8, workers=workers))
        for workers in (1, two_processes)
    ]
    assert_same(*shared)


def test_the_number_of_trials_ends_a_search_and_does_not_change_it(alone: FitSearchResult) -> None:
    fewer = smallest(PROBLEM, options=replace(OPTIONS, trials=9, workers=4))
    assert trials_of(fewer) == trials_of(alone)[:9]
    split = best_split(PROBLEM, key_budget=12, options=FitOptions(seed=0, trials=2, workers=3))
    assert len(split.trials) == 2


def test_the_time_limit_only_cuts_the_sequence_off(alone: FitSearchResult) -> None:
    """All trials but those that ran when the time was up are those of a search without a time limit."""
    limit = alone.seconds / 3
    short = smallest(PROBLEM, options=replace(OPTIONS, trials=None, time_limit=limit, workers=2))
    whole = sum(1 for _ in takewhile(lambda trial: trial.seconds < limit, short.trials))
    assert whole > 0
    assert trials_of(short)[:whole] == trials_of(alone)[:whole]


def test_results_are_taken_in_their_order_whatever_ends_first(alone: FitSearchResult) -> None:
    delays = iter([0.3, 0.0, 0.2, 0.0, 0.1])

    class Delaying(ThreadPoolExecutor):
        def submit(self, work: Any, /, *args: Any, **options: Any) -> Future[Any]:
            delay = next(delays, 0.0)

            def late() -> Any:
                time.sleep(delay)
                return work(*args)

            return super().submit(late)

    with Delaying(4) as executor:
        crew = Workers(lambda: executor, 4, together=False)
        assert_same(alone, smallest(PROBLEM, options=replace(OPTIONS, workers=crew)))


def test_a_copy_of_an_order_goes_on_on_its_own() -> None:
    space = ShapeSpace(PROBLEM.graph, 16)
    orders: list[TrialOrder] = [DownwardOrder(space, 0), SplitOrder(space, 0, key_budget=12)]
    for order in orders:
        first = order.next()
        ahead = order.copy()
        foreseen = [ahead.next() for _ in range(12)]
        plans = [order.next() for _ in range(12)]
        assert [plan and plan.key for plan in foreseen] == [plan and plan.key for plan in plans]
        keys = [plan.key for plan in (first, *plans) if plan]
        assert len(set(keys)) == len(keys)  # no trial is made twice: a second one of a shape has another seed


class KillsOnce(ProcessPoolExecutor):
    """Processes, of which the first `deaths` that get a third trial are killed in the middle of it."""

    deaths = 1
    sent = 0

    def submit(self, work: Any, /, *args: Any, **options: Any) -> Future[Any]:
        type(self).sent += 1
        future = super().submit(work, *args, **options)
        if type(self).sent >= 3 and type(self).deaths:
            type(self).deaths -= 1
            time.sleep(0.02)
            os.kill(next(iter(self._processes)), signal.SIGKILL)
        return future


def test_a_trial_whose_worker_was_killed_is_made_again(alone: FitSearchResult) -> None:
    KillsOnce.deaths, KillsOnce.sent = 1, 0
    made: list[KillsOnce] = []

    def make() -> KillsOnce:
        made.append(KillsOnce(2, mp_context=get_context("spawn")))
        return made[-1]

    with Workers(make, 2, together=True) as workers:
        assert_same(alone, smallest(PROBLEM, options=replace(OPTIONS, workers=workers)))
    assert len(made) == 2
    assert KillsOnce.deaths == 0


def test_a_trial_that_kills_every_worker_ends_the_search_in_a_sentence() -> None:
    KillsOnce.deaths, KillsOnce.sent = 100, 3

    with (
        Workers(lambda: KillsOnce(1, mp_context=get_context("spawn")), 1, together=True) as workers,
        pytest.raises(InputError, match=rf"{TRIES} times a worker died while the trial of \d+ × \d+ ran"),
    ):
        smallest(PROBLEM, options=replace(OPTIONS, workers=workers))


def test_an_exception_in_progress_ends_the_search() -> None:
    class EnoughError(Exception):
        pass

    def stop(progress: FitProgress) -> None:
        raise EnoughError

    clock = time.monotonic()
    with pytest.raises(EnoughError):
        smallest(PROBLEM, options=FitOptions(seed=0, time_limit=20.0, workers=2, progress=stop))
    assert time.monotonic() - clock < 5


def test_a_trial_that_is_no_longer_wanted_ends_soon() -> None:
    """With many workers most trials run ahead. After the last trial they are told to end."""
    problem = Problem(permutation_graph(600, seed=0), gaussian(600, 16, seed=1))  # a trial takes seconds
    clock = time.monotonic()
    with threads(6) as workers:
        found = smallest(problem, options=FitOptions(seed=0, time_limit=1.0, workers=workers))
    assert found.trials
    assert time.monotonic() - clock < 6


def test_workers_of_one_shape_are_a_number() -> None:
    with threads(1) as workers, pytest.raises(InputError, match="give a number of workers"):
        fit(PROBLEM, heads=3, key_width=4, options=FitOptions(workers=workers))
    for wrong in (0, 1.5, "two"):
        with pytest.raises(Exception, match="workers"):  # the type checker of the tests may come first
            FitOptions(workers=wrong)  # type: ignore[arg-type]
    with pytest.raises(InputError, match="trials is a whole number from 1"):
        FitOptions(trials=0)


INTERRUPTED = """
    import sys
    from dataclasses import replace
    from manyheads import Problem, gaussian, permutation_graph
    from manyheads.fitting import FitOptions, smallest
    from manyheads.sweep import processes, threads

    if __name__ == "__main__":
        make = processes if sys.argv[1] == "processes" else threads
        problem = Problem(permutation_graph(1500, seed=0), gaussian(1500, 24, seed=1))
        small = Problem(permutation_graph(32, seed=0), gaussian(32, 16, seed=1))
        with make(2) as workers:
            smallest(small, options=FitOptions(seed=0, trials=2, workers=workers))
            print("begun", flush=True)
            smallest(problem, options=FitOptions(seed=0, time_limit=600.0, workers=workers))
"""


@pytest.mark.parametrize("workers", ["threads", "processes"])
def test_ctrl_c_ends_a_search_quickly(tmp_path: Path, workers: str) -> None:
    script = tmp_path / "script.py"
    script.write_text(textwrap.dedent(INTERRUPTED))
    with subprocess.Popen(
        [sys.executable, str(script), workers], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
        start_new_session=True, preexec_fn=lambda: signal.signal(signal.SIGINT, signal.default_int_handler) and None,
    ) as child:  # fmt: skip
        try:
            assert child.stdout is not None
            assert child.stdout.readline() == "begun\n"
            time.sleep(0.5)
            clock = time.monotonic()
            os.killpg(child.pid, signal.SIGINT)  # as a terminal does: to the workers, too
            said = child.communicate(timeout=15)[1]
            took = time.monotonic() - clock
        finally:
            with suppress(ProcessLookupError):
                os.killpg(child.pid, signal.SIGKILL)
    assert took < 4
    assert said.strip().endswith("KeyboardInterrupt")
