"""Reasons: what may lie behind a claim that came out otherwise here; guesses by people, not findings of the runs."""

from __future__ import annotations

from collections.abc import Sequence

from manyheads.papers.verdict import Verdict

LIKELIEST = {
    "1": (
        "The paper gives no number for narrow, and 2 is ours. On a logarithmic axis a factor of 2.5 looks narrow too."
    ),
    "2": (
        "d_k* is D_K*/h*, and which power of two wins is often a matter of a per cent: the D_K* themselves differ far "
        "less (Figure 8). The paper's grid of key budgets is not known."
    ),
    "7": (
        "The step limits of Table 2 jump from 20,000 at m = 512 to 80,000 at 1024 and 200,000 at 4096, while the items "
        "that share these steps double: D_K* falls at 1024, which has most steps for each item, and rises from there."
    ),
    "9": (
        "x takes log2 m for every relation, and the denser the graph, the less there is to know about each. The "
        "degrees of freedom say so too ([floor](capacity-floor.md)), and the paper's Table 1 is 0.75 x at r = 1."
    ),
    "10": (
        "Follows from claim 9: a smaller D_K* is filled by fewer heads. And a fine grid of key budgets favours few, "
        "wide heads, since they have more widths to choose from."
    ),
    "13": (
        "The paper states neither d_msg nor the first weights nor when training stops, and the error left over depends "
        "on all three. The order of the head counts is the paper's."
    ),
    "14": "As for claim 13; several heads are ahead of one at nearly every key budget here.",
    "17": (
        "Nothing collapses here: the seeds of one head agree within 0.03. The paper's collapses come at three times "
        "the items and dimensions, within ten times the steps, at a rate that it does not state. That one head stops "
        "far below several, however large D_K is, is seen here too."
    ),
    "18b": (
        "The published threshold ½ with unscaled logits leaves the attention too flat; chosen on other contexts, both "
        "constants make it right ([constructions](constructions.md))."
    ),
    "20": (
        "Multiply-adds are the same, but h·ℓ² scores are written and joined: our kernel does that in registers, "
        "PyTorch through memory."
    ),
    "R3": (
        "One network of the 30 with h ≥ D: at T = 128 a seed with four heads stays at 5e-3, as if two heads served "
        "one feature, and the mean has it in it. With five heads nothing grows. The other seeds with four heads lie "
        "at 6e-5 at T = 128 and from 1e-5 to 6e-5 at T = 8; the paper's fall with T, by what training it does not say."
    ),
    "R6": (
        "The fall is at L·h = D at every length, by 25 to 800, but with h = 2 the best seed stops at 5e-4 at T = 8 "
        "and at 3e-4 at T = 128 where 1e-4 is the yardstick; at T = 16 to 64 it is reached. Steps and first weights "
        "were chosen for one layer and two alike. How the paper's own two layers are built it does not say."
    ),
}


def reasons(verdicts: Sequence[Verdict]) -> str:
    """A line for every claim that differs and has a likely reason."""
    differing = (verdict.claim for verdict in verdicts if verdict.outcome == "differs")
    return "\n".join(f"- **{claim}**: {LIKELIEST[claim]}" for claim in differing if claim in LIKELIEST)
