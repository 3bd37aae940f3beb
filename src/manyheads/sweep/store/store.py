"""Store: one SQLite file that keeps every result."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType

from manyheads.errors import InputError, path_of
from manyheads.sweep.store.integrity import (
    APPLICATION_ID,
    VERSION,
    DamagedRow,
    Findings,
    examine,
    repair,
    row_checksum,
    row_fault,
    upgrade,
)
from manyheads.sweep.store.lock import WriterLock, refuse_foreign_journal
from manyheads.sweep.store.record import COLUMNS, FINISHED, Record

SQLITE_HEADER = b"SQLite format 3\0"
NAMED = 3  # damaged rows that a note names
PATIENCE = 60.0  # seconds that a writer waits for readers, and a reader for the writer
FILTERS = (
    "kind", "items", "d_model", "heads", "key_heads", "key_width", "key_budget", "seed", "graph", "degree", "rule",
    "status", "engine",
)  # fmt: skip
_KEY_HEADS = "coalesce(json_extract(run, '$.key_heads'), heads)"
_EXPRESSIONS = {"key_heads": _KEY_HEADS, "key_budget": f"{_KEY_HEADS} * key_width"}  # of filters that are no columns


class StoreError(InputError):
    """The store cannot be used; its file is unchanged."""


class DamagedStoreError(StoreError):
    """The file is a store, but so damaged that its rows cannot be told apart."""


@dataclass(frozen=True)
class StoreState:
    """What was found when a store was opened. Every opening checks SQLite's structure and proves every row.

    Attributes:
        rows: How many rows were proved.
        damaged: The rows that could not be proved. They are no results: a sweep trains their runs again.
        faults: What SQLite said about the structure of the file; the indexes were rebuilt.
        before: The schema version of an older store that was brought up to date; None for a current store.
    """

    rows: int = 0
    damaged: tuple[DamagedRow, ...] = ()
    faults: tuple[str, ...] = ()
    before: int | None = None

    @property
    def notes(self) -> list[str]:
        """A sentence for everything that a user should know."""
        notes = []
        if self.before:
            notes.append(
                f"the store was of schema {self.before}: it was brought up to {VERSION}, with a checksum a row"
            )
        if self.faults:
            notes.append(f"the file was damaged ({self.faults[0]}); the rows that are used are proved")
        if self.damaged:
            few, more = self.damaged[:NAMED], len(self.damaged) - NAMED
            names = ", ".join(map(str, few)) + (f" and {more} more" if more > 0 else "")
            notes.append(f"damaged rows, set aside and not counted: {names}; their runs are trained again")
        return notes


class Store:
    """Results by run and engine. Open it with `Store.write` (one at a time) or `Store.read` (any number).

    Attributes:
        path: The file.
        state: What was found when it was opened.
    """

    def __init__(
        self, path: Path, connection: sqlite3.Connection, lock: WriterLock | None, state: StoreState | None = None
    ) -> None:
        self.path = path
        self.state = state or StoreState()
        self._connection = connection
        self._lock = lock

    @classmethod
    def write(cls, path: str | Path) -> Store:
        """Open a store for writing. The file is created if it does not exist, and upgraded if it is older.

        Rows that are not as they were written are set aside, into the table `damaged`.

        Args:
            path: The file.

        Returns:
            The store, locked for this process.

        Raises:
            InputError: The file is no store, is newer than this software, cannot be written, or is too damaged to be
                repaired; or another process writes to it.
        """
        path = path_of(path)
        with _reported(path):
            exists = path.exists()
        if exists:
            _version(path)
        refuse_foreign_journal(path)
        lock = WriterLock.acquire(path)
        try:
            with _reported(path):
                connection = sqlite3.connect(path, timeout=PATIENCE, isolation_level=None)
                try:
                    connection.execute("PRAGMA journal_mode = DELETE")
                    connection.execute("PRAGMA synchronous = FULL")
                    lock.check_same()
                    before = upgrade(connection)
                    found = examine(connection, thorough=before is not None)
                    if not found.is_sound:
                        repair(connection, found)
                except BaseException:
                    connection.close()
                    raise
        except BaseException:
            lock.abandon()
            raise
        return cls(path, connection, lock, _state(found, before))

    @classmethod
    def temporary(cls) -> Store:
        """A store in memory. Its results are lost when it is closed."""
        # the sweep reads and writes from the thread that made it
        connection = sqlite3.connect(":memory:", isolation_level=None)
        upgrade(connection)
        return cls(Path(":memory:"), connection, None)

    @classmethod
    def read(cls, path: str | Path, *, thorough: bool = False) -> Store:
        """Open a store for reading only. Its file does not change.

        An older store is upgraded, and damaged rows are set aside, in a temporary copy.

        Args:
            path: The file.
            thorough: Whether to check also what the checksums prove already, and the columns that SQLite computes.

        Returns:
            The store.

        Raises:
            StoreError: There is no such file, or it is no store, or it is too damaged to be read.
        """
        path = path_of(path)
        with _reported(path):
            if not path.exists():
                raise StoreError(f"there is no store at {path}")
        _version(path)
        refuse_foreign_journal(path)
        with _reported(path):
            # not mode=ro: only a connection that may write can undo the unfinished work of a killed writer
            uri = f"{path.resolve().as_uri()}?mode=rw"
            connection = sqlite3.connect(uri, uri=True, timeout=PATIENCE, isolation_level=None)
            try:
                before = None
                # not the version in the header: a writer that was killed while it made the store is undone only now
                if connection.execute("PRAGMA user_version").fetchone() < (VERSION,):
                    connection = _copy(connection)
                    before = upgrade(connection)
                found = examine(connection, thorough=thorough or before is not None)
                if not found.is_sound:
                    connection = _copy(connection)
                    repair(connection, found)
                connection.execute("PRAGMA query_only = ON")
            except BaseException:
                connection.close()
                raise
        return cls(path, connection, None, _state(found, before))

    def add(self, records: Iterable[Record]) -> None:
        """Store these records, all or none, and return when they are on the disk.

        A finished result is final: storing it again changes nothing. Any other record is replaced by a newer one.

        Args:
            records: The records.

        Raises:
            StoreError: A score is out of its range, an id is not that of its run, or the store cannot be written.
        """
        names = (*COLUMNS, "checksum")
        places = ", ".join("?" for _ in names)
        updates = ", ".join(f"{name} = excluded.{name}" for name in names if name not in ("id", "engine"))
        finished = ", ".join(f"'{status}'" for status in sorted(FINISHED))
        statement = (
            f"INSERT INTO results ({', '.join(names)}) VALUES ({places}) "
            f"ON CONFLICT (id, engine) DO UPDATE SET {updates} WHERE results.status NOT IN ({finished})"
        )
        rows = [record.columns() for record in records]
        for row in rows:
            if (fault := row_fault(row)) is not None:
                raise StoreError(f"the result of the run {row[0]} cannot be stored: {fault}")
        with _reported(self.path), self._transaction():
            self._connection.executemany(statement, [(*row, row_checksum(row)) for row in rows])

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
            InputError: A column of `where` is unknown, or a run is none although its checksum is right.
        """
        where = where or {}
        unknown = [name for name in where if name not in FILTERS]
        if unknown:
            raise InputError(f"cannot filter by '{unknown[0]}': choose from {', '.join(FILTERS)}")
        conditions = [f"{_EXPRESSIONS.get(name, name)} = ?" for name in where]
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

    def set_aside(self) -> int:
        """How many damaged rows the store keeps in its table `damaged`."""
        with _reported(self.path):
            (count,) = self._connection.execute("SELECT count(*) FROM damaged").fetchone()
        return int(count)

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


def _state(found: Findings, before: int | None) -> StoreState:
    damaged = tuple(found.damaged.values())
    return StoreState(found.rows - len(damaged), damaged, found.faults, before)


def _copy(connection: sqlite3.Connection) -> sqlite3.Connection:
    """A temporary copy, gone once it is closed; the given connection is closed."""
    copy = sqlite3.connect("", isolation_level=None)
    try:
        connection.backup(copy)
    finally:
        connection.close()
    return copy


@contextmanager
def _reported(path: Path) -> Iterator[None]:
    """Turn an error of SQLite or the disk into one sentence."""
    try:
        yield
    except sqlite3.OperationalError as error:  # locked, read-only, disk full
        raise StoreError(f"the store {path} cannot be used: {error}") from error
    except sqlite3.Error as error:
        raise DamagedStoreError(f"the store {path} cannot be used: {error}") from error
    except OSError as error:
        raise StoreError(f"the store {path} cannot be used: {error.strerror}") from error
    except UnicodeError as error:  # the schema, or a message of SQLite about it, is no text
        raise DamagedStoreError(f"the store {path} cannot be used: its schema is damaged") from error
    except OverflowError as error:
        raise StoreError(f"the store {path} holds no number as large as that") from error
