"""Exclusions for people: the search with its progress, the verdict in plain words, and its evidence."""

from __future__ import annotations

import shlex
import time
from collections import Counter
from collections.abc import Mapping
from dataclasses import asdict
from typing import TYPE_CHECKING

import numpy as np
from rich.text import Text

from manyheads.certificate.exclusion import NEWTON_STEPS, exclude
from manyheads.certificate.exclusion_proof import Exclusion
from manyheads.cli.render.answer import pairs_table
from manyheads.cli.render.progress import status
from manyheads.layer.rules import LOGSUMEXP, MAX, SUM, Rule
from manyheads.tables import graph_sizes

if TYPE_CHECKING:
    from rich.console import RenderableType

    from manyheads.certificate.exclusion_proof import ExclusionCheck
    from manyheads.problem.problem import Problem
    from manyheads.training import Task

SEVERAL = "not excluded by this proof: two heads under max can hold more than one head"
COLOURS = {"excluded": "bold red", "held": "bold green", "undecided": "bold yellow"}
CHEAP_ITEMS, CHEAP_SECONDS = 1024, 10.0  # other commands ask the question by themselves within these limits


def is_one_form(rule: Rule, heads: int) -> bool:
    """Whether a layer scores a pair by one form x_iᵀAx_j, so that `exclude` answers for it: heads under sum add up."""
    return rule is SUM or (heads == 1 and rule in (MAX, LOGSUMEXP))


def decided(problem: Problem, *, time_limit: float | None = None, workers: int | None = None) -> Exclusion:
    """`exclude` with a line of progress on stderr.

    Args:
        problem: The graph and the embedding.
        time_limit: Seconds after which the search ends undecided; None for no limit.
        workers: Threads; None for one a core.
    """
    with status("one head") as line:

        def report(step: int, wrong: int, lacking: int) -> None:
            line(f"step {step} of {NEWTON_STEPS} at most, {wrong:,} pairs wrong, {lacking:,} signs of a proof lacking")

        return exclude(problem, time_limit=time_limit, workers=workers, progress=report)


def beside(problem: Problem, rule: Rule, given: Mapping[str, object]) -> tuple[dict[str, object] | None, str]:
    """The answer for a command that was asked another question: at most ten seconds, and not for a large problem.

    Args:
        problem: The graph and the embedding.
        rule: A rule for which `is_one_form` holds.
        given: The options that name the problem, for the command that decides an open question.

    Returns:
        The facts, None where the question was not asked; and one sentence with the command that goes on from here.
    """
    words = ["manyheads", "exclude"]
    for name, value in given.items():
        if value is not None and value is not False:  # a flag that was not given is not repeated
            words += [f"--{name.replace('_', '-')}", *([] if value is True else [str(value)])]
    command = shlex.join([*words, "--rule", str(rule)] if rule is SUM else words)
    if problem.items > CHEAP_ITEMS:
        return None, f"{subject(rule)}: `{command}` says whether it is possible"
    exclusion = decided(problem, time_limit=CHEAP_SECONDS)
    further = {
        "excluded": f"; `{command} --proof FILE` writes the proof",
        "held": f"; `{command} -o FILE` writes it",
        "undecided": f" ({CHEAP_SECONDS:g} s); `{command}` takes the time that it needs",
    }
    return exclusion_facts(exclusion), f"{subject(rule)}: {verdict_words(exclusion)}{further[exclusion.verdict]}"


def seeds_decided(task: Task, seeds: int) -> dict[str, int]:
    """Of the problems that the seeds draw, how many are excluded, held and undecided within the limits together."""
    deadline, counts = time.monotonic() + CHEAP_SECONDS * 3, Counter({verdict: 0 for verdict in COLOURS})
    for seed in range(seeds):
        left = deadline - time.monotonic()
        is_cheap = task.items <= CHEAP_ITEMS and left > 0
        counts[decided(task.draw(seed), time_limit=left).verdict if is_cheap else "undecided"] += 1
    return dict(counts)


def subject(rule: Rule) -> str:
    """The layers that an exclusion is about."""
    return "any number of heads under sum" if rule is SUM else "one head"


def verdict_words(exclusion: Exclusion) -> str:
    """The verdict in plain words."""
    if exclusion.layer is not None:
        return f"possible: a layer of width {exclusion.layer.key_width}, certified"
    return "impossible at every width, proved" if exclusion.verdict == "excluded" else "undecided at these limits"


def shown_exclusion(exclusion: Exclusion, rule: Rule) -> list[RenderableType]:
    """The verdict, and below it its evidence."""
    headline = Text(f"{subject(rule)}: {verdict_words(exclusion)}", style=COLOURS[exclusion.verdict])
    graph = f"{graph_sizes(exclusion.items, exclusion.relations)}, d_model {exclusion.d_model}"
    rows = [("graph", graph), ("search", f"{exclusion.steps} steps, {exclusion.seconds:.2f} s")]
    if exclusion.matrix is not None:
        pairs = f"{np.count_nonzero(exclusion.matrix):,} pairs"
        few = f"{pairs} alone, in exact fractions"
        rows.append(
            ("proof", f"{pairs}, corrected by at most {exclusion.share:.1e} of each" if exclusion.share else few)
        )
        rows += [] if rule is SUM else [("several heads", SEVERAL)]
    elif exclusion.certificate is not None:
        rows += exclusion.certificate.rows()
    else:
        rows.append(("because", exclusion.reason))
    return [headline, pairs_table(rows)]


def exclusion_facts(exclusion: Exclusion) -> dict[str, object]:
    """An exclusion for programs, without its matrix."""
    names = ("verdict", "reason", "items", "relations", "d_model", "steps", "seconds", "share")
    return {name: getattr(exclusion, name) for name in names} | {
        "key_width": exclusion.layer and exclusion.layer.key_width,
        "certificate": exclusion.certificate and asdict(exclusion.certificate),
    }


def shown_check(check: ExclusionCheck) -> list[RenderableType]:
    """The check of a proof: the verdict, and its evidence."""
    words = "proved: one head is impossible at every width" if check.proved else "refused: this proves no exclusion"
    headline = Text(words, style="bold green" if check.proved else "bold red")
    return [headline, pairs_table([("because", check.reason)])]
