"""`manyheads compile --smallest`: how large is "sufficiently large"?"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from jaxtyping import Float32
from numpy import ndarray
from rich.box import SIMPLE_HEAD
from rich.console import RenderableType
from rich.table import Table
from rich.text import Text

from manyheads.cli.options.construction import positive
from manyheads.cli.options.problem_options import checked_seed
from manyheads.cli.render.answer import Answer
from manyheads.cli.render.certificate_table import layer_facts, shown_certificate, shown_files
from manyheads.cli.render.progress_line import status
from manyheads.construct import Attempt, Limit, Smallest, smallest
from manyheads.construct.conditions import require_permutation
from manyheads.construct.smallest_construction import DRAWS
from manyheads.construct.width_limit import Threshold
from manyheads.problem.graph import Graph
from manyheads.problem.problem import Problem

if TYPE_CHECKING:
    from manyheads.cli.commands.compile import Compile

NAMES = {"paper": "the paper's", "best": "the best"}


def find_smallest(command: Compile, graph: Graph, embedding: Float32[ndarray, "items d_model"]) -> Answer:
    """Search with the paper's threshold and with the best, or with one; the layer is the smallest that certifies."""
    if command.construction.name == "compressive":
        require_permutation(graph)
    found = [_search(command, graph, embedding, threshold) for threshold in _thresholds(command)]
    certified = [(result.layer, result.certificate) for result in found if result.layer and result.certificate]
    layer, certificate = min(certified, key=lambda pair: pair[0].key_budget, default=(None, None))
    provenance = command.provenance()
    written = command.files.write(graph, embedding, layer, provenance)
    return Answer(
        facts={
            "searches": [_facts(result, graph, embedding.shape[1]) for result in found],
            "layer": layer and layer_facts(layer, provenance),
            "certificate": certificate and certificate.to_json(),
            "written": [str(path) for path in written],
        },
        shown=[
            *(part for result in found for part in _shown(result, graph, embedding.shape[1])),
            *(shown_certificate(certificate) if certificate else []),
            *shown_files(written),
        ],
        yes=layer is not None,
    )


def _thresholds(command: Compile) -> list[Threshold]:
    both: list[Threshold] = ["paper", "best"]
    return [threshold for threshold in both if command.construction.threshold in (None, threshold)]


def _search(
    command: Compile, graph: Graph, embedding: Float32[ndarray, "items d_model"], threshold: Threshold
) -> Smallest:
    how = command.construction
    with status(f"search with {NAMES[threshold]} threshold") as report:
        return smallest(
            Problem(graph, embedding),
            threshold=threshold,
            seed=checked_seed("--seed", how.seed),
            block_sizes=None if how.block_size is None else [positive("--block-size", how.block_size)],
            max_budget=command.max_budget,
            progress=lambda step: report(_said(step)),
        )


def _said(step: Limit | Attempt) -> str:
    if isinstance(step, Limit):
        return f"block size {step.block_size}, the limit of large widths"
    return f"block size {step.block_size}, key width {step.key_width}: {step.separated} of {step.draws} draws separate"


def _ratio(attempt: Attempt, graph: Graph, d_model: int) -> float:
    """D_K in units of m'·log2 m / d_model, the order of the theorem's key budget."""
    unit = graph.relations * math.log2(graph.items) / d_model
    return attempt.key_budget / unit if unit else math.inf


def _width(result: Smallest, limit: Limit) -> Attempt | None:
    """The smallest width that passed at the limit's block size."""
    passed = [a for a in result.attempts if a.passes and a.block_size == limit.block_size]
    return min(passed, key=lambda attempt: attempt.key_width, default=None)


def _shown(result: Smallest, graph: Graph, d_model: int) -> list[RenderableType]:
    title = f"with {NAMES[result.threshold]} threshold"
    table = Table(title=title, title_justify="left", title_style="bold", box=SIMPLE_HEAD)
    # the limit of score/d_k as d_k grows: the largest of other pairs, the smallest of relations
    for heading in ("block size", "heads", "limit of other … related", "key width", "D_K"):
        table.add_column(heading, justify="right")
    for limit in sorted(result.limits, key=lambda limit: -limit.block_size):
        width = _width(result, limit)
        if not limit.separates(result.threshold):
            outcome = ("no width works", "")
        elif width is None:
            outcome = ("none", f"≤ {result.max_budget if result.best is None else result.best.key_budget}")
        else:
            outcome = (str(width.key_width), str(width.key_budget))
        window = f"{limit.window.low:.3f} … {limit.window.high:.3f}"
        table.add_row(str(limit.block_size), str(limit.heads), window, *outcome)
    return [table, Text(f"{_verdict(result, graph, d_model)}\n", style="bold")]


def _verdict(result: Smallest, graph: Graph, d_model: int) -> str:
    best, sizes = result.best, [limit.block_size for limit in result.limits]
    if best is not None:
        return (
            f"smallest D_K {best.key_budget}, heads × width {best.heads} × {best.key_width}, "
            f"{_ratio(best, graph, d_model):.3g} · m'·log2 m / d_model: {result.certified} of {DRAWS} draws certify"
        )
    if any(limit.separates(result.threshold) for limit in result.limits):
        return f"no width works within D_K ≤ {result.max_budget}"
    where = f"at block size {sizes[0]}" if len(sizes) == 1 else "at any of these block sizes"
    return f"no width works {where}: not even the limit of large widths separates"


def _facts(result: Smallest, graph: Graph, d_model: int) -> dict[str, object]:
    best = result.best
    return {
        "threshold": result.threshold,
        "max_budget": result.max_budget,
        "limits": [
            {
                "block_size": limit.block_size,
                "heads": limit.heads,
                "window": [limit.window.low, limit.window.high],
                "separates": limit.separates(result.threshold),
            }
            for limit in result.limits
        ],
        "attempts": [_attempt(attempt) for attempt in result.attempts],
        "best": best and _attempt(best) | {"ratio": _ratio(best, graph, d_model), "certified": result.certified},
    }


def _attempt(attempt: Attempt) -> dict[str, object]:
    names = ("block_size", "heads", "key_width", "key_budget", "separated", "draws", "passes")
    return {name: getattr(attempt, name) for name in names}
