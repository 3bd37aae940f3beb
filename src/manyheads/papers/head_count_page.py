"""The page of the head-count paper in Markdown, made from the rows."""

from __future__ import annotations

from manyheads.bounds.head_bounds import retrieval_bounds
from manyheads.papers.exhibit import needed
from manyheads.papers.head_count_setting import LENGTHS
from manyheads.papers.paper_page import GUESSES, exhibit_tables, machine_line, picture_and_caption, tally, verdict_table
from manyheads.papers.reproduction import ExhibitReport, Reproduction
from manyheads.papers.verdict import likely_reasons
from manyheads.retrieval.retrieval_run import RetrievalRun

NAME, PICTURES = "head-count.md", "head-count"
INTRODUCTION = """
"The effect of attention head count on transformer approximation" (arXiv 2510.06662) asks how many heads a query needs
that must retrieve D things: D heads. Its synthetic experiments, made again with this package:
`manyheads paper retrieval`. This page and its pictures follow from the rows alone:
`manyheads paper retrieval --from-rows docs/data/head-count.jsonl.gz --output docs/results`. What the theorems say of a
task is printed by `manyheads plan retrieval --retrieve D --context-length T`; `manyheads retrieve` builds the D heads
that suffice, with a proved error ([how](../guide/retrieval.md)).
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
    """The page: verdicts, then pictures and tables with the paper's numbers, then choices."""
    quick = "**Quick: a sketch with 2 seeds and short sequences, not the reproduction.**" if made.scale.quick else ""
    differs = "" if made.scale.quick else likely_reasons(made.verdicts)
    parts = [
        "# How many heads retrieve D things",
        INTRODUCTION,
        quick,
        "## Verdicts",
        tally(made.verdicts),
        verdict_table(made.verdicts),
        *(part for one in made.exhibits for part in _section(one, made)),
        *(["## What differs, and the likeliest reason", GUESSES, differs] if differs else []),
        "## What the lower bound says here",
        _bound(),
        "## Choices where the paper is silent",
        CHOICES.format(protocol=_protocol(made)),
        "## How it was made",
        _made(made),
    ]
    return "\n\n".join(part for part in parts if part) + "\n"


def _section(one: ExhibitReport, made: Reproduction) -> list[str]:
    return [f"## {one.title}", *picture_and_caption(one, PICTURES), *exhibit_tables(one, made)]


def _bound() -> str:
    """The lower bound of the theorem at the sizes of the experiment."""
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
    run = next(run for one in made.exhibits for run in needed([one.name], made.scale) if isinstance(run, RetrievalRun))
    return (
        f"Adam at {run.learning_rate:g} (β1 {run.beta1:g}, β2 {run.beta2:g}), warmed up for {run.warm_up} steps and "
        f"falling to 0 along a cosine, batches of {run.batch}, {run.steps:,} steps, first weights normal of variance "
        f"1/fan-in, every β at e^{run.initial_sharpness:g}/√n, float32; chosen by how well L·h = D heads do, with "
        "other seeds ([scouting](../../benchmarks/retrieval_scouting.py))"
    )


def _made(made: Reproduction) -> str:
    runs = needed([one.name for one in made.exhibits], made.scale)
    rows = made.rows.of(runs)
    hours = sum(row.seconds for row in rows) / 3600
    return f"{len(rows):,} of {len(runs):,} runs, {hours:.1f} hours of a core in all. {machine_line(made)}"
