"""The claims about the whole block (15, 16, 17, 23), each on every embedding that was run to the end."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
from jaxtyping import Float64
from numpy import ndarray

from manyheads.papers.exhibits.block_setting import HEADS, PAPER, BlockSetting
from manyheads.papers.verdict import Verdict, judged, missing

COLLAPSED = 0.05  # a test accuracy below this; answering NULL throughout has 0
PLAIN = 0.02  # a difference of mean accuracies that counts
SAYS = {
    "15": "block: for h ≥ 2 accuracy rises with D_K and saturates near D_K = 512",
    "16a": "block: at every D_K several heads beat one",
    "16b": "block: h = 8 at the smallest D_K is counterproductive",
    "17": "block: h = 1, D_K ≥ 256: some seeds collapse to 0, the rest stop near 0.81; no collapse for h ≥ 2",
    "23": "block: the best partitions use h ∈ {4, 8}",
}


@dataclass(frozen=True, eq=False)
class Accuracies:
    """Of one embedding; a seed that diverged has none (NaN)."""

    name: str
    seeds: Float64[ndarray, "heads budgets seeds"]

    @property
    def means(self) -> Float64[ndarray, "heads budgets"]:
        """Over the seeds that have one."""
        return np.nanmean(self.seeds, axis=2)


def block_claims(each: Sequence[Accuracies], block: BlockSetting) -> list[Verdict]:
    """A claim that fails on any of the embeddings differs; head counts are those of the paper, 1, 2, 4 and 8."""
    if not each or any(np.isnan(one.seeds).all(axis=2).any() for one in each):
        return [missing(claim, says, "not run to the end") for claim, says in SAYS.items()]
    same = (block.items, block.d_model) == (PAPER.items, PAPER.d_model)
    size = "" if same else f"; at m = {block.items}, d_model = {block.d_model}, not at the paper's size"

    def verdict(claim: str, look: Callable[[Accuracies], tuple[str, bool]], yardstick: str) -> Verdict:
        found = [(one.name, *look(one)) for one in each]
        measured = "; ".join(f"{name}: {said}" for name, said, _ in found)
        return judged(claim, SAYS[claim], measured, all(holds for *_, holds in found), f"yardstick: {yardstick}{size}")

    return [
        verdict("15", _rises, f"no fall by more than {PLAIN:g}, and the last doubling gains less than the first"),
        verdict("16a", _beats_one, f"h = 2 and h = 4 both better in the mean by more than {PLAIN:g} at every D_K"),
        verdict("16b", _eight_is_too_many, f"worse in the mean by more than {PLAIN:g} than the better of h = 2, 4"),
        verdict("17", _one_collapses, f"a test accuracy below {COLLAPSED:g} is collapsed; the two largest D_K"),
        verdict("23", lambda one: _best_heads(one, block), "at most of the key budgets, by the mean"),
    ]


def _rises(one: Accuracies) -> tuple[str, bool]:
    gains = np.diff(one.means[1:], axis=1)
    by_doubling = gains.mean(axis=0)
    holds = (gains > -PLAIN).all() and by_doubling.sum() > 0 and by_doubling[-1] < by_doubling[0]
    return f"gains by doubling D_K, mean of h ≥ 2: {_listed(by_doubling)}", bool(holds)


def _beats_one(one: Accuracies) -> tuple[str, bool]:
    lead = one.means[1:3].min(axis=0) - one.means[0]
    return f"the lower of h = 2, 4 minus h = 1, by D_K: {_listed(lead)}", bool((lead > PLAIN).all())


def _eight_is_too_many(one: Accuracies) -> tuple[str, bool]:
    lead = one.means[3, 0] - one.means[1:3, 0].max()
    return f"h = 8 minus the better of h = 2, 4: {lead:+.3f}", bool(lead < -PLAIN)


def _one_collapses(one: Accuracies) -> tuple[str, bool]:
    fallen = one.seeds < COLLAPSED
    single, several = int(fallen[0, -2:].sum()), int(fallen[1:].sum())
    stand = one.seeds[0, -2:][~fallen[0, -2:]]
    rest = f"the rest {np.nanmin(stand):.2f} to {np.nanmax(stand):.2f}" if np.isfinite(stand).any() else "none stands"
    told = f"{single} of {fallen[0, -2:].size} seeds of one head collapse, {rest}; with several heads {several}"
    return told, single > 0 and several == 0


def _best_heads(one: Accuracies, block: BlockSetting) -> tuple[str, bool]:
    best = [HEADS[place] for place in one.means.argmax(axis=0)]
    told = ", ".join(f"{heads} at D_K = {budget}" for heads, budget in zip(best, block.budgets, strict=True))
    return f"best h: {told}", 2 * sum(heads in (4, 8) for heads in best) > len(best)


def _listed(values: Float64[ndarray, " n"]) -> str:
    return ", ".join(f"{value:+.3f}" for value in values)
