"""Exhibits of the head-count paper: heads of width 8, variants, wider MLPs, and digits in place of its real data."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from statistics import fmean

from matplotlib.figure import Figure

from manyheads.drawing.style import legend, look, panels, shared_legend
from manyheads.papers.effort import Scale
from manyheads.papers.exhibit import HEAD_COUNT, Exhibit
from manyheads.papers.head_count_setting import (
    HEAD_COLOURS,
    HEADS,
    LENGTHS,
    RetrievalSetting,
    heads_and_lengths,
    over_heads,
    table,
)
from manyheads.papers.rows import Rows
from manyheads.papers.verdict import Verdict, judged, missing
from manyheads.retrieval.retrieval_run import RetrievalRun

# Table 2 of the paper: NMSE, a row for each head count, a column for each length.
PRINTED = (
    (7.01e-2, 1.09e-1, 1.10e-1, 1.14e-1, 1.45e-1),
    (7.31e-3, 8.41e-3, 9.42e-3, 1.31e-2, 1.47e-2),
    (6.94e-4, 6.40e-4, 9.09e-4, 1.31e-3, 1.58e-3),
    (6.10e-5, 4.36e-5, 4.80e-5, 8.75e-6, 5.23e-6),
    (3.35e-5, 1.10e-5, 4.91e-6, 4.19e-6, 3.99e-6),
)
SETTING = RetrievalSetting(
    "n = 8, D = 4",
    head_width=8,
    paper={
        (heads, length): nmse
        for heads, line in zip(HEADS, PRINTED, strict=True)
        for length, nmse in zip(LENGTHS, line, strict=True)
    },
)
FIXED = RetrievalSetting(
    "E = 32, D = 4",
    embedding=32,
    paper={
        (1, 8): 1.75e-2, (1, 128): 3.03e-2, (2, 8): 7.17e-3, (2, 128): 1.02e-2,
        (3, 8): 2.11e-4, (3, 128): 4.77e-4, (4, 8): 1.32e-6, (4, 128): 5.70e-7,
    },
)  # fmt: skip
THREE = RetrievalSetting("E = 32, D = 3", dimension=3, embedding=32, heads=(1, 2, 3, 4))
TWO_LAYERS = RetrievalSetting(
    "E = 32, D = 4, two layers",
    layers=2,
    embedding=32,
    heads=(1, 2, 3, 4),
    paper={(1, 8): 2e-4},
)
VARIANTS = (FIXED, THREE, TWO_LAYERS)
WIDTH_LENGTH = 32  # T of the figure over the width of the MLPs
MLP_WIDTHS = (8, 16, 32, 64, 128)
DIGITS = RetrievalSetting(
    "digits, n = 8, D = 4", head_width=8, task="digits", lengths=(16, 32, 64, 128), examples=(1_437, 360)
)
DROP = 10.0  # the smallest factor that counts as a transition
REACHED = 1e-4  # NMSE that has to be reached after the transition
GROWTH = 2.0  # the largest factor over all lengths that counts as no growth


# Figure 1a and Table 2


def caption_heads(rows: Rows, scale: Scale) -> str:
    """The fall of the error at h = D."""
    found = SETTING.nmse(rows, scale)
    falls = [
        f"T = {length}: {min(found[3, length]):.1e} to {min(found[4, length]):.1e}"
        for length in SETTING.measured_lengths(scale)
        if (3, length) in found and (4, length) in found
    ]
    return (
        f"y = Σ of {SETTING.dimension} maxima over T tokens of N(0, I_4). Left: the best of "
        f"{len(SETTING.seeds(scale))} seeds. Right: their mean. From 3 heads to 4: {'; '.join(falls) or 'not run'}."
    )


def claims_heads(rows: Rows, scale: Scale) -> list[Verdict]:
    """Claims R1 to R3: the transition at h = D, and the growth with the length below and above it."""
    at, below, above = (
        f"NMSE falls sharply at h = D = 4 heads of width 8 (from h = 3 to 4, T = 8 to 128, by {_printed_falls()})",
        "with h < D heads the error grows with the length T (T = 8 to 128: by 2.1, 2.0 and 2.3 for h = 1, 2, 3)",
        "with h ≥ D heads the error does not grow with T (T = 8 to 128: by 0.09 and 0.12 for h = 4, 5)",
    )
    if not SETTING.complete(rows, scale):
        return [missing(claim, says, "not run") for claim, says in (("R1", at), ("R2", below), ("R3", above))]
    return [
        transition("R1", at, SETTING, rows, scale),
        _growth("R2", below, SETTING, rows, scale, heads=(1, 2, 3), grows=True),
        _growth("R3", above, SETTING, rows, scale, heads=(4, 5), grows=False),
    ]


def _printed_falls() -> str:
    """The paper's factors from h = 3 to 4, by length. At T = 8 every head brings about a factor of 10."""
    return ", ".join(f"{PRINTED[2][place] / PRINTED[3][place]:.0f}" for place in range(len(LENGTHS)))


def transition(claim: str, says: str, setting: RetrievalSetting, rows: Rows, scale: Scale) -> Verdict:
    """Whether the best seed's error falls by a factor of 10 where L·h reaches D, and to 1e-4."""
    found, lengths = setting.nmse(rows, scale), setting.measured_lengths(scale)
    enough = min(heads for heads in setting.heads if setting.layers * heads >= setting.dimension)
    factors = [min(found[enough - 1, length]) / min(found[enough, length]) for length in lengths]
    reached = max(min(found[enough, length]) for length in lengths)
    others = {
        heads: fmean(
            min(found[heads - 1, length]) / min(found[heads, length]) for length in lengths if (heads, length) in found
        )
        for heads in setting.heads[1:]
    }
    steps = ", ".join(f"{heads - 1} → {heads}: {factor:.3g}" for heads, factor in others.items())
    return judged(
        claim,
        says,
        f"h = {enough - 1} to {enough}: the best seed falls by factors from {min(factors):.3g} to {max(factors):.3g}, "
        f"to {reached:.1e} or better (mean factors {steps})",
        min(factors) >= DROP and reached <= REACHED,
        f"yardstick: a factor of {DROP:g} at every length, and {REACHED:g} reached",
    )


def _growth(
    claim: str, says: str, setting: RetrievalSetting, rows: Rows, scale: Scale, *, heads: tuple[int, ...], grows: bool
) -> Verdict:
    found, lengths = setting.nmse(rows, scale), setting.measured_lengths(scale)
    first, last = lengths[0], lengths[-1]
    factors = {h: fmean(found[h, last]) / fmean(found[h, first]) for h in heads}
    told = ", ".join(f"h = {h} {factor:.3g}" for h, factor in factors.items())
    holds = all(factor > 1 if grows else factor <= GROWTH for factor in factors.values())
    yardstick = "every factor above 1" if grows else f"no factor above {GROWTH:g}"
    return judged(
        claim, says, f"mean NMSE at T = {last} by that at T = {first}: {told}", holds, f"yardstick: {yardstick}"
    )


# Tables 3 to 5


def runs_variants(scale: Scale) -> list[RetrievalRun]:
    """Every point of the three tables; two layers first, since they take longest."""
    return [run for setting in reversed(VARIANTS) for run in setting.runs(scale)]


def draw_variants(rows: Rows, scale: Scale) -> Figure:
    """NMSE against the head count, a panel for each table; dotted: L·h = D."""
    with look():
        figure, (line,) = panels(1, 3)
        for axes, setting in zip(line, VARIANTS, strict=True):
            over_heads(axes, setting, rows, scale)
        line[0].set_ylabel("NMSE, the best seed")
        shared_legend(figure, line, order=lambda label: int(label.split()[-1]))
    return figure


def caption_variants(rows: Rows, scale: Scale) -> str:
    """The best seed's error of each head count at the largest length."""
    parts = []
    for setting in VARIANTS:
        found, length = setting.nmse(rows, scale), max(setting.measured_lengths(scale))
        line = [f"h = {h} {min(found[h, length]):.1e}" for h in setting.heads if (h, length) in found]
        parts.append(f"{setting.title}, T = {length}: {', '.join(line) or 'not run'}")
    return (
        f"The best of {len(FIXED.seeds(scale))} seeds. {'; '.join(parts)}. The paper, of E = 32 and D = 3: about 2e-2, "
        "1e-3 and 2e-7 for h = 1, 2, 3; of two layers: 2e-4 to 4e-4 for h = 1, 2e-6 to 8e-6 for h ≥ 2."
    )


def claims_variants(rows: Rows, scale: Scale) -> list[Verdict]:
    """Claims R4 to R6: the transition with a fixed E, with D = 3, and with two layers."""
    said = {
        "R4": "with E = 32 fixed, so that more heads are narrower ones, NMSE still falls sharply at h = D = 4",
        "R5": "the transition follows D: at D = 3 it is at h = 3",
        "R6": "two layers need half the heads: the transition moves to L·h = D, h = 2 at D = 4",
    }
    return [
        transition(claim, says, one, rows, scale) if one.complete(rows, scale) else missing(claim, says, "not run")
        for (claim, says), one in zip(said.items(), VARIANTS, strict=True)
    ]


# The second synthetic figure


def width_settings(scale: Scale) -> list[RetrievalSetting]:
    """A setting for each width N of the MLPs, at one length."""
    widths = MLP_WIDTHS[:3] if scale.quick else MLP_WIDTHS
    return [
        replace(SETTING, title=f"N = {width}, n = 8, D = 4", mlp_width=width, lengths=(WIDTH_LENGTH,), paper={})
        for width in widths
    ]


def runs_width(scale: Scale) -> list[RetrievalRun]:
    """The runs of every width, the widest first."""
    return [run for setting in reversed(width_settings(scale)) for run in setting.runs(scale)]


def draw_width(rows: Rows, scale: Scale) -> Figure:
    """The best seed's NMSE against the width, a line for each head count."""
    with look():
        figure, ((axes,),) = panels(1, 1)
        for heads, line in _lines(rows, scale).items():
            axes.plot(*zip(*line, strict=True), color=HEAD_COLOURS[heads], marker="o", label=f"h = {heads}")
        axes.set(xscale="log", yscale="log")
        axes.set_xticks(MLP_WIDTHS, [str(width) for width in MLP_WIDTHS])
        axes.minorticks_off()
        axes.set(xlabel="width N of the MLPs", ylabel="NMSE, the best seed")
        axes.set_title(f"n = 8, D = 4, T = {WIDTH_LENGTH}")
        legend(axes, loc="beside")
    return figure


def caption_width(rows: Rows, scale: Scale) -> str:
    """The error of each head count at the smallest and at the largest width."""
    told = [
        f"h = {heads}: {line[0][1]:.1e} at N = {line[0][0]}, {line[-1][1]:.1e} at N = {line[-1][0]}"
        for heads, line in _lines(rows, scale).items()
        if line
    ]
    return (
        f"T = {WIDTH_LENGTH}, the best of {len(SETTING.seeds(scale))} seeds. {'; '.join(told) or 'Not run'}. The paper "
        "draws this figure and prints no numbers for it."
    )


def _lines(rows: Rows, scale: Scale) -> dict[int, list[tuple[int, float]]]:
    found = {setting.mlp_width: setting.nmse(rows, scale) for setting in width_settings(scale)}
    return {
        heads: line
        for heads in SETTING.heads
        if (
            line := [
                (width, min(by[heads, WIDTH_LENGTH])) for width, by in found.items() if (heads, WIDTH_LENGTH) in by
            ]
        )
    }


# In place of MS MARCO and CIFAR-10: four extrema over the patches of hand-written digits


def caption_digits(rows: Rows, scale: Scale) -> str:
    """The data, and the error of each head count."""
    found, length = DIGITS.nmse(rows, scale), max(DIGITS.measured_lengths(scale))
    line = [f"h = {h} {min(found[h, length]):.1e}" for h in DIGITS.heads if (h, length) in found]
    return (
        "Not the paper's data, which cannot be fetched here: scikit-learn's 1,797 digits of 8×8 pixels as 16 patches "
        "of 2×2, padded with blank ones to T; the target is the sum of the strongest edges in four directions. "
        f"{DIGITS.examples[0]:,} images train, {DIGITS.examples[1]} validate. T = {length}, the best of "
        f"{len(DIGITS.seeds(scale))} seeds: {', '.join(line) or 'not run'}."
    )


def _tables(settings: Callable[[Scale], Sequence[RetrievalSetting]]) -> Callable[[Rows, Scale], list[str]]:
    """The tables of these settings in Markdown, each with its title."""
    return lambda rows, scale: [f"{one.title}:\n\n{table(one, rows, scale)}" for one in settings(scale)]


RETRIEVAL_HEADS = Exhibit(
    "How many heads retrieve four things",
    SETTING.runs,
    partial(heads_and_lengths, SETTING),
    caption_heads,
    claims_heads,
    tables=_tables(lambda scale: [SETTING]),
    collection=HEAD_COUNT,
    work=frozenset({"retrieval"}),
)
RETRIEVAL_VARIANTS = Exhibit(
    "A fixed embedding, three things, and two layers",
    runs_variants,
    draw_variants,
    caption_variants,
    claims_variants,
    tables=_tables(lambda scale: VARIANTS),
    collection=HEAD_COUNT,
    work=frozenset({"retrieval"}),
)
RETRIEVAL_WIDTH = Exhibit(
    "Wider MLPs in place of heads",
    runs_width,
    draw_width,
    caption_width,
    tables=_tables(width_settings),
    collection=HEAD_COUNT,
    work=frozenset({"retrieval"}),
)
RETRIEVAL_DIGITS = Exhibit(
    "Four edges of a hand-written digit",
    DIGITS.runs,
    partial(heads_and_lengths, DIGITS),
    caption_digits,
    tables=_tables(lambda scale: [DIGITS]),
    collection=HEAD_COUNT,
    work=frozenset({"retrieval"}),
)
