"""certify: proof that a layer recognises a graph in every context, or a counterexample."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from jaxtyping import Float
from numpy import ndarray

from manyheads.certificate.certificate import Certificate, conclude
from manyheads.certificate.evidence import Evidence, Witness
from manyheads.certificate.pairwise import examine_pairs
from manyheads.certificate.projection import project
from manyheads.certificate.softmax.examination import examine_contexts
from manyheads.errors import InputError
from manyheads.layer.layer import Layer
from manyheads.problem.graph import Graph

__all__ = ["Certificate", "Witness", "certify"]


def certify(
    layer: Layer,
    embedding: Float[ndarray, "items d_model"],
    graph: Graph,
    *,
    context_length: int | tuple[int, int] | None = None,
    progress: Callable[[int, int], None] | None = None,
) -> Certificate:
    """Prove that the layer recognises exactly the graph's relations in every context, or find a pair it gets wrong.

    Rule softmax needs the length of the contexts, or the least and the greatest; the other rules are blind to the
    context, so for them the certificate covers every length whatever `context_length` says. All arithmetic is float64
    with a stated rounding bound. `progress` is called with the work done and the work in all.

    >>> from manyheads import Layer, one_hot, permutation_graph
    >>> graph = permutation_graph(3, seed=0)
    >>> copy = Layer(query=graph.adjacency()[None].astype(float), key=np.eye(3)[None], threshold=0.5)
    >>> certificate = certify(copy, one_hot(3), graph)
    >>> certificate.verdict, certificate.margin, certificate.window
    ('holds', 0.5, (0.0, 1.0))
    """
    _check(layer, embedding, graph)
    lengths = _lengths(context_length, graph.items) if layer.rule == "softmax" else None
    report = progress or (lambda done, total: None)
    with np.errstate(over="ignore", invalid="ignore"):
        projection = project(layer, embedding)
        finite = bool(np.isfinite(projection.row_errors()).all() and np.isfinite(projection.reach + layer.threshold))
    if not finite:
        evidence = Evidence(np.nan, np.nan, np.inf, missed=0, false_pairs=0, open_pairs=graph.items**2, witness=None)
    elif lengths is None:
        evidence = examine_pairs(layer, embedding, graph, projection, report)
    else:
        evidence = examine_contexts(layer, embedding, graph, projection, lengths, report)
    return conclude(layer, embedding, graph, lengths, evidence)


def _check(layer: Layer, embedding: Float[ndarray, "items d_model"], graph: Graph) -> None:
    if embedding.ndim != 2 or embedding.shape[1] != layer.d_model:
        raise InputError(
            f"the layer reads rows of {layer.d_model} numbers, not an embedding of shape {embedding.shape}"
        )
    if len(embedding) != graph.items:
        raise InputError(f"an embedding of {len(embedding)} items does not fit a graph of {graph.items}")
    if not np.isfinite(embedding).all():
        raise InputError("the embedding holds NaN or infinite values")


def _lengths(context_length: int | tuple[int, int] | None, items: int) -> tuple[int, int]:
    if context_length is None:
        raise InputError("rule softmax depends on the context: give the context length, or the least and the greatest")
    shortest, longest = (context_length, context_length) if isinstance(context_length, int) else context_length
    if not 2 <= shortest <= longest <= items:
        raise InputError(
            f"context lengths run from 2 to the number of items, {items}, not from {shortest} to {longest}"
        )
    return shortest, longest
