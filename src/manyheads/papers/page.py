"""The report as a page of Markdown, generated from the rows alone."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence
from typing import get_args

from manyheads.papers.exhibit import BEYOND, HOURS, needed
from manyheads.papers.reasons import reasons
from manyheads.papers.reproduction import Origin, Reproduction, Shown
from manyheads.papers.verdict import Outcome, Verdict
from manyheads.sweep.store.record import Meant

SPOKEN = {"fig": "Figure", "table": "Table"}
NAME, PICTURES = "paper.md", "paper"
"""The page, and beside it the folder of its pictures."""
INTRODUCTION = """
Every figure and table of "A Capacity-Based Rationale for Multi-Head Attention" (M. Adler, arXiv 2509.22840) that has
been run here, and each claim beside what was measured. This page and its pictures follow from {origin}.
""".strip()
PAST = """
What the paper does not ask, by its own training unless it is said otherwise. Key budgets are searched for, not scanned:
each head count starts where the degrees of freedom say, gallops, bisects and tries the widths around what it finds, up
to 2.4·m·log2 m/d_model. A point that its first two seeds leave no hope for is given up and counts as failing; all
others have the seeds of the paper's points, five where settings are varied. `manyheads paper beyond` makes these
runs, and the rows alone lead through the same searches again.
""".strip()
GUESSES = "Guesses at what lies behind, by people who looked at the full run."
CHOICES = """
- Key budgets: 12 for each head count, evenly on a logarithmic axis from 0.35 to 2.4 times m'·log2 m/d_model, a fifth
  apart, rounded to whole key widths. Where a run takes long the window is narrower, with the same spacing: 0.35 to 2.0
  at (256, 16), (512, 32) and (512, 64), 0.35 to 1.7 at (512, 16), 0.6 to 1.3 at (1024, 32), 0.3 to 1.0 at (1024, 128),
  0.55 to 1.0 at (2048, 256) and (4096, 512). For r = 2 and 4 it is 0.2 to 1.2, for r = 8 0.2 to 0.87, for r = 16 and 32
  0.15 to 0.60 and 0.42, under softmax 0.35 to 2.6, and to 4 at (128, 16), for values 0.5 to 6. The paper does not state
  its grids.
- Head counts: powers of two up to 64, as in the paper.
- W_Q, W_K start with standard deviation d_model^(−1/2). Weights at the stop are tested, not the best ones.
- (1024, 32) is absent from the paper's Table 2 and is trained for up to 80,000 steps; 3 seeds at (2048, 256) and
  (4096, 512).
- Softmax panels: (64, 16), (64, 32), (128, 16), (128, 32), (256, 32), (256, 64); the paper names only (64, 32).
- Value channel: d_msg = d_model, W_V of variance 1/d_msg, stop after 5 checks without a new best validation error.
- Constructions: d_k = ⌈C·ln m⌉ with C doubling from 20 to 320, 5 seeds of graph, embedding and signatures, blocks of
  d_model; III over sparse binary rows with a 32nd of ones, in blocks of 64. Softmax contexts are uniform, 100 for each
  of 3 seeds and each length; d_k = (4·ln m)².
- One head or many: d_model = 256, 2 seeds, a width counts if all 5 draws separate with the best threshold; under
  softmax in 30 contexts of 32, with one scale of the logits for all of them.
- Figure 7: batch, rate, steps and, on two cores, its size are in its caption; docs/guide/block.md says how they were
  chosen.
- Clocks are read while nothing else of the reproduction runs; the quickest round counts. The lower bound beside the
  regular graphs takes 32 bits a weight.
- The paper's D_K* are read off Table 1 as d_k* times the likeliest power of two: inference, not publication.
""".strip()


def page(reproduction: Reproduction) -> str:
    """Verdicts first, then every exhibit, then how it was made."""
    names = [one.name for one in reproduction.shown]
    quick = (
        "\n**Quick: a sketch with 3 seeds and fewer points, not the reproduction.**\n"
        if reproduction.scale.quick
        else ""
    )
    paper, past = ([one for one in reproduction.shown if (one.name in BEYOND) is beyond] for beyond in (False, True))
    differs = "" if reproduction.scale.quick else reasons(reproduction.verdicts)
    parts = [
        "# The paper, again",
        INTRODUCTION.format(origin=_told(reproduction.origin)),
        quick.strip(),
        *(["## Verdicts", tally(reproduction.verdicts), verdict_table(reproduction.verdicts)] if paper else []),
        *(["## Figures and tables", *map(_section, paper)] if paper else []),
        *(["## Past the paper", PAST, *map(_section, past)] if past else []),
        *(["## What differs, and the likeliest reason", GUESSES, differs] if differs else []),
        "## Choices where the paper is silent",
        CHOICES,
        "## How it was made",
        _made(reproduction, names),
    ]
    return "\n\n".join(part for part in parts if part) + "\n"


def tally(verdicts: Sequence[Verdict]) -> str:
    """How many of each."""
    counts = Counter(verdict.outcome for verdict in verdicts)
    return ", ".join(f"{outcome}: {counts[outcome]}" for outcome in get_args(Outcome) if counts[outcome])


def verdict_table(verdicts: Sequence[Verdict]) -> str:
    """Claim, paper, measured, verdict."""
    lines = ["| # | the paper says | measured | verdict | by which yardstick, and why |", "|---|---|---|---|---|"]
    lines += [f"| {v.claim} | {v.says} | {v.measured} | **{v.outcome}** | {v.why} |" for v in verdicts]
    return "\n".join(lines)


def _told(origin: Origin) -> str:
    return f"{origin.rows}:\n`{origin.command}`" if origin.command else origin.rows


def _section(one: Shown) -> str:
    number = re.fullmatch(r"(fig|table)(\d+)", one.name)
    heading = f"### {SPOKEN[number[1]]} {number[2]}: {one.title}" if number else f"### {one.title}"
    missing = f" {one.runs - one.done:,} of its {one.runs:,} runs are missing." if one.done < one.runs else ""
    return "\n\n".join(
        [heading, *([f"![{one.title}]({PICTURES}/{one.name}.png)"] if one.done else []), one.caption + missing]
    )


def _made(reproduction: Reproduction, names: Sequence[str]) -> str:
    machine = ", ".join(f"{name} {value}" for name, value in sorted(reproduction.rows.machine.items()))
    groups = {
        "The paper's own points": [name for name in names if name not in (*BEYOND, *HOURS)],
        "Figure 7, asked for by name": [name for name in names if name in HOURS],
        "Past the paper": [name for name in names if name in BEYOND],
    }
    parts, counted = [], set[str]()
    for title, group in groups.items():
        runs = needed(group, reproduction.scale, reproduction.rows) if group else []
        own = [run for run in runs if run.id not in counted]  # a run that several groups show is told once
        counted |= {run.id for run in own}
        parts += [f"{title}: {_cost(own, reproduction)}"] if reproduction.rows.of(own) else []
    clock = "Times are those of the runs, added up; whatever else the machine did meanwhile is in them."
    return " ".join([*parts, clock, f"Machine: {machine or 'unknown'}."])


def _cost(runs: Sequence[Meant], reproduction: Reproduction) -> str:
    rows = reproduction.rows.of(runs)
    minutes, steps = sum(row.seconds for row in rows) / 60, sum(row.steps for row in rows)
    return (
        f"{len(rows):,} of {len(runs):,} runs, {steps / 1e6:,.0f} million steps, {minutes:,.0f} minutes of one core or "
        f"{minutes / 2:,.0f} of two."
    )
