"""The text of docs/results/reliability.md, from stored rows."""

from __future__ import annotations

from tools.pages.rows import Row, Tables, fill, machine_text, table

NAME = "reliability"
TABLES = (NAME, f"{NAME}-machine")
FAILURES = {
    *("unseen", "different", "lost", "traceback", "slow", "hang", "memory", "crash", "unsound", "failed"),
    *("exit code", "several lines", "files"),
}
SUBJECTS = {
    "files": "damaged files of every kind, read by a process with 500 MB",
    "stores": "stores with flipped bits and other damage",
    "numbers": "hostile numbers through every option of every command, and through the library",
    "signals": "SIGINT, SIGTERM and SIGHUP at random moments of 13 commands",
    "certificates": "layers with a threshold next to a score, against exact arithmetic, PyTorch and check_proof.py",
    "kills": "`measure` and its workers killed, faults of a Dask cluster; then the same D_K\\* and equal rows",
}


def is_failure(outcome: str) -> bool:
    """Whether an outcome breaks a promise."""
    return outcome in FAILURES


def page(tables: Tables) -> str:
    """The text of the page."""
    rows = tables[NAME]
    attacks = [attack for attack in SUBJECTS if any(row["attack"] == attack for row in rows)]
    return fill(
        __file__,
        {
            "counts": table(
                ["attack", "cases", "failures", "outcomes", "time"],
                [_line(attack, [row for row in rows if row["attack"] == attack]) for attack in attacks],
            ),
            "total": f"{sum(row['cases'] for row in rows):,}",
            "failures": sum(row["cases"] for row in rows if is_failure(row["outcome"])),
            "machine": machine_text(tables[f"{NAME}-machine"]),
        },
    )


def figures(_: Tables) -> dict[str, object]:
    """The page has no picture."""
    return {}


def _line(attack: str, rows: list[Row]) -> list[str]:
    failures = sum(row["cases"] for row in rows if is_failure(row["outcome"]))
    counts = ", ".join(f"{row['cases']:,} {row['outcome']}" for row in rows)
    minutes = rows[0]["seconds"] / 60
    return [
        f"{attack}: {SUBJECTS[attack]}",
        f"{sum(row['cases'] for row in rows):,}",
        str(failures),
        counts,
        f"{minutes:.0f} min",
    ]
