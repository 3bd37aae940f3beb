"""The text of docs/results/shared-keys.md, from stored rows."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from statistics import median

from manyheads.bounds import Shape, bits_per_weight
from manyheads.planning.architectures import ARCHITECTURES
from manyheads.planning.sharing import CONTEXT_LENGTH, layer_cost
from tools.pages.rows import DATA, Row, Tables, fill, machine_text, matching, table
from tools.pages.shared_keys.measurement import CONTEXT, NAME, SEEDS, SIZES

TRAINED = "shared-keys-trained"  # the rows of `trained.py`
TABLES = (NAME, f"{NAME}-machine", *([TRAINED] if (DATA / f"{TRAINED}.csv").exists() else []))
PROBLEM = ("rule", "items", "d_model", "degree")
MODELS = ("llama3-8b", "llama3-70b", "qwen3-8b", "mistral-7b", "smollm2-135m", "deepseek-v3")
OWN, LATENT = "own keys", "latent"
SHARINGS = (2, 4, 8)  # heads a key head
COSTS: dict[str, Callable[[Shape], int]] = {
    "weights": lambda shape: shape.parameters,
    "freedom": lambda shape: shape.all_freedom,
    "cached": lambda shape: shape.key_budget,
    "multiply_adds": lambda shape: shape.token_multiply_adds(CONTEXT_LENGTH),
}


def shape_of(row: Row, key_width: int) -> Shape:
    """The shape of a row's heads at a width."""
    keys = {"latent": min(row["latent"] * key_width, row["d_model"])} if row["latent"] else {}
    keys = keys or {"key_heads": row["key_heads"]}
    return Shape(d_model=row["d_model"], heads=row["heads"], key_width=key_width, **keys)


def sharing_of(row: Row) -> str:
    """How the heads of a row have their keys: own keys, heads for each key head, or the width of a latent."""
    if row["latent"]:
        return f"{LATENT} of {row['latent']} d_k"
    return OWN if row["heads"] == row["key_heads"] else f"{row['heads'] // row['key_heads']} heads a key head"


def cost(row: Row, name: str) -> float:
    """The cost at the threshold, which lies between the width that failed and the next one, which held."""
    width = row["key_width"]
    below = COSTS[name](shape_of(row, width - 1)) if width > 1 else 0
    return (below + COSTS[name](shape_of(row, width))) / 2


def summarise(rows: Sequence[Row]) -> list[Row]:
    """One row for each problem, number of heads and way to share keys: the smallest certified layers of its seeds."""
    groups: dict[tuple[object, ...], list[Row]] = defaultdict(list)
    for row in rows:
        groups[tuple(row[name] for name in (*PROBLEM, "heads", "key_heads", "latent"))].append(row)
    found = []
    for own in groups.values():
        first, held = own[0], [row for row in own if row["key_width"] is not None]
        point: Row = {name: first[name] for name in (*PROBLEM, "heads", "key_heads", "latent")}
        point |= {"sharing": sharing_of(first), "seeds": len(own), "held": len(held)}
        point |= {"relations": first["items"] * first["degree"], "price": {}}
        if held:
            widths = sorted(row["key_width"] for row in held)
            layer = shape_of(first, widths[len(widths) // 2])
            bits = bits_per_weight(f"regular:{first['items']}:{first['degree']}", weights=layer.parameters)
            point |= {"widths": widths, "layer": layer, "bits": bits.value}
            point |= {"cached_bits": bits.log2_graphs / (first["items"] * layer.key_budget)}
            point["price"] = {name: _price(rows, held, name) for name in COSTS}
        found.append(point)
    return sorted(found, key=lambda point: (point["rule"], point["items"], point["degree"], point["heads"]))


def _price(rows: Sequence[Row], held: Sequence[Row], name: str) -> float | None:
    """The cost over that of own keys for the same graph and number of heads, the median over the seeds."""
    ratios = []
    for row in held:
        key = {column: row[column] for column in (*PROBLEM, "heads", "seed")}
        own = matching(rows, **key, key_heads=row["heads"], latent=0)
        if own and own[0]["key_width"] is not None:
            ratios.append(cost(row, name) / cost(own[0], name))
    return median(ratios) if ratios else None


def prices(points: Iterable[Row], name: str = "freedom", rule: str = "max") -> dict[str, list[float]]:
    """The prices of every way to share keys, one number for each problem and number of heads."""
    found: dict[str, list[float]] = defaultdict(list)
    for point in points:
        if point["rule"] == rule and point["sharing"] != OWN and point["price"].get(name) is not None:
            found[point["sharing"]].append(point["price"][name])
    return dict(sorted(found.items()))


def best_weights(rows: Sequence[Row]) -> dict[str, list[float]]:
    """The fewest weights of a way to share keys over those of own keys, where the number of heads is free."""
    problems: dict[tuple[object, ...], list[Row]] = defaultdict(list)
    for row in rows:
        if row["rule"] == "max" and row["key_width"] is not None:
            problems[tuple(row[name] for name in (*PROBLEM, "seed"))].append(row)
    found: dict[str, list[float]] = defaultdict(list)
    for own in problems.values():
        least: dict[str, float] = {}
        for row in own:
            kind = "all heads share one key head" if row["key_heads"] == 1 and not row["latent"] else sharing_of(row)
            for name in {kind, sharing_of(row)}:
                least[name] = min(least.get(name, float("inf")), cost(row, "weights"))
        for name, weights in least.items():
            if name != OWN and OWN in least:
                found[name].append(weights / least[OWN])
    return dict(sorted(found.items()))


def with_several_heads(rows: Sequence[Row]) -> list[list[Row]]:
    """The rows of each graph that was searched with several numbers of heads, under the rule max."""
    graphs: dict[tuple[object, ...], list[Row]] = defaultdict(list)
    for row in matching(rows, rule="max"):
        graphs[tuple(row[name] for name in (*PROBLEM, "seed"))].append(row)
    return [
        own for own in graphs.values() if len({row["heads"] for row in own if row["key_heads"] == row["heads"]}) > 1
    ]


def exponents(points: Iterable[Row], name: str, rule: str = "max") -> list[float]:
    """The law price = (h/g)^a, fitted to the prices of each problem: its a, by least squares of the logarithms."""
    problems: dict[tuple[object, ...], list[tuple[float, float]]] = defaultdict(list)
    for point in points:
        price = point["price"].get(name)
        if point["rule"] == rule and point["sharing"] != OWN and not point["latent"] and price is not None:
            sharing = math.log(point["heads"] / point["key_heads"])
            problems[tuple(point[one] for one in (*PROBLEM, "heads"))].append((sharing, math.log(price)))
    return [sum(x * y for x, y in pairs) / sum(x * x for x, _ in pairs) for pairs in problems.values()]


def absent(rows: Sequence[Row]) -> str:
    """The sizes and seeds that were planned and have no rows, or not all of them."""
    lines = []
    for size in SIZES:
        for degree in size.degrees:
            key = {"rule": size.rule, "items": size.items, "d_model": size.d_model, "degree": degree}
            there = matching(rows, **key)
            whole = [seed for seed in SEEDS if len(matching(there, seed=seed)) == len(size.sharings)]
            if len(whole) < len(SEEDS):
                what = f"({size.items}, {size.d_model}), {_graphs(degree)}, rule {size.rule}"
                lines.append(f"- {what}: {len(whole)} of {len(SEEDS)} seeds are complete")
    fewer = [
        f"{_graphs(degree)} at ({size.items}, {size.d_model}) with {size.heads[0]} heads"
        for size in sorted(SIZES, key=lambda size: size.items)
        for degree in size.degrees
        if size.rule == "max" and len(size.heads) == 1
    ]
    lines = lines or ["- Of the planned searches nothing: every one was made."]
    return "\n".join([*lines, f"- Other numbers of heads. One number only was planned for {', '.join(fewer)}."])


def page(tables: Tables) -> str:
    """The text of the page."""
    rows = tables[NAME]
    points = summarise(rows)
    by_weights = prices(points, "weights")
    few = [price for number in SHARINGS[:2] for price in by_weights[f"{number} heads a key head"]]
    many, latent = by_weights["8 heads a key head"], by_weights[f"{LATENT} of 2 d_k"]
    largest = max(matching(rows, rule="max"), key=lambda row: int(row["items"]))
    shared = [point for point in points if point["sharing"] != OWN and point["rule"] == "max" and point["held"]]
    facts = {
        "price_table": _prices(points),
        "best_table": _best(best_weights([row for own in with_several_heads(rows) for row in own])),
        "softmax_table": _softmax(points),
        "trained_table": _trained(tables.get(TRAINED, [])),
        "layers": _layers([point for point in points if point["rule"] == "max"]),
        "models": _models(),
        "few": _range(few),
        "many": _range(many),
        "latent": _range(latent + by_weights[f"{LATENT} of 4 d_k"]),
        "within": f"{max(max(few) - 1, 1 - min(few)):.0%}",
        "largest": f"{largest['items']:,} and d_model up to {largest['d_model']}",
        "products_range": f"{min(_of(shared, 'multiply_adds')):.2f} to {max(_of(shared, 'multiply_adds')):.2f}",
        "cached_range": f"{min(_of(shared, 'cached')):.2f} to {max(_of(shared, 'cached')):.2f}",
        "bits": _bits(points),
        "attempts": "; ".join(
            f"({size.items}, {size.d_model}), {' and '.join(map(_graphs, size.degrees))}, {size.rule}: {size.attempts}"
            for size in SIZES
        ),
        "absent": absent(rows),
        "rows": len(rows),
        "none": sum(1 for row in rows if row["key_width"] is None),
        "hours": f"{sum(row['cpu_seconds'] for row in rows) / 60:.0f}",
        "context": CONTEXT,
        "other_heads": len(with_several_heads(rows)),
        **_laws(points),
        **_growth(points),
        **_softmax_prices(points),
        "length": f"{CONTEXT_LENGTH:,}",
        "machine": machine_text(tables[f"{NAME}-machine"]),
    }
    return fill(__file__, facts)


def _laws(points: Sequence[Row]) -> dict[str, str]:
    """The exponents of the fitted law, and how far the prices in weights lie from it."""
    found = {name: exponents(points, name) for name in COSTS}
    law = median(found["weights"])
    shared = [point for point in points if point["sharing"] != OWN and point["rule"] == "max" and not point["latent"]]
    apart = [point["price"]["weights"] / (point["heads"] / point["key_heads"]) ** law for point in shared]
    return {
        **{f"a_{name}": _range(values).replace("-", "−") for name, values in found.items()},
        "a_problems": str(len(found["weights"])),
        "a_apart": f"{min(apart):.2f} to {max(apart):.2f}",
        "a_softmax": " and ".join(f"{one:.2f}" for one in exponents(points, "weights", "softmax")),
    }


def _growth(points: Sequence[Row]) -> dict[str, str]:
    """Whether the price grows with the heads a key head, and with the size."""
    found = prices(points)
    eights = matching(points, rule="max", sharing="8 heads a key head")
    ladders, ranges = [], []
    for point in eights:
        same = {str(one["sharing"]): one for one in points if all(one[k] == point[k] for k in (*PROBLEM, "heads"))}
        ladders.append([same[f"{number} heads a key head"]["price"]["freedom"] for number in SHARINGS])
        (low, high), (own_low, own_high) = _weights_between(point), _weights_between(same[OWN])
        ranges.append((low / own_high, high / own_low))
    lowest, highest = max(ranges, key=lambda one: one[1] - one[0])
    return {
        "growth": ", ".join(f"{median(found[f'{number} heads a key head']):.2f}" for number in SHARINGS),
        "steps": f"{sum(ladder == sorted(ladder) for ladder in ladders)} of {len(ladders)}",
        "eight": " and ".join(_by_size(matching(eights, degree=degree)) for degree in (1, 4)),
        "rounding": f"in one problem only that it is between {lowest:.2f} and {highest:.2f}",
    }


def _by_size(points: Sequence[Row]) -> str:
    """The prices in weights of problems of one kind, from the smallest size to the largest."""
    shown = ", ".join(f"{point['price']['weights']:.2f}" for point in points)
    return f"{shown} for {_graphs(points[0]['degree'])} of {points[0]['items']:,} to {points[-1]['items']:,} items"


def _weights_between(point: Row) -> tuple[int, int]:
    """The weights at the width that failed and at the next one, which held, of the middle seed."""
    layer = point["layer"]
    return replace(layer, key_width=layer.key_width - 1).parameters, layer.parameters


def _softmax_prices(points: Sequence[Row]) -> dict[str, str]:
    """The weights of shared keys under softmax, and under the rule max for the same kind of problem."""
    facts = {}
    for rule in ("softmax", "max"):
        there = prices(matching(points, heads=4, degree=1), "weights", rule)
        names = {"few": "2 heads a key head", "many": "4 heads a key head", "latent": f"{LATENT} of 2 d_k"}
        for word, name in names.items():
            values = there.get(name, [float("nan")])
            facts[f"{rule}_{word}"] = f"{min(values):.2f} to {max(values):.2f}"
    return facts


def _of(points: Sequence[Row], name: str) -> list[float]:
    return [point["price"][name] for point in points if point["price"].get(name) is not None] or [float("nan")]


def _graphs(degree: int) -> str:
    return "permutations" if degree == 1 else f"{degree}-regular graphs"


def _range(values: Sequence[float]) -> str:
    return f"{median(values):.2f} ({min(values):.2f} to {max(values):.2f})"


def _prices(points: Sequence[Row]) -> str:
    found = [prices(points, name) for name in COSTS]
    lines = [[name, len(found[0][name]), *(_range(one[name]) for one in found)] for name in found[0]]
    return table(["", "problems", "weights", "degrees of freedom", "cached numbers", "multiply-adds a token"], lines)


def _best(found: dict[str, list[float]]) -> str:
    return table(["", "graphs", "weights"], [[name, len(values), _range(values)] for name, values in found.items()])


def _softmax(points: Sequence[Row]) -> str:
    lines = [
        [
            point["items"], point["d_model"], point["sharing"], f"{point['held']} of {point['seeds']}",
            *_layer_cells(point), *_price_cells(point),
        ]
        for point in points
        if point["rule"] == "softmax"
    ]  # fmt: skip
    head = ["m", "d_model", "4 heads with", "held", "d_k", "weights", "cached", "weights over own", "cached over own"]
    return table(head, lines) if lines else "No rows yet."


def _trained(rows: Sequence[Row]) -> str:
    """The prices of trained layers, at the narrowest heads that reach the goal."""
    found: dict[str, dict[str, list[float]]] = {}
    for row in rows:
        own = matching(rows, **{name: row[name] for name in ("items", "d_model", "degree", "heads")})
        own = [one for one in own if one["key_heads"] == one["heads"] and one["key_width"] is not None]
        if row["key_width"] is None or not own or row["key_heads"] == row["heads"]:
            continue
        shared, alone = (shape_of(one | {"latent": 0}, one["key_width"]) for one in (row, own[0]))
        ratios = found.setdefault(sharing_of(row | {"latent": 0}), {name: [] for name in COSTS})
        for name, of in COSTS.items():
            ratios[name].append(of(shared) / of(alone))
    lines = [[name, len(one["weights"]), *(_range(values) for values in one.values())] for name, one in found.items()]
    head = ["", "problems", "weights", "degrees of freedom", "cached numbers", "multiply-adds a token"]
    return table(head, sorted(lines, key=lambda line: int(str(line[0]).split()[0]))) if lines else "No rows yet."


def _layers(points: Sequence[Row]) -> str:
    head = ["m", "d_model", "graphs", "heads", "keys", "held", "d_k", "weights", "cached"]
    head += ["weights over own", "cached over own", "degrees of freedom", "multiply-adds a token", "bits per weight"]
    head += ["bits per cached number"]
    lines = []
    for point in points:
        layer = point.get("layer")
        lines.append(
            [
                point["items"], point["d_model"], _graphs(point["degree"]), point["heads"], point["sharing"],
                f"{point['held']} of {point['seeds']}", *_layer_cells(point), *_price_cells(point),
                *(
                    ["", "", "", ""] if layer is None
                    else [
                        f"{layer.all_freedom:,}", f"{layer.token_multiply_adds(CONTEXT_LENGTH):,}",
                        f"{point['bits']:.2f}", f"{point['cached_bits']:.2f}",
                    ]
                ),
            ]
        )  # fmt: skip
    return table(head, lines)


def _layer_cells(point: Row) -> list[str]:
    if "layer" not in point:
        return ["none", "", ""]
    widths, layer = point["widths"], point["layer"]
    shown = f"{widths[0]} … {widths[-1]}" if widths[0] < widths[-1] else f"{widths[0]}"
    return [shown, f"{layer.parameters:,}", f"{layer.key_budget:,}"]


def _price_cells(point: Row) -> list[str]:
    found = (point["price"].get(name) for name in ("weights", "cached"))
    return ["" if price is None else f"{price:.2f}" for price in found]


def _bits(points: Sequence[Row]) -> str:
    """Bits per weight and per cached number of own keys and of one shared key head, in the median."""
    parts = []
    for name, where in (("own keys", {"sharing": OWN}), ("one key head for all", {"key_heads": 1, "latent": 0})):
        there = [point for point in matching(points, rule="max", **where) if "layer" in point]
        bits, cached = (median(point[key] for point in there) for key in ("bits", "cached_bits"))
        parts.append(f"{bits:.2f} bits per weight and {cached:.2f} bits per cached number for {name}")
    return ", ".join(parts)


def _models() -> str:
    head = ["model", "shape", "cached", "weights", "cache saved", "weights saved", "relations, of own keys"]
    head += ["relations per cached number, over own keys"]
    lines = []
    for name in MODELS:
        model = ARCHITECTURES[name]
        assert model.vocabulary is not None, "these models have a published vocabulary"
        shape, found = model.shape, layer_cost(model.shape, items=model.vocabulary)
        own, loss = shape.unshared, found.loss
        assert loss is not None, "these models share keys"
        kept = [number / loss.own for number in (loss.likely, loss.low, loss.high)]
        lines.append(
            [
                name, f"{shape.words()}, d_model {shape.d_model:,}", f"{shape.key_budget:,}", f"{shape.parameters:,}",
                f"{1 - shape.key_budget / own.key_budget:.0%}", f"{1 - shape.parameters / own.parameters:.0%}",
                f"{kept[0]:.0%} ({kept[1]:.0%} to {kept[2]:.0%})",
                f"{kept[0] * own.key_budget / shape.key_budget:.1f} times",
            ]
        )  # fmt: skip
    return table(head, lines)
