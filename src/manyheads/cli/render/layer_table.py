"""Tables of layers: a certificate, a layer without one, and the searches for the smallest layer."""

from __future__ import annotations

import math
from collections.abc import Mapping

from rich.box import SIMPLE_HEAD
from rich.console import RenderableType
from rich.table import Table
from rich.text import Text

from manyheads.bounds import bits_per_weight
from manyheads.certificate import Certificate
from manyheads.cli.render.answer import pairs_table
from manyheads.construct import SmallestConstruction, WidthLimit, WidthTrial
from manyheads.construct.smallest_construction import DRAWS
from manyheads.fitting import FitResult, FitSearchResult, ShapeTrial
from manyheads.layer.layer import Layer
from manyheads.problem.graph import Graph
from manyheads.problem.incoherence import IncoherenceProfile
from manyheads.problem.problem import Problem
from manyheads.tables import counted, graph_sizes, in_heads
from manyheads.text import shown_text

COLOURS = {"holds": "bold green", "refuted": "bold red", "not proved": "bold yellow"}
NOT_PROVED = "0, not proved"
THRESHOLD_NAMES = {"paper": "the paper's", "best": "the best"}


def shown_certificate(certificate: Certificate) -> list[RenderableType]:
    """The verdict, and below it its evidence."""
    headline = Text(shown_text(f"{certificate.verdict}: {certificate.reason}"))
    headline.stylize(COLOURS[certificate.verdict], 0, len(certificate.verdict))
    return [headline, pairs_table(certificate.rows())]


def layer_words(layer: Layer) -> str:
    """A layer's rule and shape in words."""
    shape = in_heads(layer.heads, layer.key_width, layer.key_heads)
    return f"rule {layer.rule}, {shape}, d_model {layer.d_model}"


def shown_layer(layer: Layer, graph: Graph) -> list[RenderableType]:
    """A layer without a certificate."""
    rows = [
        ("layer", layer_words(layer)),
        ("graph", graph_sizes(graph.items, graph.relations)),
        ("threshold", f"{layer.threshold:.6g}"),
        ("bits per weight", str(bits_per_weight(graph, weights=layer.weights))),
    ]
    return [pairs_table(rows)]


def layer_facts(layer: Layer, provenance: Mapping[str, str | int]) -> dict[str, object]:
    """A layer's shape, rule and origin for programs."""
    return {
        "heads": layer.heads,
        "d_model": layer.d_model,
        "key_width": layer.key_width,
        "key_heads": layer.key_heads,
        "key_budget": layer.key_budget,
        "rule": layer.rule,
        "threshold": layer.threshold,
        "provenance": dict(provenance),
    }


def record_words(layer: Layer) -> str:
    """What the file of a layer says about it, as a claim of the file."""
    if layer.record is None:
        return "the file has no certificate of these weights: `manyheads certify` proves what the layer holds"
    return f"the file says: {layer.record}; `manyheads certify` verifies it"


def record_facts(layer: Layer) -> dict[str, object] | None:
    """What the file of a layer says about it, for programs."""
    if layer.record is None:
        return None
    named = {name: layer.record.certificate.get(name) for name in ("verdict", "items", "relations", "context_lengths")}
    return named | {"graph": layer.record.graph, "embedding": layer.record.embedding}


def search_line(step: WidthLimit | WidthTrial) -> str:
    """One step of the search for the smallest construction, as a line of progress."""
    if isinstance(step, WidthLimit):
        return f"matching size {step.matching_size}, the limit of large widths"
    size, width = step.matching_size, step.key_width
    return f"matching size {size}, key width {width}: {step.separated} of {step.draws} draws separate"


def shown_search(result: SmallestConstruction, problem: Problem) -> list[RenderableType]:
    """The search for the smallest construction: a row for each matching size, and the verdict."""
    title = f"with {THRESHOLD_NAMES[result.threshold]} threshold"
    table = Table(title=title, title_justify="left", title_style="bold", box=SIMPLE_HEAD)
    # the limit of score/d_k as d_k grows: the largest of other pairs, the smallest of relations
    for heading in ("matching size", "heads", "limit of other … related", "key width", "D_K"):
        table.add_column(heading, justify="right")
    for limit in sorted(result.limits, key=lambda limit: -limit.matching_size):
        width = _smallest_width(result, limit)
        if not limit.separates(result.threshold):
            outcome = ("no width works", "")
        elif width is None:
            outcome = ("none", f"≤ {result.max_budget if result.best is None else result.best.key_budget}")
        else:
            outcome = (str(width.key_width), str(width.key_budget))
        window = f"{limit.window.low:.3f} … {limit.window.high:.3f}"
        table.add_row(str(limit.matching_size), str(limit.heads), window, *outcome)
    return [table, Text(f"{_search_verdict(result, problem)}\n", style="bold")]


def search_facts(result: SmallestConstruction, problem: Problem) -> dict[str, object]:
    """The search for the smallest construction, for programs."""
    best = result.best
    return {
        "threshold": result.threshold,
        "max_key_budget": result.max_budget,
        "limits": [
            {
                "matching_size": limit.matching_size,
                "heads": limit.heads,
                "window": [limit.window.low, limit.window.high],
                "separates": limit.separates(result.threshold),
            }
            for limit in result.limits
        ],
        "attempts": [_attempt_facts(attempt) for attempt in result.trials],
        "best": best and _attempt_facts(best) | {"ratio": _ratio(best, problem), "certified": result.certified},
    }


def budget_words(trial: ShapeTrial) -> str:
    """The budget by which a search compares its trials: D_K, and D_Q + D_K where heads share keys."""
    if trial.key_heads == trial.heads:
        return f"D_K {trial.key_budget}"
    return f"D_Q + D_K {trial.both_budgets}, D_K {trial.key_budget}"


def shown_trials(found: FitSearchResult, *, by_margin: bool) -> list[RenderableType]:
    """The search of `fit`: the best trial of each D_Q + D_K (by_margin: of each split), and the verdict."""
    best: dict[tuple[int, ...], ShapeTrial] = {}
    counts: dict[tuple[int, ...], int] = {}
    for trial in found.trials:
        place: tuple[int, ...] = (trial.heads, trial.key_width) if by_margin else (trial.both_budgets,)
        counts[place] = counts.get(place, 0) + 1
        if place not in best or _rank(trial) > _rank(best[place]):
            best[place] = trial
    table = Table(box=SIMPLE_HEAD)
    shared = any(trial.key_heads != trial.heads for trial in found.trials)
    for heading in (
        *(("D_Q + D_K",) if shared else ()),
        "D_K",
        "heads × width",
        "tries",
        "pairs wrong",
        "normalised margin",
        "after",
    ):
        table.add_column(heading, justify="right")
    for place, trial in sorted(best.items(), reverse=not by_margin):
        wrong = "certified" if trial.certified else f"{trial.wrong:,}" if trial.wrong else NOT_PROVED
        margin = f"{trial.normalised_margin:.2e}" if trial.certified else ""
        shape = f"{trial.heads} × {trial.key_width}"
        budgets = [str(trial.both_budgets)] * shared + [str(trial.key_budget)]
        table.add_row(*budgets, shape, str(counts[place]), wrong, margin, f"{trial.seconds:.1f} s")
    if found.best is None:
        verdict = f"nothing certified within {found.seconds:.0f} s and {len(found.trials)} tries"
    else:
        best_trial = found.best
        smallest = "fewest certified weights" if shared else "smallest certified key budget"
        shape = in_heads(best_trial.heads, best_trial.key_width, best_trial.key_heads)
        verdict = (
            f"{'widest margin' if by_margin else smallest}: {budget_words(best_trial)}, {shape}, of "
            f"{len(found.trials)} {'try' if len(found.trials) == 1 else 'tries'} in {found.seconds:.0f} s"
        )
    unproved = any(not trial.certified and not trial.wrong for trial in best.values())
    why = f"{NOT_PROVED}: no pair is on the wrong side of the threshold, but one is too close to it for a proof"
    return [table, *([Text(why)] if unproved else []), Text(f"{verdict}\n", style="bold")]


def shown_profiles(profiles: Mapping[str, IncoherenceProfile]) -> list[tuple[str, str]]:
    """A row for the incoherence before a map, and one for the incoherence after it."""
    return [
        (f"rows {name}", f"ε {p.epsilon:.3g}, ρ {p.rho:.3g}, γ {p.gamma:.3g} at matchings of {p.matching_size}")
        for name, p in profiles.items()
    ]


def _ratio(attempt: WidthTrial, problem: Problem) -> float:
    """D_K in units of m'·log2 m / d_model, the order of the theorem's key budget."""
    unit = problem.relations * math.log2(problem.items) / problem.d_model
    return attempt.key_budget / unit if unit else math.inf


def _smallest_width(result: SmallestConstruction, limit: WidthLimit) -> WidthTrial | None:
    """The smallest width that passed at the limit's matching size."""
    passed = [a for a in result.trials if a.passes and a.matching_size == limit.matching_size]
    return min(passed, key=lambda attempt: attempt.key_width, default=None)


def _search_verdict(result: SmallestConstruction, problem: Problem) -> str:
    best, sizes = result.best, [limit.matching_size for limit in result.limits]
    if best is not None:
        return (
            f"smallest D_K {best.key_budget}, heads × width {best.heads} × {best.key_width}, "
            f"{_ratio(best, problem):.3g} · m'·log2 m / d_model: {result.certified} of {DRAWS} draws certify"
        )
    if any(limit.separates(result.threshold) for limit in result.limits):
        return f"no width works within D_K ≤ {result.max_budget}"
    where = f"at matching size {sizes[0]}" if len(sizes) == 1 else "at any of these matching sizes"
    return f"no width works {where}: not even the limit of large widths separates"


def _attempt_facts(attempt: WidthTrial) -> dict[str, object]:
    names = ("matching_size", "heads", "key_width", "key_budget", "separated", "draws", "passes")
    return {name: getattr(attempt, name) for name in names}


def _rank(trial: ShapeTrial) -> tuple[bool, float]:
    return trial.certified, trial.normalised_margin if trial.certified else -float(trial.wrong)


def fit_effort(fitted: FitResult) -> str:
    """The attempts, steps and seconds of a fit, and the map of the rows."""
    attempts = counted(fitted.attempts, "attempt")
    return f"{attempts}, {fitted.steps:,} steps in the last, {fitted.seconds:.1f} s, map {fitted.map}"
