"""Pictures of the incoherence profile: families against Corollaries B.6 and B.7, and the items of Lemma B.3.

A row is an `IncoherenceProfile` as a mapping, with these columns besides: `family`, `seed`, `ones` (expected ones in a
sparse row), `over` ("sets": all sets, as in Definition B.4; "blocks": the blocks of a construction), and the paper's
formulas without their constants: `paper_epsilon`, `paper_rho`, `paper_gamma`.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from matplotlib.axes import Axes
from matplotlib.figure import Figure

from manyheads.drawing.style import BLACK, BLUE, GREEN, GREY, ORANGE, VERMILLION, look, panels
from tools.pages.rows import Tables

Row = Mapping[str, Any]

# formulas of the corollaries for ρ and for γ
FORMULAS = {
    "Gaussian": ("Cor. B.6: $B/d_{model}$", "Cor. B.6: $\\sqrt{B/d_{model}}$"),
    "sparse binary": ("Cor. B.7: $B/d_{model}$", "Cor. B.7: $B\\,p_B^2$"),
}


def figures(tables: Tables) -> dict[str, Figure]:
    """Both pictures of the page."""
    return {
        "incoherence": draw_profile(tables["incoherence"]),
        "incoherence-lemma": draw_lemma(tables["incoherence-lemma"], tables["incoherence-density"]),
    }


def draw_profile(rows: Sequence[Row]) -> Figure:
    """ρ and γ against block size, a line of panels for each family; all rows have the same items and d_model."""
    with look():
        figure, axes = panels(len(FORMULAS), 2)
        for (left, right), (family, (rho_formula, gamma_formula)) in zip(axes, FORMULAS.items(), strict=True):
            own = [row for row in rows if row["family"] == family]
            on_sets, on_blocks = ([row for row in own if row["over"] == over] for over in ("sets", "blocks"))
            _curve(left, on_sets, "rho", VERMILLION, "o", "worst set (Def. B.4)")
            _curve(left, on_blocks, "rho", BLUE, "s", "on the blocks")
            _guide(left, own, "paper_rho", rho_formula)
            left.set(title=f"ρ, leakage: {family} rows", ylabel="ρ")
            _curve(right, on_sets, "gamma", VERMILLION, "o", "worst set (Def. B.4)")
            _curve(right, on_sets, "gamma_distinct", ORANGE, "^", "worst set, $i ≠ j$")
            _curve(right, on_blocks, "gamma", BLUE, "s", "on the blocks")
            _guide(right, own, "paper_gamma", gamma_formula)
            right.set(title=f"γ, cross-leakage: {family} rows", ylabel="γ")
        for axis in axes.flat:
            _frame(axis, rows[0]["items"], rows[0]["d_model"])
        for axis in axes[-1]:
            axis.set_xlabel("block size B")
    return figure


def draw_lemma(growing: Sequence[Row], densities: Sequence[Row]) -> Figure:
    """Lemma B.3 on blocks of d_model items as m grows, and ε_d of sparse binary rows as they fill."""
    with look():
        figure, ((mass, cross, diagonal),) = panels(1, 3)
        _ranges(mass, ((row["items"], row["rho"]) for row in growing), BLUE, "o", "measured")
        mass.axhline(2.0, color=BLACK, linestyle="--", linewidth=1.2, label="the lemma's $C_2 = 2$")
        mass.set(title="Lemma B.3, item 2: leakage mass", ylabel="largest $\\|δ_{i,S}\\|^2$", ylim=(0, 2.5))
        mass.legend(loc="lower left")

        _ranges(cross, ((row["items"], row["gamma"] / row["paper_gamma"]) for row in growing), GREEN, "s", "measured")
        cross.set(title="Item 3: $|Σ δ_i δ_j|$ over $\\sqrt{\\ln m/d_{model}}$", ylabel="$C_3$", ylim=(0, 3))
        ratio = growing[0]["items"] // growing[0]["d_model"]
        for axis in (mass, cross):
            _doubling(axis, sorted({row["items"] for row in growing}))
            axis.set_xlabel(f"items m, with $d_{{model}} = B = m/{ratio}$")

        _ranges(diagonal, ((row["ones"], row["epsilon"]) for row in densities), VERMILLION, "^", "measured")
        _guide(diagonal, densities, "paper_epsilon", "Cor. B.7: $1/\\sqrt{μ}$", along="ones")
        _doubling(diagonal, sorted({row["ones"] for row in densities}))
        diagonal.set(title="$ε_d$ of sparse binary rows", ylabel="$ε_d$", ylim=(0, 1.05))
        diagonal.set_xlabel("ones expected in a row, $d_{model}\\,p_B$")
        diagonal.legend(loc="upper right")
    return figure


def _frame(axis: Axes, items: int, d_model: int) -> None:
    axis.axhline(1 / math.log(items), color=GREY, linestyle=":", linewidth=1.2, label="$1/\\ln m$ (Theorem B.5)")
    axis.axvline(d_model, ymin=0.4, color=GREY, linewidth=0.8)  # the legend stands below
    axis.annotate("$d_{model}$", (d_model, 1), xycoords=("data", "axes fraction"), xytext=(3, -10),
                  textcoords="offset points", color=GREY)  # fmt: skip
    _doubling(axis, [4**n for n in range(math.ceil(math.log(items, 4)) + 1)])
    axis.set(yscale="log", ylim=(1e-3, 60))
    axis.legend(loc="lower right", labelspacing=0.25)


def _doubling(axis: Axes, ticks: Sequence[int | float]) -> None:
    axis.set_xscale("log", base=2)
    axis.set_xticks(ticks, [f"{tick:.3g}" if isinstance(tick, float) else str(tick) for tick in ticks])
    axis.minorticks_off()


def _curve(axis: Axes, rows: Iterable[Row], column: str, colour: str, marker: str, label: str) -> None:
    _ranges(axis, ((row["block_size"], row[column]) for row in rows), colour, marker, label)


def _ranges(axis: Axes, points: Iterable[tuple[float, float]], colour: str, marker: str, label: str) -> None:
    """The mean over seeds, in a band from the smallest to the largest."""
    by_place = defaultdict(list)
    for place, value in points:
        by_place[place].append(value)
    places = sorted(by_place)
    values = [by_place[place] for place in places]
    axis.plot(places, [sum(v) / len(v) for v in values], marker=marker, color=colour, label=label)
    axis.fill_between(places, [min(v) for v in values], [max(v) for v in values], color=colour, alpha=0.2, linewidth=0)


def _guide(axis: Axes, rows: Iterable[Row], column: str, label: str, *, along: str = "block_size") -> None:
    places, values = zip(*sorted({(row[along], row[column]) for row in rows}), strict=True)
    axis.plot(places, values, color=BLACK, linestyle="--", linewidth=1.2, label=label)
