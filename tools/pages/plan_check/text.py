"""The text of docs/results/plan-check.md, from stored rows."""

from __future__ import annotations

from collections.abc import Sequence

from manyheads.planning import prediction
from tools.pages.rows import Row, Tables, fill, machine_text, table

# seeds; the last: the present advice
CHECKS = {1: 20261116, 2: 20261117, 3: 20261118, 4: 20261119, 5: 20261120, 6: 20261121}
TABLES = (*(f"plan-check-{number}" for number in CHECKS), "plan-check-machine")
SEEDS = range(3)
HEADS = (1, 2, 3, 4, 6, 8, 12, 16, 24, 32, 48, 64, 96)
LAW_LIMIT = 1.6  # head counts for which the law asks for more than 1.6 times its least D_K are not measured
SECONDS = 900.0  # time limit of the search for one problem's D_K*
TARGET_F1 = 0.99
LARGEST_RATIO = prediction.WASTEFUL  # the recommended key budget must not exceed 1.35 times the measured one
CHECK_COUNT = 60
GOALS = {1: 54, 2: 54, 3: 54, 4: 57, 5: 57, 6: 57}  # problems of each check at which the advice should hold
COLUMNS = (
    *("predicted", "heads", "key_width", "key_budget", "f1"),
    *("seeds", "measured", "measured_heads", "complete", "runs", "ratio", "held"),
)


def page(tables: Tables) -> str:
    """The text of the page: the last check first, then the earlier ones."""
    facts = {
        "seeds": len(SEEDS),
        "target": TARGET_F1,
        "largest": LARGEST_RATIO,
        "wasteful": prediction.WASTEFUL,
        "heads": ", ".join(map(str, HEADS)),
        "law_limit": LAW_LIMIT,
        **{f"check_{number}": check_text(number, tables[f"plan-check-{number}"]) for number in CHECKS},
        "machine": machine_text(tables["plan-check-machine"]),
    }
    return fill(__file__, facts)


def figures(_: Tables) -> dict[str, object]:
    """The page has no picture."""
    return {}


def check_text(number: int, rows: Sequence[Row]) -> str:
    """One check: how many problems held, where the advice failed, and the table of all problems."""
    count = len(rows)
    reached = sum(row["f1"] is not None and row["f1"] >= TARGET_F1 for row in rows)
    near = sum(row["ratio"] is not None and row["ratio"] <= LARGEST_RATIO for row in rows)
    held = sum(bool(row["held"]) for row in rows)
    stopped = sum(not row["complete"] for row in rows if row["heads"])
    searches = (
        f"{stopped} searches were stopped after {SECONDS:g} s: their D_K\\* may be smaller than the value found."
        if stopped
        else "Every search was completed."
    )
    if count < CHECK_COUNT:
        searches += f" **{CHECK_COUNT - count} problems, those with the most work, have no row yet.**"
    summary = table(
        ("", f"of {count} problems", "goal"),
        (
            (f"F1 ≥ {TARGET_F1} at the recommended point", reached, ""),
            (f"no more than {LARGEST_RATIO} × D_K\\*", near, ""),
            ("**both: the advice held**", f"**{held} ({held / count:.0%})**", f"{GOALS[number]} of {CHECK_COUNT}"),
        ),
    )
    head = ("problem", "recommended", "F1", "D_K* measured", "ratio", "held")
    return "\n\n".join(
        [f"{count} problems of seed {CHECKS[number]}. {searches}", summary, _misses(rows), table(head, _lines(rows))]
    )


def _lines(rows: Sequence[Row]) -> list[list[str]]:
    """The lines of the table of problems."""
    return [
        [
            f"m {row['items']}, d {row['d_model']}, degree {row['degree']}",
            f"{row['heads']} × {row['key_width']} = {row['key_budget']}" if row["heads"] else "none",
            "" if row["f1"] is None else f"{row['f1']:.4f}",
            _measured_cell(row),
            "" if row["ratio"] is None else f"{row['ratio']:.2f}",
            "yes" if row["held"] else "**no**",
        ]
        for row in rows
    ]


def _measured_cell(row: Row) -> str:
    if not row["heads"]:
        return "not measured"
    found = "not reached" if row["measured"] is None else f"{row['measured']}, h {row['measured_heads']}"
    return found if row["complete"] else f"{found} (search stopped)"


def _misses(rows: Sequence[Row]) -> str:
    """The number of problems by the way in which the advice failed."""
    small = [row for row in rows if row["heads"] and (row["f1"] is None or row["f1"] < TARGET_F1)]
    large = [row for row in rows if row["ratio"] is not None and row["ratio"] > LARGEST_RATIO]
    none = [row for row in rows if not row["heads"]]
    crowded = [row for row in rows if row["items"] > prediction.STEEP * row["d_model"]]
    failed = sum(not row["held"] for row in crowded)
    scores = ", ".join(f"{row['f1']:.4f}" for row in small if row["f1"] is not None)
    lines = [
        f"- too small to reach {TARGET_F1}: {len(small)}{f' (F1 {scores})' if scores else ''}",
        f"- more than {LARGEST_RATIO} × D_K\\*: {len(large)}",
        f"- no advice: {len(none)}",
        f"- problems with more than {prediction.STEEP} items for each dimension, which train for up to 80,000 steps: "
        f"{len(crowded)}, of which {failed} failed",
    ]
    return "\n".join(lines)
