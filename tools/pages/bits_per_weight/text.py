"""The text of docs/results/bits-per-weight.md, from stored rows."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import groupby
from statistics import median

from manyheads.bounds import bits_per_weight, log2_labellings
from manyheads.bounds.lower import log2_patterns
from tools.pages.capacity_floor.text import Problem, summarise
from tools.pages.rows import DATA, Row, Tables, fill, machine_text, matching, table
from tools.pages.shared_keys.text import OWN
from tools.pages.shared_keys.text import summarise as shared_layers

HEAD_PAGE = "one-head"  # the table of the page on one head, which has more seeds and sizes than the rows here
TABLES = (
    *([HEAD_PAGE] if (DATA / f"{HEAD_PAGE}.csv").exists() else []),
    "capacity_floor",
    "shared-keys",
    "bits-per-weight-one-head",
    "bits-per-weight-real",
    "bits-per-weight-neighbours",
    "bits-per-weight-machine",
)
PERMUTATIONS, REGULAR, ONE_HEAD, REAL = "permutations", "regular graphs", "one head at its transition", "real relations"
SHARED = "shared keys"
GROUPS = (PERMUTATIONS, REGULAR, SHARED, ONE_HEAD, REAL)


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
    found += _shared(tables.get("shared-keys", []))
    found += [_point(ONE_HEAD, *one) for one in transitions(tables)]
    for row in tables["bits-per-weight-real"]:
        words = f"random:{row['items']}:{row['relations']}"
        point = _point(REAL, words, row["d_model"], certified=row["heads"] * row["key_width"])
        found.append(point | {"graphs": row["name"]})
    return found


def _shared(rows: Sequence[Row]) -> list[Row]:
    """Of each problem the layer with shared keys that has the fewest weights; D_K: half of them over d_model."""
    layers = [point for point in matching(shared_layers(rows), rule="max") if "layer" in point]
    smallest: dict[str, Row] = {}
    for point in sorted(layers, key=lambda point: int(point["layer"].parameters)):
        if point["sharing"] != OWN:
            smallest.setdefault(f"regular:{point['items']}:{point['degree']}", point)
    found = []
    for words, point in smallest.items():
        layer = point["layer"]
        degree = 2 if layer.latent is None else 3
        most = log2_patterns(items=point["items"], heads=layer.heads, variables=layer.all_freedom + 1, degree=degree)
        one = _point(SHARED, words, layer.d_model, certified=layer.parameters / (2 * layer.d_model))
        graphs = f"{one['graphs']}: {layer.words()}"
        found.append(one | {"graphs": graphs, "most_bits": float(most) / layer.parameters})
    return found


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
        "real": " and ".join(f"{point['certified_bits']:.2f}" for point in real),
        "real_width": " and ".join(sorted({str(point["d_model"]) for point in real})),
        "real_seconds": " and ".join(f"{row['seconds']:.0f} s" for row in tables["bits-per-weight-real"]),
        "most": _range([point["most_bits"] for point in many]),
        "shared": _range([point["certified_bits"] for point in matching(found, group=SHARED)]),
        "densest": _densest(matching(found, group=REGULAR)),
        "machine": machine_text(tables["bits-per-weight-machine"]),
    }
    return fill(__file__, facts)


def _range(values: Sequence[float]) -> str:
    return f"{min(values):.2f} to {max(values):.2f}, {median(values):.2f} in the median"


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
