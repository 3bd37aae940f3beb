"""`manyheads compile --construction fit`: the compact compiler at work, and what it found."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import asdict, replace
from typing import TYPE_CHECKING

import numpy as np
from jaxtyping import Float32
from numpy import ndarray
from rich.box import SIMPLE_HEAD
from rich.console import RenderableType
from rich.table import Table
from rich.text import Text

from manyheads.cli.options.problem_options import checked_seed
from manyheads.cli.render.answer import Answer
from manyheads.cli.render.certificate_table import layer_facts, pairs_table, shown_certificate, shown_files
from manyheads.cli.render.progress_line import status
from manyheads.errors import InputError
from manyheads.files import read_layer
from manyheads.fitting import (
    FitOptions,
    FitProgress,
    FitSearchResult,
    Fitted,
    ShapeTrial,
    best_split,
    fit,
    grow,
    predicted_shape,
    smallest_fit,
)
from manyheads.fitting.folding import Map, linear_map, mapped, suitable_map
from manyheads.fitting.options import RESTARTS, suitable_descent
from manyheads.layer.rules import MAX, rule_named
from manyheads.problem.graph import Graph
from manyheads.problem.incoherence import IncoherenceProfile, incoherence
from manyheads.problem.problem import Problem

if TYPE_CHECKING:
    from manyheads.cli.commands.compile import Compile

PROFILE_BLOCK = 16

Lengths = int | tuple[int, int] | None


def compile_fit(
    command: Compile, graph: Graph, embedding: Float32[ndarray, "items d_model"], length: Lengths
) -> Answer:
    """Fit one shape, split a budget, or search for the smallest."""
    chosen = command.fitting.map or "auto"
    map: Map = suitable_map(embedding) if chosen == "auto" else chosen
    if command.smallest or command.fitting.budget is not None:
        return _searched(command, graph, embedding, length, map)
    return _fitted(command, graph, embedding, length, map)


def _fitted(
    command: Compile, graph: Graph, embedding: Float32[ndarray, "items d_model"], length: Lengths, map: Map
) -> Answer:
    options, problem = command.fitting, Problem(graph, embedding)
    with status("fit") as line:
        settings = _settings(command, problem, length, map, progress=lambda progress: line(str(progress)))
        if options.warm_start is not None:
            start = read_layer(options.warm_start)
            if options.rule is not None and rule_named(options.rule) is not start.rule:
                raise InputError(f"--warm-start keeps the rule of its layer, {start.rule}: --rule does not go with it")
            fitted = grow(start, problem, options=settings)
        else:
            heads, key_width = _shape(command, graph, embedding.shape[1])
            fitted = fit(problem, heads=heads, key_width=key_width, options=settings)
    provenance = command.provenance()
    written = command.files.write(graph, embedding, fitted.layer, provenance)
    profiles = _profiles(embedding, map)
    return Answer(
        facts={
            "layer": layer_facts(fitted.layer, provenance),
            "certificate": fitted.certificate.to_json(),
            "map": map,
            "incoherence": {name: asdict(profile) for name, profile in profiles.items()},
            "attempts": fitted.attempts,
            "steps": fitted.steps,
            "seconds": fitted.seconds,
            "trace": [asdict(progress) | {"margin": progress.margin} for progress in fitted.trace],
            "written": [str(path) for path in written],
        },
        shown=[
            *shown_certificate(fitted.certificate),
            pairs_table([("fitted", _effort(fitted)), *_shown_profiles(profiles)]),
            *shown_files(written),
        ],
        yes=fitted.certificate.holds,
    )


def _settings(
    command: Compile,
    problem: Problem,
    length: Lengths,
    map: Map,
    *,
    progress: Callable[[FitProgress], None],
    report: Callable[[ShapeTrial], None] | None = None,
) -> FitOptions:
    """The options of the command as those of the library."""
    options, suitable = command.fitting, suitable_descent(problem.items, problem.d_model)
    return FitOptions(
        seed=checked_seed("--seed", command.construction.seed),
        restarts=options.restarts or RESTARTS,
        time_limit=options.time_limit,
        rule=MAX if options.rule is None else rule_named(options.rule),
        context_length=length,
        map=map,
        descent=replace(suitable, steps=options.steps or suitable.steps),
        workers=options.workers,
        progress=progress,
        report=report,
    )


def _shape(command: Compile, graph: Graph, d_model: int) -> tuple[int, int]:
    """The heads and the key width given, the rest from the degrees of freedom."""
    heads, width = command.fitting.heads, command.construction.key_width
    if heads is not None and width is not None:
        return heads, width
    budget, predicted = predicted_shape(graph, d_model, heads=heads)
    if width is not None:
        return max(1, -(-budget // width)), width
    return predicted, budget // predicted


def _searched(
    command: Compile, graph: Graph, embedding: Float32[ndarray, "items d_model"], length: Lengths, map: Map
) -> Answer:
    options, problem = command.fitting, Problem(graph, embedding)
    with status("search") as line:
        best = "nothing certified yet"

        def report(trial: ShapeTrial) -> None:
            nonlocal best
            if trial.certified:
                best = f"certified D_K {trial.key_budget}"

        settings = _settings(
            command, problem, length, map, progress=lambda progress: line(f"{best}; {progress}"), report=report
        )
        if options.budget is not None:
            found = best_split(problem, key_budget=options.budget, options=settings)
        else:
            found = smallest_fit(problem, max_budget=command.max_budget, heads=options.heads, options=settings)
    provenance = command.provenance()
    written = command.files.write(graph, embedding, found.layer, provenance)
    return Answer(
        facts={
            "layer": found.layer and layer_facts(found.layer, provenance),
            "certificate": found.certificate and found.certificate.to_json(),
            "map": map,
            "tries": [asdict(trial) | {"key_budget": trial.key_budget} for trial in found.trials],
            "seconds": found.seconds,
            "written": [str(path) for path in written],
        },
        shown=[
            *_shown_tries(found, by_margin=options.budget is not None),
            *(shown_certificate(found.certificate) if found.certificate else []),
            *shown_files(written),
        ],
        yes=found.layer is not None,
    )


def _effort(fitted: Fitted) -> str:
    attempts = f"{fitted.attempts} attempt{'s' if fitted.attempts > 1 else ''}"
    return f"{attempts}, {fitted.steps:,} steps in the last, {fitted.seconds:.1f} s, map {fitted.map}"


def _profiles(embedding: Float32[ndarray, "items d_model"], map: Map) -> dict[str, IncoherenceProfile]:
    """How far the rows leak into each other, before and after the map."""
    if map == "none":
        return {}
    block = min(PROFILE_BLOCK, len(embedding))
    after = mapped(embedding, linear_map(embedding, map))
    return {name: incoherence(rows, block_size=block) for name, rows in (("before", embedding), ("after", after))}


def _shown_profiles(profiles: dict[str, IncoherenceProfile]) -> list[tuple[str, str]]:
    return [
        (f"rows {name}", f"ε {p.epsilon:.3g}, ρ {p.rho:.3g}, γ {p.gamma:.3g} at blocks of {p.block_size}")
        for name, p in profiles.items()
    ]


def _shown_tries(found: FitSearchResult, *, by_margin: bool) -> list[RenderableType]:
    """Of each budget, or of each split, the try that came nearest."""
    nearest: dict[tuple[int, ...], ShapeTrial] = {}
    counts: dict[tuple[int, ...], int] = {}
    for trial in found.trials:
        place = (trial.heads, trial.key_width) if by_margin else (trial.key_budget,)
        counts[place] = counts.get(place, 0) + 1
        if place not in nearest or _rank(trial) > _rank(nearest[place]):
            nearest[place] = trial
    table = Table(box=SIMPLE_HEAD)
    for heading in ("D_K", "heads × width", "tries", "pairs wrong", "normalised margin", "after"):
        table.add_column(heading, justify="right")
    for where, trial in sorted(nearest.items(), reverse=not by_margin):
        wrong = "certified" if trial.certified else f"{trial.wrong:,}"
        margin = f"{trial.normalised_margin:.2e}" if trial.certified else ""
        shape = f"{trial.heads} × {trial.key_width}"
        table.add_row(str(trial.key_budget), shape, str(counts[where]), wrong, margin, f"{trial.seconds:.1f} s")
    if found.best is None:
        verdict = f"nothing certified within {found.seconds:.0f} s and {len(found.trials)} tries"
    else:
        kind = "widest margin" if by_margin else "smallest certified key budget"
        shape = f"{found.best.heads} heads of width {found.best.key_width}"
        verdict = f"{kind}: D_K {found.best.key_budget}, {shape}, of {len(found.trials)} tries in {found.seconds:.0f} s"
    return [table, Text(f"{verdict}\n", style="bold")]


def _rank(trial: ShapeTrial) -> tuple[bool, float]:
    return trial.certified, trial.normalised_margin if trial.certified else -float(np.float64(trial.wrong))
