"""Claim 18b: the softmax construction in contexts of one length, as published and mended (Sec. 8)."""

from __future__ import annotations

from dataclasses import dataclass

from matplotlib.figure import Figure

from manyheads.bounds.upper import softmax_key_width
from manyheads.drawing.style import BLUE, GREY, VERMILLION, look, panels, power_axis
from manyheads.papers.effort import Scale
from manyheads.papers.exhibit import Exhibit
from manyheads.papers.exhibits.softmax_trials import SampledContexts
from manyheads.papers.rows import Rows
from manyheads.papers.verdict import Verdict, judged, missing

SIZES = ((512, 256), (1024, 512))  # m/d_model = 2: with blocks of d_model, two heads as published
MENDED_HEADS = 16  # blocks of m/16 when mended
LENGTHS = (16, 32, 64, 128, 256)
CONTEXTS, CALIBRATION = 100, 20
PAPER_SEEDS = 3
ALLOWED = 0.05  # "with high probability": at most this share of contexts has an error, with 95 % confidence
KINDS = {
    "present": ("source with its target present", BLUE, "o", "-"),
    "absent": ("source with its target absent", VERMILLION, "s", "-"),
    "whole": ("any error in the context", GREY, "D", "--"),
}


@dataclass(frozen=True)
class ErrorShare:
    """The share of wrong contexts among independent ones."""

    wrong: int
    of: int  # all contexts

    @property
    def share(self) -> float:
        """wrong/of."""
        return self.wrong / self.of

    @property
    def interval(self) -> tuple[float, float]:
        """Clopper and Pearson's 95 % interval."""
        from scipy.stats import binomtest  # scipy.stats takes half a second to import

        found = binomtest(self.wrong, self.of).proportion_ci(confidence_level=0.95, method="exact")
        return float(found.low), float(found.high)

    def __str__(self) -> str:
        low, high = self.interval
        return f"{self.wrong} of {self.of} ({low:.1%} to {high:.1%})"


Shares = dict[str, ErrorShare]
Place = tuple[tuple[int, int], bool, int]  # m and d_model, whether mended, context length


def runs(scale: Scale) -> list[SampledContexts]:
    """Both variants, as published and mended, at every size and length."""
    return [run for at in _places(scale) for run in _seeds(at, scale)]


def draw(rows: Rows, scale: Scale) -> Figure:
    """A row for each size, as published on the left and mended on the right."""
    found, sizes = _shares(rows, scale), _sizes(scale)
    with look():
        figure, grid = panels(len(sizes), 2)
        for line, size in zip(grid, sizes, strict=True):
            for axes, mended in zip(line, (False, True), strict=True):
                for kind, (name, colour, marker, style) in KINDS.items():
                    points = [(n, found[size, mended, n][kind]) for n in LENGTHS if (size, mended, n) in found]
                    if not points:
                        continue
                    y = [one.share for _, one in points]
                    errors = [[one.share - one.interval[0] for _, one in points]]
                    errors.append([one.interval[1] - one.share for _, one in points])
                    axes.errorbar(
                        [n for n, _ in points], y, yerr=errors, color=colour, marker=marker, linestyle=style, capsize=3,
                        elinewidth=1, label=name,
                    )  # fmt: skip
                axes.set_xscale("log")
                power_axis(axes.xaxis, LENGTHS)
                axes.set_ylim(-0.03, 1.03)
                heads = MENDED_HEADS if mended else -(-size[0] // size[1])
                how = "mended" if mended else "as published"
                axes.set_title(f"{how}: m = {size[0]}, $d_{{model}}$ = {size[1]}, {heads} heads")
        for axes in grid[-1]:
            axes.set_xlabel("context length ℓ")
        for axes in grid[:, 0]:
            axes.set_ylabel("share wrong")
        handles, names = grid[0, 0].get_legend_handles_labels()
        figure.legend(handles, names, loc="outside lower center", ncols=3)
    return figure


def caption(rows: Rows, scale: Scale) -> str:
    """The shares of errors in the longest contexts."""
    found = _shares(rows, scale)
    shown = "; ".join(_shown(at, shares) for at, shares in found.items() if at[2] == _lengths(scale)[-1])
    return (
        "A source is wrong if any pair of its row is wrong. As published the threshold is ½ and the logits have no "
        "scale; mended, both are chosen on other contexts and the blocks are smaller. Contexts are independent given "
        f"the layers, so the intervals are Clopper and Pearson's. {shown}. Theorem 8.1 promises a context without any "
        "error, with probability 1 − m^−3, for constants that it does not give."
    )


def claims(rows: Rows, scale: Scale) -> list[Verdict]:
    """Claim 18b, judged as published; the mended variant is shown for comparison."""
    says = "softmax construction: for a fixed context of length ℓ ≥ C_ℓ·max(h, ln m), every pair is right w.h.p."
    found = _shares(rows, scale)
    wanted, longest = len(_places(scale)), _lengths(scale)[-1]
    if not found or len(found) < wanted:
        return [missing("18b", says, f"{len(found)} of {wanted} points were sampled")]
    last = {at: shares for at, shares in found.items() if at[2] == longest}
    holds = all(shares["whole"].interval[1] <= ALLOWED for (_, mended, _), shares in last.items() if not mended)
    measured = "; ".join(_shown(at, shares) for at, shares in last.items())
    why = (
        f"yardstick: as published, with ℓ = {longest}, at most {ALLOWED:.0%} of the contexts have an error, with 95 % "
        "confidence. Without a scale the logits of the other heads are √d_k times the embedding's overlaps, and a "
        "source whose target is absent attends to some other item"
    )
    return [judged("18b", says, measured, holds, why)]


def _sizes(scale: Scale) -> list[tuple[int, int]]:
    return [size for size in SIZES if size[0] <= scale.most_items]


def _lengths(scale: Scale) -> tuple[int, ...]:
    return LENGTHS[1:4] if scale.quick else LENGTHS


def _places(scale: Scale) -> list[Place]:
    return [(size, mended, n) for size in _sizes(scale) for mended in (False, True) for n in _lengths(scale)]


def _seeds(at: Place, scale: Scale) -> list[SampledContexts]:
    (items, d_model), mended, length = at
    block = items // MENDED_HEADS if mended else d_model
    width = round(float(softmax_key_width(items, gamma=1.0)))
    contexts, calibration = (25, 10) if scale.quick else (CONTEXTS, CALIBRATION)
    seeds = scale.seeds_at(items, d_model, paper=PAPER_SEEDS)
    return [
        SampledContexts(items, d_model, block, width, length, contexts, calibration * mended, seed) for seed in seeds
    ]


def _shares(rows: Rows, scale: Scale) -> dict[Place, Shares]:
    """The shares over the contexts of all seeds, at every point whose runs all have a row."""
    found = {}
    for at in _places(scale):
        wanted = _seeds(at, scale)
        made = rows.of(wanted)
        if len(made) < len(wanted):
            continue
        names = ("present", "present_wrong", "absent", "absent_wrong", "wrong")
        total = {name: sum(int(row.scores[name] or 0) for row in made) for name in names}
        found[at] = {
            "present": ErrorShare(total["present_wrong"], total["present"]),
            "absent": ErrorShare(total["absent_wrong"], total["absent"]),
            "whole": ErrorShare(total["wrong"], sum(run.contexts for run in wanted)),
        }
    return found


def _shown(at: Place, shares: Shares) -> str:
    (items, d_model), mended, length = at
    return (
        f"({items}, {d_model}), ℓ = {length}, {'mended' if mended else 'as published'}: wrong with the target present "
        f"{shares['present']}, absent {shares['absent']}, contexts with an error {shares['whole']}"
    )


SOFTMAX_CONSTRUCTION = Exhibit(
    "The softmax construction in random contexts", runs, draw, caption, claims, work=frozenset({"trial"})
)
