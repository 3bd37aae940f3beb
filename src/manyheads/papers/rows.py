"""Rows: what was measured, by the id of its run: from a store, or from the one compact file that is committed."""

from __future__ import annotations

import gzip
import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from io import BytesIO
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

from manyheads.errors import InputError
from manyheads.files.atomic_files import write_whole
from manyheads.sweep import Record, Store
from manyheads.sweep.store.record import FINISHED, Storable
from manyheads.training.protocol import PROTOCOL_VERSION

if TYPE_CHECKING:
    from manyheads.papers.threshold_search import Hunt, Trail

FORMAT = "manyheads paper rows 1"
SEVERAL = " / "  # between what several machines say
M = TypeVar("M", bound=Storable)


@dataclass(frozen=True)
class Row:
    """One finished run: its id names it, the rest came of it."""

    id: str
    kind: str
    status: str
    scores: Mapping[str, float | int | None]
    steps: int
    seconds: float

    @classmethod
    def of(cls, record: Record) -> Row:
        """The row of a finished record."""
        return cls(
            record.id, record.kind, record.status, json.loads(record.scores), record.steps or 0, record.seconds or 0.0
        )

    def score(self, name: str) -> float | int | None:
        """A score by its name; None where it was not measured."""
        return self.scores.get(name)


class Rows:
    """Finished runs by their ids, and the machines they were made on."""

    def __init__(self, rows: Iterable[Row], *, machine: Mapping[str, str] | None = None) -> None:
        self._by_id = {row.id: row for row in rows}
        self.machine = dict(machine or {})
        # searches that these rows lead to their end, and more rows no further: each is followed once
        self.finished: dict[Hunt, Trail] = {}

    def __contains__(self, run_id: str) -> bool:
        return run_id in self._by_id

    def __getitem__(self, run_id: str) -> Row:
        return self._by_id[run_id]

    def __len__(self) -> int:
        return len(self._by_id)

    def joined(self, others: Rows) -> Rows:
        """These and the others."""
        machine = machines([self.machine, others.machine])
        both = Rows([*self._by_id.values(), *others._by_id.values()], machine=machine)
        both.finished.update(self.finished)
        return both

    def of(self, runs: Sequence[Storable]) -> list[Row]:
        """The rows of those runs that have one."""
        return [self._by_id[run.id] for run in runs if run.id in self._by_id]

    def scores(self, runs: Sequence[M], name: str) -> list[tuple[M, float]]:
        """The runs that have this score, with it; a run that diverged has none."""
        found = [(run, self._by_id[run.id].scores.get(name)) for run in runs if run.id in self._by_id]
        return [(run, float(value)) for run, value in found if value is not None]


def stored_rows(store: Store, runs: Sequence[Storable] | None = None) -> Rows:
    """The finished among these runs, or among all, that a store has."""
    ids = None if runs is None else [run.id for run in runs]
    records = [record for record in store.records(ids=ids) if record.status in FINISHED]
    told = dict.fromkeys(record.machine for record in records)
    return Rows(map(Row.of, records), machine=machines(map(json.loads, told)))


def machines(each: Iterable[Mapping[str, str]]) -> dict[str, str]:
    """The facts of several machines as if of one: where they differ, all of them.

    >>> machines([{"cores": "2", "cpu": "AMD EPYC"}, {"cores": "2", "cpu": "Intel Xeon"}])
    {'cores': '2', 'cpu': 'AMD EPYC / Intel Xeon'}
    """
    facts: dict[str, dict[str, None]] = {}
    for machine in each:
        for name, value in machine.items():
            facts.setdefault(name, {}).update(dict.fromkeys(value.split(SEVERAL)))
    return {name: SEVERAL.join(values) for name, values in facts.items()}


def write_rows(path: Path, rows: Rows, runs: Sequence[Storable], *, force: bool = True) -> None:
    """One line of JSON for each run, sorted by kind and shape; equal rows give equal bytes.

    The file is written whole or not at all; one that exists is replaced unless `force` is off.
    """
    header = {"format": FORMAT, "protocol": PROTOCOL_VERSION, "machine": rows.machine}
    fields = {run.id: run.fields for run in runs}
    lines = [json.dumps(header, sort_keys=True)]
    for row in sorted(rows.of(runs), key=lambda row: (row.kind, json.dumps(fields[row.id], sort_keys=True))):
        lines.append(json.dumps(asdict(row) | {"seconds": round(row.seconds, 4)}, separators=(",", ":")))
    content = BytesIO()
    with gzip.GzipFile(fileobj=content, mode="wb", mtime=0, filename="") as zipped:
        zipped.write("\n".join(lines).encode() + b"\n")
    write_whole(path, content.getvalue(), force=force)


def read_rows(path: Path) -> Rows:
    """Rows that `write_rows` wrote; those of another protocol are refused, not mixed in."""
    try:
        with gzip.open(path, "rt", encoding="utf-8") as file:
            header, *lines = (json.loads(line) for line in file)
    except FileNotFoundError:
        raise InputError(f"there are no rows at {path}") from None
    except (OSError, EOFError, ValueError, UnicodeDecodeError):
        raise InputError(f"{path} does not hold rows of the paper's runs") from None
    if not isinstance(header, dict) or header.get("format") != FORMAT:
        raise InputError(f"{path} does not hold rows of the paper's runs")
    if header["protocol"] != PROTOCOL_VERSION:
        raise InputError(
            f"the rows in {path} follow protocol {header['protocol']}, and this manyheads trains by protocol "
            f"{PROTOCOL_VERSION}: the two are not mixed"
        )
    return Rows((Row(**line) for line in lines), machine=header["machine"])
