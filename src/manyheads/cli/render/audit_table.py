"""What people see of an audit, and the measurements that weights allow."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from pathlib import Path

import numpy as np
from rich.console import RenderableType
from rich.table import Table
from rich.text import Text

from manyheads.bounds.architectures import Architecture
from manyheads.cli.render.certificate_table import impossible, in_heads, pairs_table
from manyheads.cli.render.progress_line import progress
from manyheads.files.model_weights import read_model_weights
from manyheads.planning.geometry import (
    EmbeddingGeometry,
    HeadGeometry,
    embedding_geometry,
    head_geometry,
    normalised,
    sampled_rows,
)
from manyheads.planning.model_audit import REACH, Audit


@dataclass(frozen=True)
class Measured:
    """What the weights say, for machines and for people."""

    facts: dict[str, object]
    shown: list[RenderableType]
    written: list[Path]


def shown_audit(report: Audit) -> list[RenderableType]:
    """The shape, the laws, and what they say of the split and of shared keys."""
    model, shape = report.architecture, report.architecture.shape
    per_item = report.by_freedom / report.items
    best = in_heads(report.best_heads, shape.query_budget // report.best_heads)
    held = f"{report.by_best_split / max(1, report.without_sharing):.2f} times as many"
    split = (
        f"{'near the recommended one' if report.is_near_best else 'not the recommended one'}: {best} would hold {held}"
    )
    rows = [
        ("layers", f"{model.layers}, all alike"),
        ("shape", f"{in_heads(shape.heads, shape.key_width)}, d_model {shape.d_model}"),
        ("key budget", f"D_Q {shape.query_budget:,}, D_K {shape.key_budget:,} ({shape.groups} key heads)"),
        ("impossible", impossible(report.by_bits, report.items, "16 bits a weight")),
        ("likely", f"{report.by_freedom:,} relations, {per_item:.3g} an item: degrees-of-freedom law"),
        ("paper's law", f"{report.by_paper:,} relations"),
        ("split", split),
    ]
    if shape.groups < shape.heads:
        saved = 1 - shape.groups / shape.heads
        lost = f"costs {report.sharing_loss:.0%} of the relations and saves {saved:.0%} of the keys"
        rows.append(("sharing", f"{shape.heads // shape.groups} query heads a key head {lost}, by the law"))
    rows += [("source", model.source), ("reach", REACH)]
    return [Text(model.name, style="bold"), pairs_table(rows)]


def measured(architecture: Architecture, path: Path, *, seed: int, stem: Path | None) -> Measured:
    """The geometry of the embedding and of every head of every layer."""
    weights = read_model_weights(path, architecture)
    rows = sampled_rows(weights.embedding, seed=seed)
    embedding = embedding_geometry(weights.embedding, block_size=architecture.key_width, seed=seed)
    heads: list[HeadGeometry] = []
    with progress("measure") as report:
        for number, layer in enumerate(weights.layers):
            x = normalised(rows, layer.norm, centred=layer.centred)
            heads += head_geometry(number, layer.query, layer.key, x)
            report(number + 1, len(weights.layers))
    written = []
    if stem is not None:
        from manyheads.drawing.geometry import GeometryRows, draw_geometry
        from manyheads.drawing.style import save

        shape = (architecture.layers, architecture.heads)
        ranks = np.array([head.effective_rank for head in heads]).reshape(shape)
        scores = np.array([head.scores for head in heads]).reshape(*shape, -1)
        figure = draw_geometry(GeometryRows(architecture.name, architecture.key_width, ranks, scores))
        written = list(save(figure, stem))
    facts: dict[str, object] = {"embedding": asdict(embedding), "heads": [asdict(head) for head in heads]}
    return Measured(facts, [Text(), *_shown_embedding(embedding), _shown_heads(architecture, heads)], written)


def _shown_embedding(geometry: EmbeddingGeometry) -> list[RenderableType]:
    profile = geometry.profile
    rows = [
        ("embedding", f"{geometry.rows:,} rows, {geometry.sampled:,} of them measured"),
        (
            "anisotropy",
            f"mean cosine {geometry.mean_cosine:.3f}, {geometry.mean_share:.1%} of the length along the mean",
        ),
        ("effective rank", f"{geometry.effective_rank:.0f} of {profile.d_model}"),
        (
            "incoherence",
            f"ρ {profile.rho:.3g} over sets of {profile.block_size}; Gaussian rows {geometry.random_rho:.3g}",
        ),
    ]
    return [pairs_table(rows)]


def _shown_heads(architecture: Architecture, heads: list[HeadGeometry]) -> Table:
    table = Table(box=None, padding=(0, 2, 0, 0))
    for name in ("layer", "effective rank, least … most of d_k", "raw score/√d_k, 1 % … 99 %, median head"):
        table.add_column(name, justify="right")
    for number in range(architecture.layers):
        here = [head for head in heads if head.layer == number]
        ranks = [head.effective_rank for head in here]
        low, high = (float(np.median([head.scores[place] for head in here])) for place in (0, -1))
        table.add_row(
            str(number), f"{min(ranks):.1f} … {max(ranks):.1f} of {architecture.key_width}", f"{low:.3g} … {high:.3g}"
        )
    return table
