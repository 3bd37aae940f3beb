"""docs/head-count.md: the paper on head counts, again, from the rows alone."""

from __future__ import annotations

from typing import cast

from manyheads.bounds.head_bounds import retrieval_bounds
from manyheads.papers.exhibit import exhibit, needed
from manyheads.papers.head_count.retrieval_setting import LENGTHS, Tabled, table
from manyheads.papers.page import GUESSES, tally, verdict_table
from manyheads.papers.reasons import reasons
from manyheads.papers.reproduction import Reproduction, Shown
from manyheads.retrieval.retrieval_run import RetrievalRun

NAME, PICTURES = "head-count.md", "head-count"
INTRODUCTION = """
"The effect of attention head count on transformer approximation" (arXiv 2510.06662) asks the other half of "how many
heads": a query that must retrieve D things wants D heads. Its synthetic experiments, made again with this package:
`manyheads paper retrieval`. This page and its pictures follow from the rows alone:
`manyheads paper retrieval --from-rows docs/data/head-count.jsonl.gz --out docs`. What the theorems say of a task is
printed by `manyheads plan --retrieve D --length T`; `manyheads retrieve` builds the D heads that suffice, with a proved
error ([how](retrieval.md)).
""".strip()
CHOICES = """
- The paper does not state optimiser, rate, batch, steps, seeds, first weights and a_i. Here: {protocol}. a_i are
  uniform on the sphere, of the seed, the same for all T and h.
- The score of a token in a head is β·q·k with a learnt β for each head; c0 is not added to what the heads return.
- With E = 32 and h that does not divide it, heads are ⌈32/h⌉ wide: 33 dimensions for h = 3 and 35 for h = 5.
- Two layers: in the first every token and the class token attend to all tokens, then a GELU MLP of width N; no
  residual. The paper does not describe its own.
- D = 3 and two layers were run with h up to 4.
""".strip()


def page(made: Reproduction) -> str:
    """Verdicts, then the tables beside the paper's and the pictures, then choices."""
    quick = "**Quick: a sketch with 2 seeds and short sequences, not the reproduction.**" if made.scale.quick else ""
    differs = "" if made.scale.quick else reasons(made.verdicts)
    parts = [
        "# How many heads retrieve D things",
        INTRODUCTION,
        quick,
        "## Verdicts",
        tally(made.verdicts),
        verdict_table(made.verdicts),
        *(part for one in made.shown for part in _section(one, made)),
        *(["## What differs, and the likeliest reason", GUESSES, differs] if differs else []),
        "## What the lower bound says here",
        _bound(),
        "## Choices where the paper is silent",
        CHOICES.format(protocol=_protocol(made)),
        "## How it was made",
        _made(made),
    ]
    return "\n\n".join(part for part in parts if part) + "\n"


def _section(one: Shown, made: Reproduction) -> list[str]:
    missing = f" {one.runs - one.done:,} of its {one.runs:,} runs are missing." if one.done < one.runs else ""
    drawn = [f"![{one.title}]({PICTURES}/{one.name}.png)"] if one.done else []
    parts = [f"## {one.title}", *drawn, one.caption + missing]
    if one.done:
        settings = cast(Tabled, exhibit(one.name)).settings(made.scale)
        parts += [f"{setting.title}:\n\n{table(setting, made.rows, made.scale)}" for setting in settings]
    return parts


def _bound() -> str:
    """The theorem at the experiment's own sizes."""
    bounds = retrieval_bounds(dimension=4, length=LENGTHS[-1], width=8)
    told = [
        f"h = {one.heads}: k = {one.exponent:.2f}"
        if one.exponent
        else f"h = {one.heads}: nothing before T = {one.from_length}"
        for one in bounds.fewer
    ]
    return (
        f"At T = {LENGTHS[-1]}, D = 4 and n = 8 the exponent of M = Ω(ε^−k) is, {'; '.join(told)}. So the transition "
        "that is seen at these lengths is sharper than what the theorem promises."
    )


def _protocol(made: Reproduction) -> str:
    run = next(run for one in made.shown for run in needed([one.name], made.scale) if isinstance(run, RetrievalRun))
    return (
        f"Adam at {run.learning_rate:g} (β1 {run.beta1:g}, β2 {run.beta2:g}), warmed up for {run.warm_up} steps and "
        f"falling to 0 along a cosine, batches of {run.batch}, {run.steps:,} steps, first weights normal of variance "
        f"1/fan-in, every β at e^{run.initial_sharpness:g}/√n, float32; chosen by how well L·h = D heads do, with "
        "other seeds ([scouting](../benchmarks/retrieval_scouting.py))"
    )


def _made(made: Reproduction) -> str:
    runs = needed([one.name for one in made.shown], made.scale)
    rows = made.rows.of(runs)
    machine = ", ".join(f"{name} {value}" for name, value in sorted(made.rows.machine.items()))
    return (
        f"{len(rows):,} of {len(runs):,} runs, {sum(row.seconds for row in rows) / 3600:.1f} hours of a core in all. "
        f"Machine: {machine or 'unknown'}."
    )
