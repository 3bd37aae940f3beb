"""`manyheads compile --construction fit`: the compact compiler at work, and what it found."""

from __future__ import annotations

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
from manyheads.fitting import Fitted, Found, Try, best_split, fit, grow, predicted_shape, smallest_fit
from manyheads.fitting.descent import suitable_descent
from manyheads.fitting.folding import Map, linear_map, mapped, suitable_map
from manyheads.fitting.layer_fit import RESTARTS
from manyheads.problem.graph import Graph
from manyheads.problem.incoherence import IncoherenceProfile, incoherence

if TYPE_CHECKING:
    from manyheads.cli.commands.compile import Compile

SECONDS = 60.0  # of a search, unless told otherwise
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
    options = command.fitting
    seed, restarts = checked_seed("--seed", command.construction.seed), options.restarts or RESTARTS
    # large problems share a step among the cores; small ones are done before the threads have met
    suitable = suitable_descent(graph.items, embedding.shape[1])
    threads = options.workers or (2 if graph.items >= 1024 else 1)
    how = replace(suitable, steps=options.steps or suitable.steps, threads=threads)
    with status("fit") as line:
        if options.warm_start is not None:
            start = read_layer(options.warm_start)
            if options.rule not in (None, start.rule):
                raise InputError(f"--warm-start keeps the rule of its layer, {start.rule}: --rule does not go with it")
            fitted = grow(
                start, graph, embedding, seed=seed, context_length=length, map=map,
                restarts=restarts, time_limit=options.time_limit, how=how,
                progress=lambda standing: line(str(standing)),
            )  # fmt: skip
        else:
            heads, key_width = _shape(command, graph, embedding.shape[1])
            fitted = fit(
                graph, embedding, heads=heads, key_width=key_width, seed=seed, restarts=restarts,
                time_limit=options.time_limit, rule=options.rule or "max", context_length=length, map=map, how=how,
                progress=lambda standing: line(str(standing)),
            )  # fmt: skip
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
            "trace": [asdict(standing) | {"margin": standing.margin} for standing in fitted.trace],
            "written": [str(path) for path in written],
        },
        shown=[
            *shown_certificate(fitted.certificate),
            pairs_table([("fitted", _effort(fitted)), *_shown_profiles(profiles)]),
            *shown_files(written),
        ],
        yes=fitted.certificate.holds,
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
    options = command.fitting
    seed = checked_seed("--seed", command.construction.seed)
    limit = SECONDS if options.time_limit is None else options.time_limit
    suitable = suitable_descent(graph.items, embedding.shape[1])
    how = replace(suitable, steps=options.steps or suitable.steps)
    rule = options.rule or "max"
    with status("search") as line:
        best = "nothing certified yet"

        def report(tried: Try) -> None:
            nonlocal best
            if tried.certified:
                best = f"certified D_K {tried.key_budget}"

        def watch(standing: object) -> None:
            line(f"{best}; {standing}")

        if options.budget is not None:
            found = best_split(
                graph, embedding, key_budget=options.budget, seed=seed, time_limit=limit, rule=rule,
                context_length=length, map=map, how=how, workers=options.workers, progress=watch, report=report,
            )  # fmt: skip
        else:
            found = smallest_fit(
                graph, embedding, seed=seed, time_limit=limit, max_budget=command.max_budget, heads=options.heads,
                rule=rule, context_length=length, map=map, how=how, workers=options.workers, progress=watch,
                report=report,
            )  # fmt: skip
    provenance = command.provenance()
    written = command.files.write(graph, embedding, found.layer, provenance)
    return Answer(
        facts={
            "layer": found.layer and layer_facts(found.layer, provenance),
            "certificate": found.certificate and found.certificate.to_json(),
            "map": map,
            "tries": [asdict(tried) | {"key_budget": tried.key_budget} for tried in found.tries],
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


def _shown_tries(found: Found, *, by_margin: bool) -> list[RenderableType]:
    """Of each budget, or of each split, the try that came nearest."""
    nearest: dict[tuple[int, ...], Try] = {}
    counts: dict[tuple[int, ...], int] = {}
    for tried in found.tries:
        place = (tried.heads, tried.key_width) if by_margin else (tried.key_budget,)
        counts[place] = counts.get(place, 0) + 1
        if place not in nearest or _rank(tried) > _rank(nearest[place]):
            nearest[place] = tried
    table = Table(box=SIMPLE_HEAD)
    for heading in ("D_K", "heads × width", "tries", "pairs wrong", "normalised margin", "after"):
        table.add_column(heading, justify="right")
    for where, tried in sorted(nearest.items(), reverse=not by_margin):
        wrong = "certified" if tried.certified else f"{tried.wrong:,}"
        margin = f"{tried.normalised_margin:.2e}" if tried.certified else ""
        shape = f"{tried.heads} × {tried.key_width}"
        table.add_row(str(tried.key_budget), shape, str(counts[where]), wrong, margin, f"{tried.seconds:.1f} s")
    if found.best is None:
        verdict = f"nothing certified within {found.seconds:.0f} s and {len(found.tries)} tries"
    else:
        kind = "widest margin" if by_margin else "smallest certified key budget"
        shape = f"{found.best.heads} heads of width {found.best.key_width}"
        verdict = f"{kind}: D_K {found.best.key_budget}, {shape}, of {len(found.tries)} tries in {found.seconds:.0f} s"
    return [table, Text(f"{verdict}\n", style="bold")]


def _rank(tried: Try) -> tuple[bool, float]:
    return tried.certified, tried.normalised_margin if tried.certified else -float(np.float64(tried.wrong))
