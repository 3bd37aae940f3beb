"""Sec. 5 and 8: the key budget that construction II needs with one head and with several."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from manyheads.bounds.upper import many_heads_key_budget, single_head_key_budget
from manyheads.drawing.style import BLUE, VERMILLION, counting_axis, look, panels, power_axis
from manyheads.layer.rules import MAX, SOFTMAX, Rule
from manyheads.papers.effort import Scale
from manyheads.papers.exhibit import Exhibit
from manyheads.papers.exhibits.softmax_trials import NeededWidth
from manyheads.papers.rows import Rows

D_MODEL, SIZES, HEADS = 256, (32, 64, 128, 256, 512, 1024), (1, 2, 4, 8, 16)
RULES = (MAX, SOFTMAX)
CONTEXT, CONTEXTS = 32, 30
DRAWS, QUICK_DRAWS, PAPER_SEEDS = 5, 2, 2
BUDGET_PER_ITEM = 16  # a search ends at a key budget of this many times m


@dataclass(frozen=True)
class NeededBudget:
    """The key budget that a head count needs at one size, over all seeds."""

    heads: int
    key_budget: float | None  # the geometric mean over the seeds; None if a seed has no width
    limit_wrong: float  # the share of relations wrong in the limit d_k → ∞, mean over the seeds


Sizes = dict[int, list[NeededBudget]]


def runs(scale: Scale) -> list[NeededWidth]:
    """Every size and head count under both rules."""
    return [
        run for rule in RULES for items in _sizes(scale) for heads in HEADS for run in _seeds(rule, items, heads, scale)
    ]


def draw(rows: Rows, scale: Scale) -> Figure:
    """D_K against m for one head and for the best of several; a cross if no width works, with the share of errors."""
    with look():
        figure, (line,) = panels(1, 2)
        for axes, rule in zip(line, RULES, strict=True):
            _panel(axes, _needed(rule, rows, scale), softmax=rule is SOFTMAX)
            axes.set_title("max" if rule is MAX else f"softmax, contexts of {CONTEXT}")
            axes.set_xlabel(f"items m, at $d_{{model}}$ = {D_MODEL}")
        line[0].set_ylabel("key budget $D_K$ needed")
        handles, names = line[0].get_legend_handles_labels()
        figure.legend(handles, names, loc="outside lower center", ncols=4)
    return figure


def caption(rows: Rows, scale: Scale) -> str:
    """The key budgets under both rules, and the size from which several heads need less."""
    parts = [f"Under {rule}: {_shown(_needed(rule, rows, scale))}" for rule in RULES]
    return (
        f"Construction II over Gaussian rows, d_model = {D_MODEL}: the smallest D_K at which every draw separates with "
        f"the best threshold, h up to {HEADS[-1]}. {'. '.join(parts)}. Dashed: the growth that Sec. 5 and 8 derive, "
        "(m/d)²·ln m for one head and (m/d)·ln m for many, with (ln ℓ)² under softmax, through the middle of the "
        "points. It does not include the mean of the leakage, which a larger width does not reduce; for large m one "
        "head has no width at all because of it."
    )


def _sizes(scale: Scale) -> list[int]:
    sizes = [items for items in SIZES if items <= scale.most_items]
    return sizes[::2] if scale.quick else sizes


def _seeds(rule: Rule, items: int, heads: int, scale: Scale) -> list[NeededWidth]:
    """The runs of one point; a quick reproduction has one seed."""
    seeds = range(scale.seeds or (1 if scale.quick else PAPER_SEEDS))
    context = (0, 0) if rule is MAX else (CONTEXT, CONTEXTS)
    draws, budget = QUICK_DRAWS if scale.quick else DRAWS, BUDGET_PER_ITEM * items
    return [NeededWidth(str(rule), items, D_MODEL, heads, draws, budget, seed, *context) for seed in seeds]


def _needed(rule: Rule, rows: Rows, scale: Scale) -> Sizes:
    """By size, the needs of every head count, where all runs have a row."""
    found = {}
    for items in _sizes(scale):
        by_heads = [(heads, _seeds(rule, items, heads, scale)) for heads in HEADS]
        if all(rows.have_all(wanted) for _, wanted in by_heads):
            found[items] = [_one(heads, wanted, rows) for heads, wanted in by_heads]
    return found


def _one(heads: int, wanted: list[NeededWidth], rows: Rows) -> NeededBudget:
    widths = [row.scores["key_width"] for row in rows.of(wanted)]
    wrong = float(np.mean([row.scores["limit_wrong"] or 0.0 for row in rows.of(wanted)]))
    known = [width for width in widths if width]
    budget = heads * float(np.exp(np.mean(np.log(known)))) if len(known) == len(widths) else None
    return NeededBudget(heads, budget, wrong)


def _single(found: list[NeededBudget]) -> NeededBudget:
    return next(one for one in found if one.heads == 1)


def _best(found: list[NeededBudget]) -> NeededBudget | None:
    return min(
        (one for one in found if one.heads > 1 and one.key_budget), key=lambda one: one.key_budget or 0, default=None
    )


def _panel(axes: Axes, found: Sizes, *, softmax: bool) -> None:
    singles = [(items, one.key_budget) for items, all_heads in found.items() if (one := _single(all_heads)).key_budget]
    several = [(items, best) for items, all_heads in found.items() if (best := _best(all_heads))]
    context = CONTEXT if softmax else None
    lines = (
        ("one head", singles, BLUE, "o", single_head_key_budget),
        ("the best of several", [(m, one.key_budget) for m, one in several], VERMILLION, "s", many_heads_key_budget),
    )
    for name, points, colour, marker, law in lines:
        if not points:
            continue
        x, y = np.array([m for m, _ in points], dtype=float), np.array([budget for _, budget in points], dtype=float)
        axes.plot(x, y, color=colour, marker=marker, label=name)
        crowded = x >= D_MODEL  # the growth is derived for m ≥ d_model
        if not crowded.any():
            continue
        through = float(np.exp(np.log(y / law(items=x, d_model=D_MODEL, context_length=context))[crowded].mean()))
        growth = np.geomspace(D_MODEL, max(D_MODEL, *found), 50)
        axes.plot(
            growth, through * law(items=growth, d_model=D_MODEL, context_length=context), color=colour, linestyle="--",
            linewidth=1, label=f"{name}: derived growth",
        )  # fmt: skip
    for items, one in several:
        axes.annotate(
            f"h = {one.heads}", (items, one.key_budget or 0), xytext=(4, -11), textcoords="offset points", fontsize=8,
            color=VERMILLION,
        )  # fmt: skip
    axes.set(xscale="log", yscale="log")
    axes.margins(y=0.14)
    for items, all_heads in found.items():
        one = _single(all_heads)
        if one.key_budget is None:
            axes.plot([items], [0.93], "x", color=BLUE, markersize=8, transform=axes.get_xaxis_transform())
            why = f"{one.limit_wrong:.1%} wrong" if one.limit_wrong else f"none up to {BUDGET_PER_ITEM}·m"
            axes.annotate(
                why, (items, 0.93), xycoords=axes.get_xaxis_transform(), xytext=(-7, 0), textcoords="offset points",
                ha="right", va="center", fontsize=8, color=BLUE,
            )  # fmt: skip
    power_axis(axes.xaxis, SIZES)
    counting_axis(axes.yaxis)


def _shown(found: Sizes) -> str:
    parts = []
    for items, all_heads in found.items():
        single, best = _single(all_heads), _best(all_heads)
        one = f"{single.key_budget:,.0f}" if single.key_budget else _absent(single)
        many = f"{best.key_budget:,.0f} with {best.heads} heads" if best and best.key_budget else "none"
        parts.append(f"m = {items}: {one} with one head, {many}")
    crossing = [m for m, heads in found.items() if (best := _best(heads)) and _beats(best, _single(heads))]
    return "; ".join(parts) + (
        f"; several need less from m = {min(crossing)} on" if crossing else "; one head needs least"
    )


def _beats(best: NeededBudget, single: NeededBudget) -> bool:
    return single.key_budget is None or (best.key_budget or 0) < single.key_budget


def _absent(single: NeededBudget) -> str:
    return (
        f"no width ({single.limit_wrong:.1%} of the relations wrong in the limit)"
        if single.limit_wrong
        else f"none up to a D_K of {BUDGET_PER_ITEM}·m"
    )


ONE_OR_MANY = Exhibit("One head or many: the construction's key budget", runs, draw, caption, work=frozenset({"trial"}))
