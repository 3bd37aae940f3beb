"""Rows: the results of finished runs by the ids of the runs, from a store or from one compact file."""

from __future__ import annotations

import dataclasses
import gzip
import hashlib
import json
import os
from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from io import BytesIO
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from manyheads.errors import InputError
from manyheads.files.atomic_files import write_whole
from manyheads.files.door import exists, parse_json, reading, unpack_lines
from manyheads.sweep import Record, Store
from manyheads.sweep.store.integrity import score_fault
from manyheads.sweep.store.record import FINISHED, Storable
from manyheads.text import shown_text
from manyheads.training.protocol import PROTOCOL_VERSION

if TYPE_CHECKING:
    from manyheads.papers.threshold_search import SearchTrail, ThresholdSearch

FORMAT = "manyheads paper rows 2"
WITHOUT_CHECKSUM = "manyheads paper rows 1"  # files of earlier versions; still read
MOST_BYTES = 2**26  # the paper's own rows have 800,000 bytes
SEPARATOR = " / "  # between the values of several machines
M = TypeVar("M", bound=Storable)
T = TypeVar("T")


@dataclass(frozen=True)
class Row:
    """The result of one finished run.

    Attributes:
        id: The id of the run.
        kind: The kind of run, e.g. "layer".
        status: How the run ended.
        scores: The scores by name; None if a score was not measured.
        steps: Optimiser steps.
        seconds: Wall time.
    """

    id: str
    kind: str
    status: str
    scores: Mapping[str, float | int | None]
    steps: int
    seconds: float

    @classmethod
    def of(cls, record: Record) -> Row:
        """The row of a finished record of a store.

        Args:
            record: The record of a run that ended by itself or by a limit.

        Returns:
            The row.
        """
        return cls(record.id, record.kind, record.status, record.scores, record.steps or 0, record.seconds or 0.0)

    def score(self, name: str) -> float | int | None:
        """A score by its name.

        Args:
            name: The name, e.g. "micro_f1".

        Returns:
            The score; None if it was not measured.
        """
        return self.scores.get(name)


class Rows:
    """Finished runs by their ids, and the machines that made them. Rows do not change.

    Args:
        rows: one for each run; of two rows with the same id the later one counts.
        machine: facts about the machine, such as {"cpu": "AMD EPYC"}.
        failures: by the ids of runs that failed, the reasons. A failed run has no row.
    """

    def __init__(
        self,
        rows: Iterable[Row],
        *,
        machine: Mapping[str, str] | None = None,
        failures: Mapping[str, str] | None = None,
    ) -> None:
        self._by_id = {row.id: row for row in rows}
        self.machine = dict(machine or {})
        self.failures = {run_id: why for run_id, why in (failures or {}).items() if run_id not in self._by_id}
        # Searches that need no more rows. Additional rows do not change them, so each is followed once.
        self.finished_searches: dict[ThresholdSearch, SearchTrail] = {}
        self._results: dict[Hashable, Any] = {}

    def __contains__(self, run_id: str) -> bool:
        return run_id in self._by_id

    def __getitem__(self, run_id: str) -> Row:
        return self._by_id[run_id]

    def __len__(self) -> int:
        return len(self._by_id)

    def once(self, key: Hashable, compute: Callable[[], T]) -> T:
        """A result that follows from these rows alone: computed at the first call, remembered for all others.

        Args:
            key: names the result; equal keys have equal results.
            compute: makes the result.

        Returns:
            The result.
        """
        if key not in self._results:
            self._results[key] = compute()
        return self._results[key]

    def joined(self, others: Rows) -> Rows:
        """These rows and the others. If both have a row of one run, the others' row is kept.

        Args:
            others: Other rows.

        Returns:
            New rows.
        """
        machine = machines([self.machine, others.machine])
        failures = self.failures | others.failures
        both = Rows([*self._by_id.values(), *others._by_id.values()], machine=machine, failures=failures)
        both.finished_searches.update(self.finished_searches)
        return both

    def of(self, runs: Sequence[Storable]) -> list[Row]:
        """The rows of some runs, in the order of the runs.

        Args:
            runs: The runs.

        Returns:
            The rows; a run without a row is left out.
        """
        found = (self._by_id.get(run.id) for run in runs)
        return [row for row in found if row is not None]

    def have_all(self, runs: Sequence[Storable]) -> bool:
        """Whether every run has a row.

        Args:
            runs: The runs.

        Returns:
            True if none is missing.
        """
        return all(run.id in self._by_id for run in runs)

    def scores(self, runs: Sequence[M], name: str) -> list[tuple[M, float]]:
        """The runs that have a score of this name, each with the score. A diverged run has no score.

        Args:
            runs: The runs.
            name: The name of the score, e.g. "micro_f1".

        Returns:
            Pairs (run, score), in the order of the runs.
        """
        found = [(run, row.scores.get(name)) for run in runs if (row := self._by_id.get(run.id)) is not None]
        return [(run, float(value)) for run, value in found if value is not None]


def stored_rows(store: Store, runs: Sequence[Storable] | None = None) -> Rows:
    """The rows of a store.

    Args:
        store: an open store.
        runs: the runs to look for; None means all runs of the store.

    Returns:
        The rows of the finished runs among them.
    """
    ids = None if runs is None else [run.id for run in runs]
    found = store.records(ids=ids)
    records = [record for record in found if record.status in FINISHED]
    failures = {one.id: one.error or one.status for one in found if one.status in ("failed", "quarantined")}
    facts = dict.fromkeys(record.machine for record in records)
    return Rows(map(Row.of, records), machine=machines(map(json.loads, facts)), failures=failures)


def machines(each: Iterable[Mapping[str, str]]) -> dict[str, str]:
    """The facts of several machines in one mapping; different values of one fact are listed one after the other.

    >>> machines([{"cores": "2", "cpu": "AMD EPYC"}, {"cores": "2", "cpu": "Intel Xeon"}])
    {'cores': '2', 'cpu': 'AMD EPYC / Intel Xeon'}
    """
    facts: dict[str, dict[str, None]] = {}
    for machine in each:
        for name, value in machine.items():
            facts.setdefault(name, {}).update(dict.fromkeys(value.split(SEPARATOR)))
    return {name: SEPARATOR.join(values) for name, values in facts.items()}


def write_rows(path: Path, rows: Rows, runs: Sequence[Storable], *, force: bool = True) -> None:
    """Write the rows of these runs to a file, whole or not at all.

    Args:
        path: a file .jsonl.gz.
        rows: the rows.
        runs: the runs whose rows are written.
        force: whether an existing file is replaced.

    Raises:
        InputError: the file exists and `force` is off, or it cannot be written.
    """
    write_whole(path, pack_rows(rows, runs), force=force)


def pack_rows(rows: Rows, runs: Sequence[Storable]) -> bytes:
    """The bytes of a file of rows, for `write_together`. Equal rows give equal bytes.

    The file has one line of JSON for each run, sorted by kind and by the run's fields.

    Args:
        rows: the rows.
        runs: the runs whose rows are written.

    Returns:
        The content of a file .jsonl.gz.
    """
    header = {"format": FORMAT, "protocol": PROTOCOL_VERSION, "machine": rows.machine}
    fields = {run.id: run.fields for run in runs}
    lines: list[str] = []
    for row in sorted(rows.of(runs), key=lambda row: (row.kind, json.dumps(fields[row.id], sort_keys=True))):
        lines.append(json.dumps(asdict(row) | {"seconds": round(row.seconds, 4)}, separators=(",", ":")))
    first = json.dumps(header | {"checksum": _checksum(header, map(str.encode, lines))}, sort_keys=True)
    content = BytesIO()
    with gzip.GzipFile(fileobj=content, mode="wb", mtime=0, filename="") as zipped:
        zipped.write("\n".join([first, *lines]).encode() + b"\n")
    return content.getvalue()


def read_rows(path: Path) -> Rows:
    """Read the rows that `write_rows` wrote.

    Args:
        path: The file.

    Returns:
        The rows.

    Raises:
        InputError: there is no such file, it holds no rows, its checksum is another, or its rows follow another
            version of the protocol.
    """
    if not exists(path) and not os.path.lexists(path):
        raise InputError(f"there are no rows at {path}")
    content: list[bytes] = []
    lines = _json_lines(path, content)
    with reading(path, "does not hold rows of the paper's runs"):
        header = next(lines, None)
        if not isinstance(header, dict) or header.get("format") not in (FORMAT, WITHOUT_CHECKSUM):
            raise InputError(f"{path} does not hold rows of the paper's runs")
        protocol, machine = header.get("protocol"), header.get("machine")
        if protocol != PROTOCOL_VERSION:
            raise InputError(
                f"the rows in {path} follow protocol {shown_text(protocol, most=60)}, and this manyheads trains by "
                f"protocol {PROTOCOL_VERSION}: the two are not mixed"
            )
        if not isinstance(machine, dict) or not all(isinstance(fact, str) for fact in machine.values()):
            raise InputError(f"{path} does not say which machine made its rows")
        rows = Rows((_row(line, path, number) for number, line in enumerate(lines, start=2)), machine=machine)
        checksum = header.pop("checksum", None)
        if header["format"] == FORMAT and checksum != _checksum(header, content[1:]):
            raise InputError(f"{path} was changed after it was written: its checksum differs")
        return rows


def _checksum(header: Mapping[str, object], lines: Iterable[bytes]) -> str:
    """The SHA-256 of a file of rows: of its header without the checksum, and of all lines after it."""
    return hashlib.sha256(b"\n".join([json.dumps(header, sort_keys=True).encode(), *lines])).hexdigest()


def _json_lines(path: Path, content: list[bytes]) -> Iterator[object]:
    """The values of the lines; the lines themselves are added to `content`."""
    try:
        for line in unpack_lines(path, most=MOST_BYTES):
            content.append(line)
            yield parse_json(line, path)
    except InputError as error:
        fault = str(error).removeprefix(shown_text(f"{path} "))
        raise InputError(f"{path} does not hold rows of the paper's runs: it {fault}") from error


def _row(fields: object, path: Path, line: int) -> Row:
    """The row of one line, whose fields must have the names, types and ranges that `write_rows` writes."""
    names = {field.name for field in dataclasses.fields(Row)}
    if not isinstance(fields, dict) or set(fields) != names:
        raise InputError(f"{path}, line {line}: not a row with the fields {', '.join(sorted(names))}")
    steps, seconds, scores = fields["steps"], fields["seconds"], fields["scores"]
    is_text = all(isinstance(fields[name], str) for name in ("id", "kind", "status")) and fields["status"] in FINISHED
    is_count = _is_number(steps) and isinstance(steps, int) and steps >= 0 and _is_number(seconds) and seconds >= 0
    if not is_text or not is_count or not isinstance(scores, dict):
        raise InputError(f"{path}, line {line}: a field of the row is not of its type, or out of its range")
    if not all(score is None or _is_number(score) for score in scores.values()):
        raise InputError(f"{path}, line {line}: a score of the row is not a number")
    if (fault := score_fault(scores)) is not None:
        raise InputError(f"{path}, line {line}: the row is not as it was measured: {fault}")
    return Row(**fields)


def _is_number(value: object) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool) and abs(value) < 2**63
