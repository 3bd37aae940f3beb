"""Grow: relations added to or removed from a layer that is certified already, without starting over."""

from __future__ import annotations

from jaxtyping import Float
from numpy import ndarray

from manyheads.errors import InputError
from manyheads.fitting.descent import Descent
from manyheads.fitting.folding import Map
from manyheads.fitting.layer_fit import RESTARTS, Fitted, fit
from manyheads.fitting.progress import Watch
from manyheads.layer.layer import Layer
from manyheads.problem.graph import Graph


def grow(
    layer: Layer,
    graph: Graph,
    embedding: Float[ndarray, "items d_model"],
    *,
    seed: int,
    context_length: int | tuple[int, int] | None = None,
    map: Map = "none",
    restarts: int = RESTARTS,
    time_limit: float | None = None,
    how: Descent | None = None,
    progress: Watch | None = None,
) -> Fitted:
    """A layer of the same shape that holds the graph as it is now, beginning with the weights that held it before.

    `graph` may have other relations than the layer was made for, over the same embedding. Only where the warm start
    does not lead to a certificate do random starts follow.
    """
    if layer.rule not in ("max", "softmax"):
        raise InputError(f"fit makes layers of the rule max or softmax, not '{layer.rule}'")
    if layer.d_model != embedding.shape[1]:
        raise InputError(f"the layer reads rows of {layer.d_model} numbers, the embedding has {embedding.shape[1]}")
    return fit(
        graph,
        embedding,
        heads=layer.heads,
        key_width=layer.key_width,
        seed=seed,
        restarts=restarts,
        time_limit=time_limit,
        rule="softmax" if layer.rule == "softmax" else "max",
        context_length=context_length,
        map=map,
        start=layer,
        how=how,
        progress=progress,
    )
