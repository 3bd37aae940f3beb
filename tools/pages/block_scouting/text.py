"""The text of docs/results/block-scouting.md: the rule that chose the size of Figure 7, applied to stored rows."""

from __future__ import annotations

from collections.abc import Sequence

from tools.pages.rows import Row, Tables, fill, table

TABLES = ("block-scouting",)
RANGE = (0.2, 0.8)  # the accuracy of one head must lie here, so that several heads can be better or worse
HOURS = 3.0  # of two cores
RUNS = 4 * 4 * 3 * 2  # head counts, key budgets, seeds, embeddings


def page(tables: Tables) -> str:
    """The text of the page."""
    rows = tables["block-scouting"]
    rates, sizes = ([row for row in rows if row["part"] == part] for part in ("rate", "size"))
    by_size: dict[tuple[int, int], list[Row]] = {}
    for row in sizes:
        by_size.setdefault((row["items"], row["d_model"]), []).append(row)
    chosen = max((size for size, some in by_size.items() if qualifies(some)), key=lambda size: size[1], default=None)
    choice = "No size qualifies."
    if chosen is not None:
        steps = by_size[chosen][0]["steps"]
        choice = f"Chosen: m = {chosen[0]}, d_model = {chosen[1]}, {steps:,} steps, rate {best_rate(rates):g}."
    facts = {
        "seed": rows[0]["seed"],
        "low": f"{RANGE[0]:g}",
        "high": f"{RANGE[1]:g}",
        "runs": RUNS,
        "hours": f"{HOURS:g}",
        "rates": _table(rates),
        "sizes": _table(sizes),
        "each": "\n".join(_verdict(*size, some) for size, some in by_size.items()),
        "choice": choice,
    }
    return fill(__file__, facts)


def figures(_: Tables) -> dict[str, object]:
    """The page has no picture."""
    return {}


def best_rate(rows: Sequence[Row]) -> float:
    """The rate at which one head has the highest accuracy, summed over both embeddings."""
    sums: dict[float, float] = {}
    for row in rows:
        sums[row["learning_rate"]] = sums.get(row["learning_rate"], 0.0) + (row["accuracy"] or 0.0)
    return max(sums, key=lambda rate: sums[rate])


def grid_hours(rows: Sequence[Row]) -> float:
    """Hours of two cores for the whole figure at the size of these rows."""
    return RUNS * sum(row["seconds"] for row in rows) / len(rows) / 2 / 3600


def qualifies(rows: Sequence[Row]) -> bool:
    """Whether one head lies in RANGE at two key budgets or more, on both embeddings, and the figure takes HOURS."""
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
    validation = ", ".join("–" if check is None else f"{check:.3f}" for check in checks)
    return [
        f"{row['embedding']}{', PCA' if row['reduction'] == 'pca' else ''}",
        row["items"],
        row["d_model"],
        f"{row['learning_rate']:g}",
        f"{row['steps']:,}",
        row["key_budget"],
        "diverged" if row["accuracy"] is None else f"{row['accuracy']:.3f}",
        validation,
        f"{row['seconds']:.0f}",
    ]
