"""The page of the capacity paper in Markdown, made from the rows; and the parts that every page shares."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import get_args

from manyheads.files.door import exists, read_text
from manyheads.papers.exhibit import BEYOND, EXHIBITS, needed
from manyheads.papers.reproduction import ExhibitReport, Origin, Reproduction
from manyheads.papers.verdict import Result, Verdict, likely_reasons
from manyheads.sweep.store.record import Storable
from manyheads.tables import markdown_table
from manyheads.text import page_text, shown_text

HEADINGS = {"fig": "Figure", "table": "Table"}
NAME, PICTURES = "paper.md", "paper"
"""The file of the page, and the folder of its pictures beside it."""
INTRODUCTION = """
Every figure and table of "A Capacity-Based Rationale for Multi-Head Attention" (M. Adler, arXiv 2509.22840) that has
been run here, and each claim compared with the measurement. This page and its pictures follow from {origin}.
""".strip()
PAST = """
Questions that the paper does not ask. The training is the paper's unless the caption says otherwise. Key budgets are
searched for, not scanned: each head count starts at the prediction of the degrees of freedom, doubles its steps,
bisects, and tries the neighbouring widths, up to 2.4·m·log2 m/d_model. A point whose first two seeds cannot reach the
goal any more is given up and counts as failing; all others have the seeds of the paper's points, five where settings
are varied. `manyheads paper beyond` trains these runs. The rows alone repeat the same searches.
""".strip()
GUESSES = "Guesses of the authors at the cause; the runs do not prove them."
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
  softmax in 30 contexts of 32 items, with one scale of the logits for all contexts.
- Figure 7: batch, rate, steps and, on two cores, its size are in its caption; docs/guide/block.md says how they were
  chosen.
- Clocks are read while nothing else of the reproduction runs; the quickest round counts. The lower bound for the
  regular graphs assumes 32 bits a weight.
- The paper's D_K* are read off Table 1 as d_k* times the likeliest power of two: inference, not publication.
""".strip()


def page(reproduction: Reproduction) -> str:
    """The page: verdicts first, then every exhibit, then how it was made."""
    quick = (
        "**Quick: a sketch with 3 seeds and fewer points, not the reproduction.**" if reproduction.scale.quick else ""
    )
    reports = reproduction.exhibits
    paper = [one for one in reports if one.exhibit.collection != BEYOND]
    beyond = [one for one in reports if one.exhibit.collection == BEYOND]
    differs = "" if reproduction.scale.quick else likely_reasons(reproduction.verdicts)
    parts = [
        "# The paper, again",
        INTRODUCTION.format(origin=_origin(reproduction.origin)),
        quick,
        *(["## Verdicts", tally(reproduction.verdicts), verdict_table(reproduction.verdicts)] if paper else []),
        *(["## Figures and tables", *(_section(one, reproduction) for one in paper)] if paper else []),
        *(["## Past the paper", PAST, *(_section(one, reproduction) for one in beyond)] if beyond else []),
        *(["## What differs, and the likeliest reason", GUESSES, differs] if differs else []),
        "## Choices where the paper is silent",
        CHOICES,
        "## How it was made",
        _made(reproduction),
    ]
    return "\n\n".join(part for part in parts if part) + "\n"


def tally(verdicts: Sequence[Verdict]) -> str:
    """The number of verdicts of each kind, such as "reproduced: 18, differs: 10"."""
    counts = Counter(verdict.outcome for verdict in verdicts)
    return ", ".join(f"{outcome}: {counts[outcome]}" for outcome in get_args(Result) if counts[outcome])


def verdict_table(verdicts: Sequence[Verdict]) -> str:
    """A table in Markdown: claim, paper, measurement, verdict, yardstick."""
    headings = ("#", "the paper says", "measured", "verdict", "by which yardstick, and why")
    return markdown_table(headings, ((v.claim, v.says, v.measured, f"**{v.outcome}**", v.why) for v in verdicts))


def machine_line(reproduction: Reproduction) -> str:
    """The machines of the rows."""
    machine = ", ".join(f"{name} {value}" for name, value in sorted(reproduction.rows.machine.items()))
    return f"Machine: {page_text(machine) or 'unknown'}."


def earlier_exhibits(path: Path, pictures: str, *, without: Sequence[str]) -> list[str]:
    """The exhibits that a page shows which an earlier call wrote: by their pictures, or by the headings of tables.

    Args:
        path: The page; it need not exist.
        pictures: The folder of its pictures, as the page names it.
        without: Names that are left out.

    Returns:
        The names, in the order of the registry.
    """
    if not exists(path):
        return []
    text = read_text(path)
    found = set(re.findall(rf"\]\({re.escape(pictures)}/([a-z0-9_]+)\.png\)", text))
    found |= {f"table{number}" for number in re.findall(r"^### Table (\d+): ", text, re.MULTILINE)}
    return [name for name in EXHIBITS if name in found and name not in without]


def picture_and_caption(one: ExhibitReport, pictures: str) -> list[str]:
    """The picture if there is one, and the caption with the number of missing runs."""
    missing = f" {one.runs - one.done:,} of its {one.runs:,} runs are missing." if one.done < one.runs else ""
    has_picture = one.done and one.exhibit.draw is not None
    return [*([f"![{one.title}]({pictures}/{one.name}.png)"] if has_picture else []), one.caption + missing]


def exhibit_tables(one: ExhibitReport, reproduction: Reproduction) -> list[str]:
    """The tables of an exhibit in Markdown; none if nothing of it was run."""
    return one.exhibit.tables(reproduction.rows, reproduction.scale) if one.done else []


def _origin(origin: Origin) -> str:
    rows, command = page_text(origin.rows), shown_text(origin.command).replace("`", "'")
    return f"{rows}:\n`{command}`" if command else rows


def _number(name: str) -> str | None:
    """ "Figure 3" for fig3; None for an exhibit that the paper does not number."""
    number = re.fullmatch(r"(fig|table)(\d+)", name)
    return f"{HEADINGS[number[1]]} {number[2]}" if number else None


def _section(one: ExhibitReport, reproduction: Reproduction) -> str:
    number = _number(one.name)
    heading = f"### {number}: {one.title}" if number else f"### {one.title}"
    return "\n\n".join([heading, *picture_and_caption(one, PICTURES), *exhibit_tables(one, reproduction)])


def _made(reproduction: Reproduction) -> str:
    groups: dict[str, list[str]] = {}
    for one in reproduction.exhibits:
        if one.exhibit.collection == BEYOND:
            title = "Past the paper"
        else:
            title = (
                f"{_number(one.name) or one.title}, asked for by name"
                if one.exhibit.hours
                else "The paper's own points"
            )
        groups.setdefault(title, []).append(one.name)
    parts, counted = [], set[str]()
    for title, names in groups.items():
        runs = needed(names, reproduction.scale, reproduction.rows)
        own = [run for run in runs if run.id not in counted]  # a run of several groups counts in the first
        counted |= {run.id for run in own}
        parts += [f"{title}: {_cost(own, reproduction)}"] if reproduction.rows.of(own) else []
    clock = "Times are those of the runs, added up; other work of the machine at the same time made them longer."
    return " ".join([*parts, clock, machine_line(reproduction)])


def _cost(runs: Sequence[Storable], reproduction: Reproduction) -> str:
    rows = reproduction.rows.of(runs)
    minutes, steps = sum(row.seconds for row in rows) / 60, sum(row.steps for row in rows)
    return (
        f"{len(rows):,} of {len(runs):,} runs, {steps / 1e6:,.0f} million steps, {minutes:,.0f} minutes of one core or "
        f"{minutes / 2:,.0f} of two."
    )
