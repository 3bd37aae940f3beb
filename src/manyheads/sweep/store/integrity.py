"""The schema of a store, and the proof that its rows are as they were written."""

from __future__ import annotations

import hashlib
import json
import math
import re
import sqlite3
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import cache
from typing import Any, get_args

from manyheads.sweep.store.record import COLUMNS, Status, run_fault
from manyheads.text import shown_text

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
    # rows that could not be proved, as they were found: no type, because the damage can have changed it
    f"CREATE TABLE damaged (found TEXT NOT NULL, reason TEXT NOT NULL, {', '.join(COLUMNS)}, checksum);",
    # checksum: 16 hexadecimal digits of the BLAKE2b of all other columns that are not computed, see `row_checksum`
    "ALTER TABLE results ADD COLUMN checksum TEXT NOT NULL DEFAULT '';",
)

VERSION = len(MIGRATIONS)
CHECKSUMS_SINCE = 4  # the schema version
FROM_RUN = ("items", "d_model", "heads", "key_width", "seed", "graph", "degree", "embedding", "rule", "objective")
FROM_SCORES = ("micro_f1", "mse", "exact_errors", "margin")
COMPUTED = (*FROM_RUN, *FROM_SCORES)
OWN = ("results", "results_by_problem", "damaged")  # tables and indexes of a store
OTHER_SCHEMA = "the definition of its tables is not that of a store"
OTHER_ID = "its id is not the hash of its run"
MOST_FAULTS = 20  # sentences of SQLite's own check

# The values that a score can have; any other score is a finite number.
SCORE_RANGES: Mapping[str, tuple[float, float]] = {
    **dict.fromkeys(("micro_f1", "accuracy", "null_rate", "best_validation"), (0.0, 1.0)),
    **dict.fromkeys(("mse", "nmse", "training_nmse", "exact_errors", "best_step"), (0.0, math.inf)),
}


@dataclass(frozen=True)
class DamagedRow:
    """A row that is not as it was written.

    Attributes:
        id: The id that the row has now; the damage can be in the id itself.
        engine: The engine that the row has now.
        reason: The first check that failed.
    """

    id: str
    engine: str
    reason: str

    def __str__(self) -> str:
        return f"{self.id} ({self.reason})"


def row_checksum(values: Sequence[object]) -> str:
    """The checksum of a row.

    Args:
        values: The values in the order of COLUMNS, run and scores as JSON text.

    Returns:
        16 hexadecimal digits.
    """
    # text is a bytearray where `_rows` has read it, a str where it is about to be written
    parts = [
        value if type(value) is bytearray else value.encode() if type(value) is str else repr(value).encode()
        for value in values
    ]
    return hashlib.blake2b(b"\0".join(parts), digest_size=8).hexdigest()


def score_fault(scores: object) -> str | None:
    """What is wrong with the scores of a row; None if nothing is."""
    if not isinstance(scores, dict):
        return "its scores have no names"
    for name, score in scores.items():
        low, high = SCORE_RANGES.get(name, (-math.inf, math.inf))
        if score is None:
            continue
        if not isinstance(score, (int, float)) or isinstance(score, bool) or not math.isfinite(score):
            return f"its score {name} is not a finite number"
        if not low <= score <= high:
            return f"its score {name} is {score:g}, outside {low:g} to {high:g}"
    return None


def row_fault(row: Sequence[Any]) -> str | None:
    """What is wrong with a row, the checksum aside; None if nothing is.

    Args:
        row: The values in the order of COLUMNS, run and scores as JSON text.
    """
    values = dict(zip(COLUMNS, row, strict=True))
    try:
        text: dict[str, Any] = {
            name: value.decode() if isinstance(value, bytearray) else value for name, value in values.items()
        }
        if hashlib.sha256(text["run"].encode()).hexdigest()[:16] != text["id"]:
            return OTHER_ID
        if text["status"] not in get_args(Status):
            return "its status is unknown"
        if not (_is_count(text["steps"], 0) and _is_count(text["attempts"], 1) and (text["seconds"] or 0.0) >= 0):
            return "its steps, seconds or attempts are out of their range"
        if not isinstance(json.loads(text["curve"]), list):
            return "its curve is not a list"
        _check_facts(text["machine"])
        return run_fault(text["kind"], json.loads(text["run"])) or score_fault(json.loads(text["scores"]))
    except (ValueError, TypeError, AttributeError, RecursionError):
        return "a column is not of its type"


def _is_count(value: object, least: int) -> bool:
    return value is None or (isinstance(value, int) and value >= least)


@cache  # all rows of a process have the same facts
def _check_facts(text: str) -> None:
    facts = json.loads(text)
    if not isinstance(facts, dict) or not all(isinstance(fact, str) for fact in facts.values()):
        raise TypeError("the facts of a machine are words")


def upgrade(connection: sqlite3.Connection) -> int | None:
    """Run the missing migrations and add the missing checksums, all in one transaction.

    Returns:
        The version before; None if nothing was to do.

    Raises:
        sqlite3.Error: The store has SQL of others that would run with each row.
    """
    if not _schema(connection).keys() <= set(OWN):
        raise sqlite3.DatabaseError(OTHER_SCHEMA)
    (version,) = connection.execute("PRAGMA user_version").fetchone()
    if version >= VERSION:
        return None
    connection.execute("BEGIN IMMEDIATE")
    try:
        for migration in MIGRATIONS[version:]:
            connection.execute(migration)
        if version < CHECKSUMS_SINCE:
            rows = [(row_checksum(row), rowid) for rowid, row, _, _ in _rows(connection)]
            connection.executemany("UPDATE results SET checksum = ? WHERE rowid = ?", rows)
        connection.execute(f"PRAGMA application_id = {APPLICATION_ID}")
        connection.execute(f"PRAGMA user_version = {VERSION}")
        connection.execute("COMMIT")
    except BaseException:
        if connection.in_transaction:
            connection.execute("ROLLBACK")
        raise
    return int(version)


@dataclass(frozen=True)
class Findings:
    """What a check of a whole store found.

    Attributes:
        rows: How many results there are, damaged ones included.
        damaged: By row number, the rows that could not be proved.
        faults: What SQLite says about the structure of the file; empty if all is well.
    """

    rows: int
    damaged: Mapping[int, DamagedRow]
    faults: tuple[str, ...]

    @property
    def is_sound(self) -> bool:
        """Whether nothing is wrong."""
        return not self.damaged and not self.faults


def examine(connection: sqlite3.Connection, *, thorough: bool = False) -> Findings:
    """Check the structure of a store, its schema, and every row.

    Args:
        connection: To the store.
        thorough: Whether to check also what the checksums prove already, and the columns that SQLite computes. The
            latter have two copies, in the table and in an index: if SQLite finds that they differ, this is done too.

    Raises:
        sqlite3.Error: The file is too damaged to be read.
    """
    if _schema(connection) != _own_schema():  # first: the check itself computes what the indexes of others define
        raise sqlite3.DatabaseError(OTHER_SCHEMA)
    found = (row[0] for row in connection.execute(f"PRAGMA integrity_check({MOST_FAULTS})"))
    faults = [str(fault) for fault in found if fault != "ok"]
    thorough = thorough or bool(faults)
    id_place, run_place, scores_place = map(COLUMNS.index, ("id", "run", "scores"))
    rows, damaged = 0, dict[int, DamagedRow]()
    for rowid, row, computed, checksum in _rows(connection, full=thorough):
        rows += 1
        reason = None
        if row_checksum(row).encode() != checksum:
            reason = "its checksum differs"
        elif thorough:
            reason = row_fault(row) or computed_fault(row, computed)
        elif hashlib.sha256(row[run_place]).hexdigest()[:16].encode() != row[id_place]:
            reason = OTHER_ID
        elif score_fault(_parse(row[scores_place])) is not None:
            reason = row_fault(row)
        if reason is not None:
            own = dict(zip(COLUMNS, row, strict=True))
            damaged[rowid] = DamagedRow(_word(own["id"]), _word(own["engine"]), reason)
    return Findings(rows, damaged, tuple(faults))


def repair(connection: sqlite3.Connection, found: Findings) -> None:
    """Set damaged rows aside, into the table `damaged`, and rebuild the indexes; all or nothing.

    Raises:
        sqlite3.Error: The damage is not in single rows or indexes alone.
    """
    names = ", ".join((*COLUMNS, "checksum"))
    connection.execute("BEGIN IMMEDIATE")
    try:
        if found.faults:
            connection.execute("REINDEX")  # first: a row that its index does not have cannot be deleted
        now = datetime.now(UTC).isoformat(timespec="seconds")
        for rowid, row in found.damaged.items():
            copy = f"INSERT INTO damaged (found, reason, {names}) SELECT ?, ?, {names} FROM results WHERE rowid = ?"
            connection.execute(copy, (now, row.reason, rowid))
            connection.execute("DELETE FROM results WHERE rowid = ?", (rowid,))
        left = examine(connection)
        if not left.is_sound:
            raise sqlite3.DatabaseError(left.faults[0] if left.faults else "rows stay damaged")
        connection.execute("COMMIT")
    except BaseException:
        if connection.in_transaction:
            connection.execute("ROLLBACK")
        raise


Values = Sequence[Any]


def _rows(connection: sqlite3.Connection, *, full: bool = False) -> Iterable[tuple[int, Values, Values, bytearray]]:
    """Every result: row number, COLUMNS, COMPUTED if `full`, checksum.

    Text is a bytearray: damaged text is not always UTF-8, and a blob in the place of a text is bytes.
    """
    before, connection.text_factory = connection.text_factory, bytearray
    # NOT INDEXED: an index can be damaged, too
    columns = (*COLUMNS, *COMPUTED) if full else COLUMNS
    query = f"SELECT rowid, checksum, {', '.join(columns)} FROM results NOT INDEXED"
    try:
        for rowid, checksum, *values in connection.execute(query):
            yield rowid, values[: len(COLUMNS)], values[len(COLUMNS) :], checksum
    finally:
        connection.text_factory = before


def computed_fault(row: Values, computed: Values) -> str | None:
    """What is wrong with the columns that SQLite computed from run and scores; None if nothing is."""
    own = dict(zip(COLUMNS, row, strict=True))
    run, scores = json.loads(own["run"]), json.loads(own["scores"])
    expected = [*map(run.get, FROM_RUN), *map(scores.get, FROM_SCORES)]
    return None if all(map(_is_equal, computed, expected)) else "a column that SQLite computed is not as it was"


def _is_equal(found: object, expected: object) -> bool:
    if isinstance(found, bytearray):
        return isinstance(expected, (list, dict)) or found == str(expected).encode()
    if isinstance(found, (int, float)) and isinstance(expected, (int, float)):
        return math.isclose(found, expected, rel_tol=1e-12)  # SQLite reads decimal numbers with a small error
    return found is expected


def _parse(text: bytearray) -> object:
    try:
        return json.loads(text.decode())  # without it, json looks for the encoding
    except (ValueError, RecursionError):
        return None


def _word(value: object) -> str:
    """Text for a message, also of bytes that are no text."""
    return shown_text(value.decode(errors="replace") if isinstance(value, (bytes, bytearray)) else value, most=60)


def _schema(connection: sqlite3.Connection) -> dict[str, str]:
    """The definitions of a store's tables, and of the indexes and triggers on them, without comments and spaces."""
    query = "SELECT name, sql FROM sqlite_schema WHERE (name IN (?, ?, ?) OR tbl_name IN (?, ?, ?)) AND sql NOT NULL"
    return {name: re.sub(r"--[^\n]*|\s", "", sql) for name, sql in connection.execute(query, OWN * 2)}


@cache
def _own_schema() -> dict[str, str]:
    connection = sqlite3.connect(":memory:", isolation_level=None)
    upgrade(connection)
    schema = _schema(connection)
    connection.close()
    return schema
