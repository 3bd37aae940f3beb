"""One machine drives what a store promises: kills, resumes, orders, workers and second writers in any sequence."""

from __future__ import annotations

import json
import tempfile
from pathlib import Path

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule
from support.sabotage import Killer, essence, tiny

from manyheads import InputError
from manyheads.identity import fields_id
from manyheads.sweep import Store, sweep, threads

SEEDS = range(16)
seeds = st.lists(st.sampled_from(SEEDS), min_size=1, unique=True)


def uninterrupted() -> dict[str, dict[str, object]]:
    """What every run has to come to, from one sweep that nothing disturbs."""
    with tempfile.TemporaryDirectory() as directory, Store.write(Path(directory) / "s.db") as store:
        return {record.id: essence(record) for record in sweep(tiny(SEEDS), store, workers=threads(1))}


class Stored(RuleBasedStateMachine):
    """Promises 1 to 5 and 8."""

    expected: dict[str, dict[str, object]] = {}  # noqa: RUF012
    killer: Killer

    @initialize()
    def begin(self) -> None:
        type(self).expected = self.expected or uninterrupted()
        self.directory = tempfile.TemporaryDirectory()
        self.path = Path(self.directory.name) / "s.db"
        self.committed: set[str] = set()

    @rule(seeds=seeds, workers=st.integers(1, 3))
    def run(self, seeds: list[int], workers: int) -> None:
        """Any runs in any order on any number of workers: afterwards exactly the missing ones were trained."""
        trained: list[str] = []
        with Store.write(self.path) as store:
            sweep(
                tiny(seeds),
                store,
                workers=threads(workers),
                progress=lambda progress: trained.extend(record.id for record in progress.latest),
            )
        wanted = {run.id for run in tiny(seeds)}
        assert sorted(trained) == sorted(wanted - self.committed)
        self.committed |= wanted

    @rule(seeds=seeds, workers=st.integers(1, 3), delay=st.floats(0, 0.03))
    def kill(self, seeds: list[int], workers: int, delay: float) -> None:
        """A sweep killed at any moment may have got on, but nothing is lost."""
        self.killer.sweep(self.path, seeds, workers, delay)
        if self.path.exists():
            with Store.read(self.path) as store:
                now = {record.id for record in store.records()}
            assert self.committed <= now <= self.committed | {run.id for run in tiny(seeds)}
            self.committed = now

    @rule()
    def second_writer(self) -> None:
        """While one writes, another is told by whom."""
        with Store.write(self.path), pytest.raises(InputError, match="is being written by process"):
            Store.write(self.path)

    @precondition(lambda self: self.path.exists())
    @invariant()
    def whole_and_right(self) -> None:
        """Every row is whole, is what an uninterrupted sweep finds, and is there once."""
        with Store.read(self.path) as store:
            assert store._connection.execute("PRAGMA integrity_check").fetchone() == ("ok",)
            records = store.records()
        assert len({record.id for record in records}) == len(records)
        for record in records:
            assert fields_id(record.run) == record.id
            assert json.loads(record.curve)
            assert essence(record) == self.expected[record.id]

    def teardown(self) -> None:
        """Whatever happened before: what is missing is made up for."""
        if hasattr(self, "path"):
            self.run(list(SEEDS), 2)
            self.whole_and_right()
            self.directory.cleanup()


def test_the_stores_promises() -> None:
    Stored.killer = Killer()
    try:
        Stored.TestCase.settings = settings(max_examples=15, stateful_step_count=8, deadline=None)
        Stored.TestCase().runTest()
    finally:
        Stored.killer.close()
