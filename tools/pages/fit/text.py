"""The text of docs/results/fit.md, from stored rows."""

from __future__ import annotations

from collections.abc import Sequence

from tools.pages.rows import Row, Tables, fill, machine_text, matching, table

TABLES = ("fit-comparison", "fit-growth", "fit-machine")
NEEDED = 3  # seeds that must separate, for a width to count
LADDERS = {  # (items, d_model, heads): the key widths that are tried, from the largest on
    (64, 16, 2): range(12, 2, -1),
    (128, 16, 5): range(14, 3, -1),
    (256, 32, 4): range(16, 3, -1),
}


def page(tables: Tables) -> str:
    """The text of the page."""
    facts = {
        "needed": NEEDED,
        "comparison": _comparison(tables["fit-comparison"]),
        "growth": _growth(tables["fit-growth"]),
        "machine": machine_text(tables["fit-machine"]),
    }
    return fill(__file__, facts)


def figures(_: Tables) -> dict[str, object]:
    """The page has no picture."""
    return {}


def _comparison(rows: Sequence[Row]) -> str:
    """The smallest key budget of each method on each ladder of widths."""
    heading = [f"({items}, {d_model}), {heads} heads" for items, d_model, heads in LADDERS]
    methods = dict.fromkeys(row["method"] for row in rows)
    lines = [[name, *(_cell(rows, name, ladder) for ladder in LADDERS)] for name in methods]
    return table(["method", *heading], lines)


def _cell(rows: Sequence[Row], method: str, ladder: tuple[int, int, int]) -> str:
    items, d_model, heads = ladder
    found = matching(rows, method=method, items=items, d_model=d_model, heads=heads)
    if not found:
        return "not run"
    if found[0]["key_budget"] is None:
        return f"> {heads * LADDERS[ladder][0]}"
    return f"{found[0]['key_budget']} ({found[0]['seconds']:.2g} s)"


def _growth(rows: Sequence[Row]) -> str:
    """A warm start beside a new fit, for each layer and number of exchanged relations."""
    head = ["layer", "relations exchanged", "warm start: attempts / steps / time", "new fit"]
    lines = [
        [
            f"({row['items']}, {row['d_model']}), {row['heads']} × {row['key_width']}", row["exchanged"],
            f"{row['grown']}, {row['grown_attempts']} / {row['grown_steps']} / {row['grown_seconds']:.2g} s",
            f"{row['fresh']}, {row['fresh_attempts']} / {row['fresh_steps']} / {row['fresh_seconds']:.2g} s",
        ]
        for row in rows
    ]  # fmt: skip
    return table(head, lines)
