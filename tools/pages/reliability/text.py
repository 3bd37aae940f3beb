"""The text of docs/results/reliability.md, from stored rows."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from tools.pages.rows import Row, Tables, fill, machine_text, table

NAME = "reliability"
TABLES = (NAME, f"{NAME}-machine")
FAILURES = {
    *("unseen", "different", "lost", "traceback", "slow", "hang", "memory", "crash", "unsound", "failed"),
    *("exit code", "several lines", "files"),
}
ANSWERS = "measurements completed"  # of the attacks that kill: an outcome, but no case
AFTER = "dask faults after the end"  # a fault that came too late
SUBJECTS = {
    "files": "damaged files of every kind, read by a process with 500 MB",
    "certificates": "layers with a threshold next to a score, against exact arithmetic, PyTorch and check_proof.py",
    "kills": "`measure` and its workers killed; then the same D_K\\* and equal rows",
    "dask": "scheduler, worker or client of a Dask cluster killed; then the same D_K\\* and equal rows",
    "stores": "stores with one flipped bit",
    "numbers": "hostile numbers through every option of every command, and through the library",
    "signals": "SIGINT, SIGTERM and SIGHUP at random moments of 15 commands",
    "fuzzing": "readers of files and of store rows under libFuzzer (atheris), guided by coverage",
}


def is_failure(outcome: str) -> bool:
    """Whether an outcome breaks a promise."""
    return outcome in FAILURES


def cases(rows: Sequence[Row]) -> int:
    """The cases of some rows."""
    return sum(row["cases"] for row in rows if row["outcome"] not in (ANSWERS, AFTER))


def page(tables: Tables) -> str:
    """The text of the page."""
    rows = tables[NAME]
    by_attack = {attack: [row for row in rows if row["attack"] == attack] for attack in SUBJECTS}
    return fill(
        __file__,
        {
            "counts": table(
                ["attack", "cases", "failures", "outcomes", "CPU time"],
                [_line(attack, own) for attack, own in by_attack.items() if own],
            ),
            "certificates": table(
                ["family", "cases", "unsound", "outcomes"],
                [
                    _family(family, [row for row in by_attack["certificates"] if row["kind"] == family])
                    for family in dict.fromkeys(row["kind"] for row in by_attack["certificates"])
                ],
            ),
            "fuzzing": table(
                ["reader", "executions", "findings", "minutes"],
                [
                    [
                        row["kind"],
                        f"{row['cases']:,}",
                        _failures(by_attack["fuzzing"], row["kind"]),
                        row["seconds"] / 60,
                    ]
                    for row in by_attack["fuzzing"]
                    if row["outcome"] == "executions"
                ],
            ),
            "total": f"{cases(rows):,}",
            "failures": _failures(rows),
            "machine": machine_text(tables[f"{NAME}-machine"]),
        },
    )


def figures(_: Tables) -> dict[str, object]:
    """The page has no picture."""
    return {}


def _failures(rows: Sequence[Row], kind: str | None = None) -> int:
    return sum(row["cases"] for row in rows if is_failure(row["outcome"]) and kind in (None, row["kind"]))


def _outcomes(rows: Sequence[Row]) -> str:
    counts: Counter[str] = Counter()
    for row in rows:
        counts[row["outcome"]] += row["cases"]
    return ", ".join(f"{count:,} {outcome}" for outcome, count in sorted(counts.items()))


def _line(attack: str, rows: list[Row]) -> list[str]:
    verdicts = [row | {"outcome": row["outcome"].partition(" (")[0]} for row in rows]
    minutes = sum({row["part"]: row["cpu"] for row in rows}.values()) / 60
    outcomes = "see below" if attack == "certificates" else _outcomes(verdicts)
    return [f"{attack}: {SUBJECTS[attack]}", f"{cases(rows):,}", str(_failures(rows)), outcomes, f"{minutes:.1f} min"]


def _family(family: str, rows: list[Row]) -> list[str]:
    return [family, f"{cases(rows):,}", str(_failures(rows)), _outcomes(rows)]
