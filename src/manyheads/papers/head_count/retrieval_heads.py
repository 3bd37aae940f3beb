"""Figure 1a and Table 2 of the paper on head counts: NMSE against h, heads of width 8, D = 4."""

from __future__ import annotations

from statistics import fmean

from matplotlib.figure import Figure

from manyheads.papers.head_count.retrieval_setting import HEADS, LENGTHS, Setting, heads_and_lengths
from manyheads.papers.rows import Rows
from manyheads.papers.scale import Scale
from manyheads.papers.verdict import Verdict, judged, missing
from manyheads.retrieval.retrieval_run import RetrievalRun

TITLE = "How many heads retrieve four things"
PRINTED = (
    (7.01e-2, 1.09e-1, 1.10e-1, 1.14e-1, 1.45e-1),
    (7.31e-3, 8.41e-3, 9.42e-3, 1.31e-2, 1.47e-2),
    (6.94e-4, 6.40e-4, 9.09e-4, 1.31e-3, 1.58e-3),
    (6.10e-5, 4.36e-5, 4.80e-5, 8.75e-6, 5.23e-6),
    (3.35e-5, 1.10e-5, 4.91e-6, 4.19e-6, 3.99e-6),
)
SETTING = Setting(
    "n = 8, D = 4",
    head_width=8,
    paper={
        (heads, length): nmse
        for heads, line in zip(HEADS, PRINTED, strict=True)
        for length, nmse in zip(LENGTHS, line, strict=True)
    },
)
DROP = 10.0  # what counts as a transition
REACHED = 1e-4
GROWTH = 2.0  # what counts as growing where nothing should


def settings(scale: Scale) -> list[Setting]:
    """The one table."""
    return [SETTING]


def runs(scale: Scale) -> list[RetrievalRun]:
    """Every point."""
    return SETTING.runs(scale)


def draw(rows: Rows, scale: Scale) -> Figure:
    """Over the heads and over the length."""
    return heads_and_lengths(SETTING, rows, scale)


def caption(rows: Rows, scale: Scale) -> str:
    """How far the error falls at h = D."""
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


def claims(rows: Rows, scale: Scale) -> list[Verdict]:
    """The transition at h = D, and what the length does on either side of it."""
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
    """At T = 8 each of the first four heads brings the paper about a factor of 10; the cliff grows with T."""
    return ", ".join(f"{PRINTED[2][place] / PRINTED[3][place]:.0f}" for place in range(len(LENGTHS)))


def transition(claim: str, says: str, setting: Setting, rows: Rows, scale: Scale) -> Verdict:
    """Whether the best seed falls by a factor of 10 where L·h reaches D, and to 1e-4."""
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
    claim: str, says: str, setting: Setting, rows: Rows, scale: Scale, *, heads: tuple[int, ...], grows: bool
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
