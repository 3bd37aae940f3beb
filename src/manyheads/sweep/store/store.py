"""Store: one SQLite file that keeps every result, its schema, and the lock that lets one process write at a time."""

from __future__ import annotations

import fcntl
import json
import os
import platform
import sqlite3
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from types import TracebackType

from manyheads.errors import InputError, path_of
from manyheads.sweep.store.record import COLUMNS, FINISHED, Record

APPLICATION_ID = 0x6D686472  # "mhdr" in the file's header: this SQLite file is a manyheads store

# SQLite itself computes the columns that plain SQL filters by from the JSON of run and scores: the two agree always.
MIGRATIONS: tuple[str, ...] = (
    """
    CREATE TABLE results (
        id           TEXT NOT NULL,     -- 16 hexadecimal digits of the SHA-256 of `run`
        kind         TEXT NOT NULL,     -- layer, block, retrieval, or a kind of trial
        engine       TEXT NOT NULL,     -- native, reference, folded-DEVICE or python
        status       TEXT NOT NULL,     -- converged, limit, diverged, timeout, cancelled, failed, quarantined
        run          TEXT NOT NULL,     -- JSON: every field of the run, defaults resolved
        scores       TEXT NOT NULL,     -- JSON: the scores by name; null where one could not be measured
        items        INTEGER GENERATED ALWAYS AS (json_extract(run, '$.items')) STORED,
        d_model      INTEGER GENERATED ALWAYS AS (json_extract(run, '$.d_model')) STORED,
        heads        INTEGER GENERATED ALWAYS AS (json_extract(run, '$.heads')) STORED,
        key_width    INTEGER GENERATED ALWAYS AS (json_extract(run, '$.key_width')) STORED,
        key_budget   INTEGER GENERATED ALWAYS AS (heads * key_width) STORED,
        seed         INTEGER GENERATED ALWAYS AS (json_extract(run, '$.seed')) STORED,
        graph        TEXT GENERATED ALWAYS AS (json_extract(run, '$.graph')) STORED,
        degree       INTEGER GENERATED ALWAYS AS (json_extract(run, '$.degree')) STORED,
        embedding    TEXT GENERATED ALWAYS AS (json_extract(run, '$.embedding')) STORED,
        rule         TEXT GENERATED ALWAYS AS (json_extract(run, '$.rule')) STORED,
        objective    TEXT GENERATED ALWAYS AS (json_extract(run, '$.objective')) STORED,
        micro_f1     REAL GENERATED ALWAYS AS (json_extract(scores, '$.micro_f1')) STORED,         -- on the test set
        mse          REAL GENERATED ALWAYS AS (json_extract(scores, '$.mse')) STORED,              -- value channel
        exact_errors INTEGER GENERATED ALWAYS AS (json_extract(scores, '$.exact_errors')) STORED,  -- among all items²
        margin       REAL GENERATED ALWAYS AS (json_extract(scores, '$.margin')) STORED,           -- the certificate's
        steps        INTEGER,           -- optimiser steps made
        seconds      REAL,              -- wall time of the run
        error        TEXT,              -- the reason, if the run failed
        attempts     INTEGER NOT NULL,  -- how often the run was started
        version      TEXT NOT NULL,     -- of manyheads
        machine      TEXT NOT NULL,     -- JSON: processor, cores, system, compiler, versions
        recorded     TEXT NOT NULL,     -- UTC, ISO 8601
        curve        TEXT NOT NULL,     -- JSON: the validation checks, [step, score, loss] each
        PRIMARY KEY (id, engine)
    ) STRICT;
    """,
    # everything that results are filtered and ordered by, so that neither reads the rows themselves
    """
    CREATE INDEX results_by_problem ON results (
        items, d_model, graph, degree, rule, heads, key_width, seed, engine, status, kind, key_budget
    );
    """,
)

VERSION = len(MIGRATIONS)


@dataclass(frozen=True)
class WriterLock:
    """An open, locked file beside the store; its text names the holder."""

    descriptor: int

    @classmethod
    def acquire(cls, store: Path) -> WriterLock:
        """Take the lock.

        Raises:
            InputError: Another process has the lock; the message names it.
        """
        path = store.with_name(store.name + ".lock")
        try:
            descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
        except OSError as error:
            raise InputError(f"the store {store} cannot be written: {error.strerror}") from None
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            holder = _holder(descriptor)
            os.close(descriptor)
            raise InputError(f"the store {store} is being written by {holder}: wait for it or stop it") from None
        os.ftruncate(descriptor, 0)
        note = {"pid": os.getpid(), "host": platform.node(), "since": datetime.now(UTC).isoformat(timespec="seconds")}
        os.pwrite(descriptor, json.dumps(note).encode(), 0)
        return cls(descriptor)

    def release(self) -> None:
        """Release the lock. The file stays: a next writer may have opened it already."""
        os.close(self.descriptor)


def _holder(descriptor: int) -> str:
    try:
        note = json.loads(os.pread(descriptor, 4096, 0))
        return f"process {note['pid']} on {note['host']} since {note['since']}"
    except (ValueError, KeyError, TypeError):  # the holder has just started and not yet written its name
        return "another process"


SQLITE_HEADER = b"SQLite format 3\0"
PATIENCE = 60.0  # seconds that a writer waits for readers, and a reader for the writer
FILTERS = (
    "kind",
    "items",
    "d_model",
    "heads",
    "key_width",
    "key_budget",
    "seed",
    "graph",
    "degree",
    "rule",
    "status",
    "engine",
)


class StoreError(InputError):
    """The store cannot be used; its file is unchanged."""


class Store:
    """Results by run and engine. Open it with `Store.write` (one at a time) or `Store.read` (any number)."""

    def __init__(self, path: Path, connection: sqlite3.Connection, lock: WriterLock | None) -> None:
        self.path = path
        self._connection = connection
        self._lock = lock

    @classmethod
    def write(cls, path: str | Path) -> Store:
        """Open a store for writing. The file is created if it does not exist, and upgraded if it is older.

        Args:
            path: The file.

        Returns:
            The store, locked for this process.

        Raises:
            StoreError: The file is no store, is newer than this software, or another process writes to it.
        """
        path = path_of(path)
        if path.exists():
            _version(path)
        lock = WriterLock.acquire(path)
        try:
            with _reported(path):
                connection = sqlite3.connect(path, timeout=PATIENCE, isolation_level=None)
                try:
                    connection.execute("PRAGMA journal_mode = DELETE")
                    connection.execute("PRAGMA synchronous = FULL")
                    _upgrade(connection)
                except BaseException:
                    connection.close()
                    raise
        except BaseException:
            lock.release()
            raise
        return cls(path, connection, lock)

    @classmethod
    def temporary(cls) -> Store:
        """A store in memory. Its results are lost when it is closed."""
        # the sweep reads and writes from the thread that made it
        connection = sqlite3.connect(":memory:", isolation_level=None)
        _upgrade(connection)
        return cls(Path(":memory:"), connection, None)

    @classmethod
    def read(cls, path: str | Path) -> Store:
        """Open a store for reading only. An older store is upgraded in memory; its file does not change.

        Args:
            path: The file.

        Returns:
            The store.

        Raises:
            StoreError: There is no such file, or it is no store.
        """
        path = path_of(path)
        if not path.exists():
            raise StoreError(f"there is no store at {path}")
        version = _version(path)
        with _reported(path):
            # not mode=ro: only a connection that may write can undo the unfinished work of a killed writer
            uri = f"{path.resolve().as_uri()}?mode=rw"
            connection = sqlite3.connect(uri, uri=True, timeout=PATIENCE, isolation_level=None)
            if version < VERSION:
                copy = sqlite3.connect(":memory:", isolation_level=None)
                connection.backup(copy)
                connection.close()
                connection = copy
                _upgrade(connection)
            connection.execute("PRAGMA query_only = ON")
        return cls(path, connection, None)

    def add(self, records: Iterable[Record]) -> None:
        """Store these records, all or none, and return when they are on the disk.

        A finished result is final: storing it again changes nothing. Any other record is replaced by a newer one.

        Args:
            records: The records.
        """
        places = ", ".join("?" for _ in COLUMNS)
        updates = ", ".join(f"{name} = excluded.{name}" for name in COLUMNS if name not in ("id", "engine"))
        finished = ", ".join(f"'{status}'" for status in sorted(FINISHED))
        statement = (
            f"INSERT INTO results ({', '.join(COLUMNS)}) VALUES ({places}) "
            f"ON CONFLICT (id, engine) DO UPDATE SET {updates} WHERE results.status NOT IN ({finished})"
        )
        rows = [record.columns() for record in records]
        with _reported(self.path), self._transaction():
            self._connection.executemany(statement, rows)

    def records(
        self, where: Mapping[str, str | int] | None = None, *, ids: Sequence[str] | None = None, limit: int = -1
    ) -> list[Record]:
        """The records that match, in the order of their problem and shape.

        Args:
            where: Values of columns, e.g. {"items": 64, "heads": 4}; None: all records.
            ids: Ids of runs; None: all runs.
            limit: The largest number of records; −1: no limit.

        Returns:
            The records.

        Raises:
            InputError: A column of `where` is unknown.
        """
        where = where or {}
        unknown = [name for name in where if name not in FILTERS]
        if unknown:
            raise InputError(f"cannot filter by '{unknown[0]}': choose from {', '.join(FILTERS)}")
        conditions = [f"{name} = ?" for name in where]
        values: list[str | int] = list(where.values())
        if ids is not None:
            conditions.append(_AMONG)
            values.append(json.dumps(ids))
        order = "items, d_model, graph, degree, rule, heads, key_width, seed, engine"
        # the index gives the rows in order; only then are they read
        chosen = f"SELECT rowid FROM results WHERE {' AND '.join(conditions) or '1'} ORDER BY {order} LIMIT ?"
        query = f"SELECT {', '.join(COLUMNS)} FROM results WHERE rowid IN ({chosen}) ORDER BY {order}"
        with _reported(self.path):
            return [Record.from_columns(row) for row in self._connection.execute(query, (*values, limit))]

    def counts(self) -> dict[str, int]:
        """The number of results of each status."""
        query = "SELECT status, count(*) FROM results GROUP BY status ORDER BY status"
        with _reported(self.path):
            return dict(self._connection.execute(query))

    def close(self) -> None:
        """Close the file and release the lock."""
        self._connection.close()
        if self._lock is not None:
            self._lock.release()

    def __enter__(self) -> Store:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    @contextmanager
    def _transaction(self) -> Iterator[None]:
        self._connection.execute("BEGIN IMMEDIATE")
        try:
            yield
            self._connection.execute("COMMIT")
        except BaseException:
            if self._connection.in_transaction:
                self._connection.execute("ROLLBACK")
            raise


_AMONG = "id IN (SELECT value FROM json_each(?))"  # any number of ids in one parameter


def _version(path: Path) -> int:
    """The schema version in the file's header; a sentence if it is not a store of ours.

    The bytes are read without SQLite: nothing changes, and a journal that a killed writer has left behind
    has no effect. An empty file is a store that was never written to.
    """
    if not path.is_file():  # a pipe would block
        raise StoreError(f"{path} is not a manyheads store")
    with _reported(path), path.open("rb") as file:
        header = file.read(100)
    if not header:
        return 0
    if len(header) < 100 or not header.startswith(SQLITE_HEADER):
        raise StoreError(f"{path} is not a manyheads store")
    version, application = (int.from_bytes(header[offset : offset + 4]) for offset in (60, 68))
    if application != APPLICATION_ID:
        raise StoreError(f"{path} is a database, but not a manyheads store")
    if version > VERSION:
        raise StoreError(
            f"{path} was written by a newer manyheads (schema {version}; this one knows {VERSION}): please upgrade"
        )
    return version


def _upgrade(connection: sqlite3.Connection) -> None:
    """Run the missing migrations, each with its version number in one transaction."""
    (version,) = connection.execute("PRAGMA user_version").fetchone()
    for number in range(version + 1, VERSION + 1):
        connection.execute("BEGIN IMMEDIATE")
        connection.execute(MIGRATIONS[number - 1])
        connection.execute(f"PRAGMA application_id = {APPLICATION_ID}")
        connection.execute(f"PRAGMA user_version = {number}")
        connection.execute("COMMIT")


@contextmanager
def _reported(path: Path) -> Iterator[None]:
    """Turn an error of SQLite or the disk into one sentence."""
    try:
        yield
    except sqlite3.Error as error:
        raise StoreError(f"the store {path} cannot be used: {error}") from error
    except OSError as error:
        raise StoreError(f"the store {path} cannot be used: {error.strerror}") from error
