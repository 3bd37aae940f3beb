"""docs/block-scouting.md: the rule by which Figure 7's size was chosen, the rows it was applied to, and the choice."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from rows import Row, table

RANGE = (0.2, 0.8)  # where one head's accuracy has to lie for there to be something to see
HOURS = 3.0  # of two cores
RUNS = 4 * 4 * 3 * 2  # head counts, key budgets, seeds, embeddings
TEXT = """# The scouting for Figure 7 on two cores

Made by `docs/make_block_scouting.py`; rows: docs/data/block-scouting.csv. Only one head is trained, with seed {seed},
which the figure does not use. The rule, written before the runs: the rate at which one head does best after a few
thousand steps; then the largest d_model at which one head has an accuracy between {low:g} and {high:g} at two key
budgets or more, on both embeddings, and all {runs} runs of the figure take at most {hours:g} hours on two cores.

## Rates

{rates}

## Sizes

{sizes}

{each}

{choice}
"""


def write_page(path: Path, rows: Sequence[Row]) -> None:
    """Apply the rule to the rows, and say what came of it."""
    rates, sizes = ([row for row in rows if row["part"] == part] for part in ("rate", "size"))
    by_size: dict[tuple[int, int], list[Row]] = {}
    for row in sizes:
        by_size.setdefault((row["items"], row["d_model"]), []).append(row)
    chosen = max((size for size, some in by_size.items() if qualifies(some)), key=lambda size: size[1], default=None)
    choice = "No size qualifies."
    if chosen is not None:
        steps = by_size[chosen][0]["steps"]
        choice = f"Chosen: m = {chosen[0]}, d_model = {chosen[1]}, {steps:,} steps, rate {best_rate(rates):g}."
    text = TEXT.format(
        seed=rows[0]["seed"],
        low=RANGE[0],
        high=RANGE[1],
        runs=RUNS,
        hours=HOURS,
        rates=_table(rates),
        sizes=_table(sizes),
        each="\n".join(_verdict(*size, some) for size, some in by_size.items()),
        choice=choice,
    )
    path.write_text(text, encoding="utf-8")


def best_rate(rows: Sequence[Row]) -> float:
    """The rate at which one head does best, over both embeddings: its best chance, not the effect's."""
    sums: dict[float, float] = {}
    for row in rows:
        sums[row["learning_rate"]] = sums.get(row["learning_rate"], 0.0) + (row["accuracy"] or 0.0)
    return max(sums, key=lambda rate: sums[rate])


def grid_hours(rows: Sequence[Row]) -> float:
    """What the whole figure takes on two cores at the size of these rows."""
    return RUNS * sum(row["seconds"] for row in rows) / len(rows) / 2 / 3600


def qualifies(rows: Sequence[Row]) -> bool:
    """Whether one head lies in the range at two key budgets or more, on both embeddings, and the figure is in time."""
    outside = {row["key_budget"] for row in rows if not RANGE[0] <= (row["accuracy"] or 0.0) <= RANGE[1]}
    return len({row["key_budget"] for row in rows} - outside) >= 2 and grid_hours(rows) <= HOURS


def _verdict(items: int, d_model: int, rows: Sequence[Row]) -> str:
    word = "qualifies" if qualifies(rows) else "does not qualify"
    return f"- ({items}, {d_model}) {word}: {grid_hours(rows):.1f} hours for the figure."


def _table(rows: Sequence[Row]) -> str:
    head = ("embedding", "m", "d_model", "rate", "steps", "D_K", "accuracy", "validation at ¼, ½, ¾", "seconds")
    return table(head, [_line(row) for row in rows])


def _line(row: Row) -> list[object]:
    checks = [row[f"validation_{share}"] for share in (25, 50, 75)]
    course = ", ".join("–" if check is None else f"{check:.3f}" for check in checks)
    return [
        f"{row['embedding']}{', PCA' if row['reduction'] == 'pca' else ''}",
        row["items"],
        row["d_model"],
        f"{row['learning_rate']:g}",
        f"{row['steps']:,}",
        row["key_budget"],
        "diverged" if row["accuracy"] is None else f"{row['accuracy']:.3f}",
        course,
        f"{row['seconds']:.0f}",
    ]
