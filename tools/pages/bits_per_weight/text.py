"""The text of docs/results/bits-per-weight.md, from stored rows."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import groupby
from statistics import median

from manyheads.bounds import bits_per_weight, log2_labellings
from tools.pages.capacity_floor.text import Problem, summarise
from tools.pages.rows import DATA, Row, Tables, fill, machine_text, matching, table

HEAD_PAGE = "one-head"  # the table of the page on one head, which has more seeds and sizes than the rows here
TABLES = (
    *([HEAD_PAGE] if (DATA / f"{HEAD_PAGE}.csv").exists() else []),
    "capacity_floor",
    "bits-per-weight-one-head",
    "bits-per-weight-shared",
    "bits-per-weight-real",
    "bits-per-weight-neighbours",
    "bits-per-weight-machine",
)
PERMUTATIONS, REGULAR, ONE_HEAD, REAL = "permutations", "regular graphs", "one head at its transition", "real relations"
SHARED, NOT_SHARED = "shared keys", "the same without shared keys"
GROUPS = (PERMUTATIONS, REGULAR, SHARED, NOT_SHARED, ONE_HEAD, REAL)


def points(tables: Tables, measured: Mapping[Problem, int | None] | None = None) -> list[Row]:
    """A row for each problem: its family, the smallest certified layer, D_K* of training, both in bits per weight.

    Args:
        tables: the tables of the page.
        measured: our own D_K* of each problem; by default those of the reproduction of the paper.
    """
    found = []
    for floor in summarise(tables["capacity_floor"], measured):
        group = REGULAR if floor["family"] == "regular" else PERMUTATIONS
        words = f"regular:{floor['items']}:{floor['degree']}"
        found.append(_point(group, words, floor["d_model"], certified=floor["floor"], trained=floor["measured"]))
    found += shared_points(tables["bits-per-weight-shared"])
    found += [_point(ONE_HEAD, *one) for one in transitions(tables)]
    for row in tables["bits-per-weight-real"]:
        words = f"random:{row['items']}:{row['relations']}"
        point = _point(REAL, words, row["d_model"], certified=row["heads"] * row["key_width"])
        found.append(point | {"graphs": row["name"]})
    return found


def shared_points(rows: Sequence[Row]) -> list[Row]:
    """For each problem and number of key heads, the layer of the middle seed by its weights."""
    found = []
    problems = dict.fromkeys((row["items"], row["d_model"], row["shared"]) for row in rows)
    for items, d_model, shared in sorted(problems):
        own = matching(rows, items=items, d_model=d_model, shared=shared)
        row = sorted(own, key=_shared_weights)[len(own) // 2]
        words = f"permutation:{items}"
        held = bits_per_weight(words, weights=_shared_weights(row))
        shape = {
            "d_model": d_model,
            "heads": row["heads"],
            "key_width": row["key_width"],
            "key_heads": row["key_heads"],
        }
        keys = f", {row['key_heads']} key head{'s' if row['key_heads'] > 1 else ''}" if shared else ""
        found.append(
            {
                "group": SHARED if shared else NOT_SHARED,
                "graphs": f"{held.family}: {row['heads']} heads of width {row['key_width']}{keys}",
                "items": items,
                "d_model": d_model,
                "log2_graphs": held.log2_graphs,
                "certified": row["key_heads"] * row["key_width"],
                "certified_bits": held.value,
                "trained": None,
                "trained_bits": None,
                "most_bits": float(log2_labellings(items=items, **shape)) / held.weights,
            }
        )
    return found


def _shared_weights(row: Row) -> int:
    """The weights of W_Q and W_K of a row's layer."""
    return int((row["heads"] + row["key_heads"]) * row["d_model"] * row["key_width"])


def transitions(tables: Tables) -> list[tuple[str, int, float]]:
    """Words of each family, the smallest d_model at which one head holds its graph (the middle seed), and its D_K."""
    rows = [row for row in tables.get(HEAD_PAGE) or tables["bits-per-weight-one-head"] if ":" in _words(row)]
    found = []
    for words, group in groupby(sorted(rows, key=lambda row: (row["relations"], _words(row))), key=_words):
        own = list(group)
        held = []
        for seed in sorted({row["seed"] for row in own}):
            widths = {v: [row["d_model"] for row in matching(own, seed=seed, verdict=v)] for v in ("excluded", "held")}
            # the transition is known only where an exclusion is next to it
            if widths["held"] and min(widths["held"]) - max(widths["excluded"], default=0) <= 1:
                held.append(min(widths["held"]))
        held.sort()
        if held:
            found.append((words, held[len(held) // 2], float(held[len(held) // 2])))
    return found


def _words(row: Row) -> str:
    """The words of the row's family, e.g. regular:64:4; nothing for graphs that are not drawn."""
    kind, _, degree = str(row["family"]).partition(":")
    if kind not in ("permutation", "regular"):
        return ""
    return f"{kind}:{row['items']}:{degree}" if degree else f"{kind}:{row['items']}"


def _point(group: str, words: str, d_model: int, certified: float, trained: int | None = None) -> Row:
    held = bits_per_weight(words, weights=round(2 * d_model * certified))
    items = int(words.split(":")[1])
    most = log2_labellings(items=items, d_model=d_model, heads=max(1, int(certified)), key_width=1)
    return {
        "group": group,
        "graphs": held.family,
        "items": items,
        "d_model": d_model,
        "log2_graphs": held.log2_graphs,
        "certified": certified,
        "certified_bits": held.value,
        "trained": trained,
        "trained_bits": bits_per_weight(words, weights=2 * d_model * trained).value if trained else None,
        "most_bits": float(most) / held.weights,
    }


def page(tables: Tables) -> str:
    """The text of the page."""
    found = points(tables)
    both = [point for point in found if point["trained"]]
    ratios = [point["certified_bits"] / point["trained_bits"] for point in both]
    heads, real = matching(found, group=ONE_HEAD), matching(found, group=REAL)
    many = [point for point in found if point["group"] in (PERMUTATIONS, REGULAR)]
    facts = {
        "table": _table(found, tables["bits-per-weight-neighbours"]),
        "certified": _range([point["certified_bits"] for point in many]),
        "trained": _range([point["trained_bits"] for point in both]),
        "ratios": _range(ratios),
        "gap": f"{median(point['most_bits'] / point['certified_bits'] for point in many):.0f}",
        "points": len(both),
        "one_head": _range([point["certified_bits"] for point in heads]) if heads else "not measured",
        "shared": _shared_text(found),
        "shared_seeds": len({row["seed"] for row in tables["bits-per-weight-shared"]}),
        "real": " and ".join(f"{point['certified_bits']:.2f}" for point in real),
        "real_width": " and ".join(sorted({str(point["d_model"]) for point in real})),
        "real_seconds": " and ".join(f"{row['seconds']:.0f} s" for row in tables["bits-per-weight-real"]),
        "most": _range([point["most_bits"] for point in many]),
        "densest": _densest(matching(found, group=REGULAR)),
        "machine": machine_text(tables["bits-per-weight-machine"]),
    }
    return fill(__file__, facts)


def _range(values: Sequence[float]) -> str:
    return f"{min(values):.2f} to {max(values):.2f}, {median(values):.2f} in the median"


def _shared_text(found: Sequence[Row]) -> str:
    """Bits per weight with and without shared keys."""
    shared, apart = (
        [point["certified_bits"] for point in matching(found, group=group)] for group in (SHARED, NOT_SHARED)
    )
    return f"{min(shared):.2f} to {max(shared):.2f}, and {min(apart):.2f} to {max(apart):.2f} without shared keys"


def _densest(regular: Sequence[Row]) -> str:
    ends = sorted(regular, key=lambda point: float(point["log2_graphs"]))
    return f"{ends[0]['certified_bits']:.2f} to {ends[-1]['certified_bits']:.2f}" if ends else "not measured"


def _table(found: Sequence[Row], neighbours: Sequence[Row]) -> str:
    head = ["", "graphs", "d_model", "log2 of their number", "certified D_K", "bits per weight"]
    head += ["trained D_K*", "bits per weight", "proved: at most"]
    lines = []
    for group in GROUPS:
        for point in sorted(matching(found, group=group), key=lambda point: (point["d_model"], point["log2_graphs"])):
            trained = point["trained"]
            lines.append(
                [
                    group, point["graphs"], point["d_model"], f"{point['log2_graphs']:,.0f}",
                    f"{point['certified']:g}", f"{point['certified_bits']:.2f}", trained or "",
                    f"{point['trained_bits']:.2f}" if trained else "", f"{point['most_bits']:.1f}",
                ]
            )  # fmt: skip
    for row in neighbours:
        lines.append([f"other papers: {row['work']}", row["quantity"], "", "", "", f"{row['bits']:g}", "", "", ""])
    return table(head, lines)
