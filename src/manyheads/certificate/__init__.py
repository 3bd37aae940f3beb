"""certify: proof that a layer recognises a graph in every context, or a counterexample."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np

from manyheads.certificate.certificate import Certificate, Evidence, Witness, conclude, described
from manyheads.certificate.pairwise import examine_pairs
from manyheads.certificate.precisions import proved_precisions
from manyheads.certificate.projection import project, require_subnormals
from manyheads.certificate.softmax.examination import examine_contexts
from manyheads.errors import InputError, require_type
from manyheads.layer.layer import Layer
from manyheads.layer.rules import SOFTMAX
from manyheads.problem.problem import ContextLength, Problem

__all__ = ["Certificate", "Witness", "certify", "described"]


def certify(
    layer: Layer,
    problem: Problem,
    *,
    context_length: ContextLength = None,
    progress: Callable[[int, int], None] | None = None,
) -> Certificate:
    """Prove that the layer recognises exactly the graph's relations in every context, or find a pair it gets wrong.

    All arithmetic is float64 with a stated rounding bound.

    Args:
        layer: The layer to judge.
        problem: The graph to recognise and the rows of its items, as wide as the layer reads.
        context_length: For the rule softmax: the number of items in a context, or the least and the greatest number.
            The other rules are blind to the context: their certificates cover every length, and ignore this argument.
        progress: Called with the amount of work done and the amount of all work.

    Returns:
        The verdict with its evidence. A layer that fails is a result, not an error.

    Raises:
        InputError: The arguments are exchanged, the widths of layer and embedding differ, no proof exists for the
            layer's rule, or the processor replaces subnormal numbers by zero.

    >>> from manyheads import Layer, one_hot, permutation_graph
    >>> graph = permutation_graph(3, seed=0)
    >>> copy = Layer(query=graph.adjacency()[None].astype(float), key=np.eye(3)[None], threshold=0.5)
    >>> certificate = certify(copy, Problem(graph, one_hot(3)))
    >>> certificate.verdict, certificate.margin, certificate.window
    ('holds', 0.5, (0.0, 1.0))
    """
    if isinstance(layer, Problem) and isinstance(problem, Layer):
        raise InputError("certify takes a layer and a problem, in this order: here they are exchanged")
    require_type(layer, Layer, "the layer to certify")
    require_type(problem, Problem, "the problem to certify a layer for")
    require_subnormals()
    problem.require_width(layer.d_model)
    lengths = None if layer.rule.context_blind else problem.context_lengths(context_length)
    if layer.rule is not SOFTMAX and not (layer.rule.context_blind and layer.rule.has_rounding_bound):
        raise InputError(f"no proof exists for layers of the rule {layer.rule}")
    report = progress or (lambda done, total: None)
    with np.errstate(over="ignore", invalid="ignore"):
        projection = project(layer, problem.rows)
        finite = bool(np.isfinite(projection.row_errors()).all() and np.isfinite(projection.reach + layer.threshold))
    if not finite:
        evidence = Evidence(np.nan, np.nan, np.inf, missed=0, false_pairs=0, open_pairs=problem.items**2, witness=None)
    elif lengths is None:
        evidence = examine_pairs(layer, problem, projection, report)
    else:
        evidence = examine_contexts(layer, problem, projection, lengths, report)
    certificate = conclude(layer, problem, lengths, evidence)
    if not certificate.holds or evidence.distances is None:
        return certificate
    longest = None if lengths is None else lengths[1]
    return replace(certificate, precisions=proved_precisions(layer, problem, projection, longest, evidence.distances))
