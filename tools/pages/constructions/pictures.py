"""The picture of Sec. 5: signal and noise of a head against the number of relations that it serves.

Two tables of rows, both of one embedding:
noise       block_size; the largest `signal`, `n1`, `n2`, `n3_mean`, `n3_fluctuation` over all pairs; `low`, the largest
            score of another pair, and `high`, the smallest of a relation; both in the limit; all divided by d_k
background  context_length, scale, and the `least`, `mean` and `most` attention of the heads that do not own the source
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

from matplotlib.axes import Axes
from matplotlib.figure import Figure

from manyheads.drawing.style import (
    BLACK,
    BLUE,
    GREEN,
    GREY,
    ORANGE,
    PANEL_HEIGHT,
    PANEL_WIDTH,
    PURPLE,
    SKY,
    VERMILLION,
    look,
    panels,
)
from tools.pages.rows import Tables

Row = Mapping[str, Any]

TERMS = (  # column, label, colour, marker, line
    ("signal", "a wrong signature", PURPLE, "v", "-"),
    ("n1", "$N_1$, leaked into the key", SKY, "s", "-"),
    ("n2", "$N_2$, into the query", GREEN, "^", ":"),  # dotted: its values nearly equal those of N1
    ("n3_fluctuation", "$N_3$, fluctuation", ORANGE, "o", "-"),
    ("n3_mean", "$N_3$, mean (any width)", VERMILLION, "D", "-"),
)
LEGEND = {
    "loc": "upper center", "bbox_to_anchor": (0.5, -0.16), "ncols": 2, "fontsize": 8, "columnspacing": 1.0,
    "handlelength": 1.8, "labelspacing": 0.35,
}  # fmt: skip


def figures(tables: Tables) -> dict[str, Figure]:
    """The picture of the page."""
    return {"constructions-noise": draw_noise(tables["constructions-noise"], tables["constructions-background"])}


def draw_noise(terms: Sequence[Row], backgrounds: Sequence[Row]) -> Figure:
    """Noise against block size, the scores that follow from it, and the background under softmax."""
    with look():
        # tall: each panel has its legend below it
        figure, ((left, middle, right),) = panels(1, 3, (2.6 * PANEL_WIDTH, 1.35 * PANEL_HEIGHT))
        _terms(left, terms)
        _windows(middle, terms)
        _background(right, backgrounds)
    return figure


def _terms(axes: Axes, rows: Sequence[Row]) -> None:
    sizes = [row["block_size"] for row in rows]
    axes.axhline(1, color=BLACK, label="signal: the true signature")
    axes.axhline(0.5, color=BLACK, linestyle=":", linewidth=1, label="the paper's τ")
    for name, label, colour, marker, line in TERMS:
        axes.plot(sizes, [row[name] for row in rows], color=colour, marker=marker, linestyle=line, label=label)
    # Eq. 1 with the constant 1
    first = rows[0]
    law = [math.sqrt(math.log(first["items"]) / first["key_width"]) * size / first["d_model"] for size in sizes]
    axes.plot(sizes, law, color=GREY, linestyle="--", label="Eq. 1, constant 1")
    axes.set_yscale("log")
    axes.set_ylim(1e-3, 3)
    axes.set_ylabel("largest over all pairs, in units of $d_k$")
    axes.set_title(f"Signal and noise of one head, $d_k = {first['key_width']}$")
    axes.legend(**LEGEND)
    _block_axis(axes, rows)


def _windows(axes: Axes, rows: Sequence[Row]) -> None:
    sizes = [row["block_size"] for row in rows]
    low, high = ([row[name] for row in rows] for name in ("low", "high"))
    axes.fill_between(sizes, low, high, where=[a < b for a, b in zip(low, high, strict=True)], color=SKY, alpha=0.25)
    axes.plot(sizes, high, color=BLUE, marker="o", label="smallest score of a relation")
    axes.plot(sizes, low, color=VERMILLION, marker="s", label="largest of any other pair")
    axes.plot(sizes, [row["limit_high"] for row in rows], color=BLUE, linestyle="--", linewidth=1)
    axes.plot(sizes, [row["limit_low"] for row in rows], color=VERMILLION, linestyle="--", linewidth=1)
    axes.plot([], [], color=GREY, linestyle="--", linewidth=1, label="both as $d_k → ∞$")
    axes.axhline(0.5, color=BLACK, linestyle=":", linewidth=1, label="the paper's τ")
    axes.set_ylim(0, 1.45)
    axes.set_ylabel("score, in units of $d_k$")
    axes.set_title("Scores of relations and of other pairs")
    axes.legend(**LEGEND)
    _block_axis(axes, rows)


def _block_axis(axes: Axes, rows: Sequence[Row]) -> None:
    d_model, items = rows[0]["d_model"], rows[0]["items"]
    axes.set_xscale("log", base=2)
    axes.set_xticks([row["block_size"] for row in rows])
    axes.xaxis.set_major_formatter(lambda value, _: f"{value:g}")
    axes.minorticks_off()
    axes.axvline(d_model, color=GREY, linewidth=0.8)
    bottom = axes.get_ylim()[0]
    axes.annotate("$d_{model}$", (d_model, bottom), xytext=(-3, 3), textcoords="offset points", ha="right", color=GREY)
    axes.annotate("one head", (items, bottom), xytext=(0, 3), textcoords="offset points", ha="right", color=GREY)
    axes.set_xlabel("relations a head serves, B")


def _background(axes: Axes, rows: Sequence[Row]) -> None:
    heads, items = rows[0]["heads"], rows[0]["items"]
    for scale, colour in zip(sorted({row["scale"] for row in rows}, reverse=True), (VERMILLION, BLUE), strict=True):
        own = [row for row in rows if row["scale"] == scale]
        lengths = [row["context_length"] for row in own]
        label = "as published" if scale == 1 else f"logits times {scale:g}"
        axes.fill_between(
            lengths, [row["least"] for row in own], [row["most"] for row in own], color=colour, alpha=0.2, linewidth=0
        )
        axes.plot(lengths, [row["most"] for row in own], color=colour, marker="o", label=f"largest, {label}")
    lengths = sorted({row["context_length"] for row in rows})
    mean = [(heads - 1) / length for length in lengths]
    spread = [(math.sqrt(heads * math.log(items)) + math.log(items)) / length for length in lengths]
    axes.plot(lengths, mean, color=BLACK, label="mean, $(h-1)/ℓ$")
    allowed = [centre + more for centre, more in zip(mean, spread, strict=True)]
    axes.plot(lengths, allowed, color=BLACK, linestyle="--", label="Eq. 13, $C_2 = 1$")
    axes.axhline(0.5, color=BLACK, linestyle=":", linewidth=1, label="the paper's τ")
    axes.set_xscale("log", base=2)
    axes.set_yscale("log")
    axes.set_xticks(lengths)
    axes.xaxis.set_major_formatter(lambda value, _: f"{value:g}")
    axes.set_ylim(3e-3, 4)
    axes.set_xlabel("length of the context, ℓ")
    axes.set_ylabel("attention from the other heads, $B_{ij}$")
    axes.set_title(f"Softmax background, {heads} heads")
    axes.legend(**LEGEND)
