"""Verdict: one claim of a paper compared with the measurement, and the likely reason if they differ."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Literal

Result = Literal["reproduced", "differs", "not attempted", "failed"]


@dataclass(frozen=True)
class Verdict:
    """One line of the table of claims.

    Attributes:
        claim: The number of the claim in docs/reference/claims.md.
        says: The claim in the paper's words, shortened.
        measured: The numbers of this project; empty if nothing was measured.
        outcome: The judgement.
        why: The criterion of the judgement, or the reason why there is no judgement.
    """

    claim: str
    says: str
    measured: str
    outcome: Result
    why: str = ""


def judged(claim: str, says: str, measured: str, holds: bool, why: str = "") -> Verdict:
    """The verdict on a claim that was measured.

    Args:
        claim: number of the claim.
        says: the claim, as the paper states it.
        measured: the numbers that were measured.
        holds: whether the measurement satisfies the yardstick.
        why: the yardstick.

    Returns:
        "reproduced" if the yardstick holds, else "differs".
    """
    return Verdict(claim, says, measured, "reproduced" if holds else "differs", why)


def missing(claim: str, says: str, why: str) -> Verdict:
    """The verdict "not attempted" on a claim whose rows are missing; `why` names the missing part."""
    return Verdict(claim, says, "", "not attempted", why)


def with_failures(verdict: Verdict, reasons: Sequence[str]) -> Verdict:
    """The verdict "failed" in the place of "not attempted" on a claim whose runs failed.

    Args:
        verdict: by the rows alone.
        reasons: of the failed runs that the claim needs; empty if none failed.
    """
    if verdict.outcome != "not attempted" or not reasons:
        return verdict
    return replace(verdict, outcome="failed", why=f"{len(reasons)} runs failed ({reasons[0]})")


# Guesses of the authors of this project. The runs do not prove them.
LIKELY_REASONS = {
    "1": (
        "The paper gives no number for narrow; the factor 2 is ours. On a logarithmic axis a factor of 2.5 looks "
        "narrow too."
    ),
    "2": (
        "d_k* is D_K*/h*, and the best power of two often leads by one per cent only: the D_K* themselves differ far "
        "less (Figure 8). The paper's grid of key budgets is not known."
    ),
    "6a": (
        "At (512, 64) one head of width 64 holds the graph of every seed, and training by the paper's protocol does "
        "not find it: one head fails to be found there, not to exist. At the other points the paper is right for every "
        "width, and the proof needs no training."
    ),
    "7": (
        "The step limits of Table 2 jump from 20,000 at m = 512 to 80,000 at 1024 and 200,000 at 4096, while the "
        "number of items doubles each time. The problem with 1024 items has the most steps for each item: D_K* falls "
        "there and rises for larger m."
    ),
    "9": (
        "x counts log2 m for every relation, but a denser graph needs less information for each relation. The degrees "
        "of freedom say so too ([floor](capacity-floor.md)), and the paper's Table 1 is 0.75 x at r = 1."
    ),
    "10": (
        "Follows from claim 9: a smaller D_K* is filled by fewer heads. And a fine grid of key budgets favours few, "
        "wide heads, since they have more widths to choose from."
    ),
    "13": (
        "The paper does not state d_msg, the initial weights or the stopping rule, and the final error depends on all "
        "three. The order of the head counts is the paper's."
    ),
    "14": "As for claim 13; several heads have a lower error than one head at nearly every key budget here.",
    "17": (
        "Nothing collapses here: the seeds of one head agree within 0.03. The paper's collapses come at three times "
        "the items and dimensions, within ten times the steps, at a rate that it does not state. One head stops "
        "far below several heads at every D_K; this is seen here too."
    ),
    "18b": (
        "The published threshold ½ with unscaled logits leaves the attention too flat; with both constants chosen on "
        "other contexts, every decision is right ([constructions](constructions.md))."
    ),
    "20": (
        "Multiply-adds are the same, but h·ℓ² scores are written and joined: our kernel does that in registers, "
        "PyTorch through memory."
    ),
    "R3": (
        "One network of the 30 with h ≥ D: at T = 128 a seed with four heads stays at 5e-3, as if two heads retrieved "
        "the same feature, and the mean includes it. With five heads nothing grows. The other seeds with four heads "
        "lie at 6e-5 at T = 128 and from 1e-5 to 6e-5 at T = 8. The paper's errors fall with T; it does not describe "
        "its training."
    ),
    "R6": (
        "The fall is at L·h = D at every length, by 25 to 800, but with h = 2 the best seed stops at 5e-4 at T = 8 "
        "and at 3e-4 at T = 128 where 1e-4 is the yardstick; at T = 16 to 64 it is reached. Steps and initial weights "
        "are the same for one layer and for two. The paper does not describe its own two layers."
    ),
}


def likely_reasons(verdicts: Sequence[Verdict]) -> str:
    """A line of Markdown for every claim that differs and has a likely reason."""
    differing = (verdict.claim for verdict in verdicts if verdict.outcome == "differs")
    return "\n".join(f"- **{claim}**: {LIKELY_REASONS[claim]}" for claim in differing if claim in LIKELY_REASONS)
