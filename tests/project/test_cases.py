"""Every case of the table through the library: compiled, certified, and broken on purpose."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from support.cases import CASES, Case

from manyheads import Graph, Layer
from manyheads.certificate import Witness, certify
from manyheads.problem.problem import Problem

ALL = pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
HOLDING = pytest.mark.parametrize("case", [c for c in CASES if c.verdict == "holds"], ids=lambda case: case.name)


@ALL
def test_a_case_has_its_verdict(case: Case) -> None:
    graph, embedding, layer = case.build()
    certificate = certify(layer, Problem(graph, embedding), context_length=case.lengths)
    assert certificate.verdict == case.verdict
    assert (certificate.witness is None) == (case.verdict != "refuted")


@ALL
def test_the_layer_recognises_what_its_verdict_says(case: Case) -> None:
    """One context, computed by the layer itself: all items, or under softmax as many as the certificate is about."""
    graph, embedding, layer = case.build()
    certificate = certify(layer, Problem(graph, embedding), context_length=case.lengths)
    context = np.arange(graph.items)
    if certificate.witness is not None and certificate.witness.context is not None:
        context = np.array(certificate.witness.context)
    elif certificate.context_lengths is not None:
        context = context[: certificate.context_lengths[0]]
    agrees = layer.recognise(embedding[context]) == graph.adjacency()[np.ix_(context, context)]
    assert agrees.all() == (case.verdict == "holds")


@HOLDING
def test_a_weight_disturbed_past_the_margin_is_refused(case: Case) -> None:
    graph, embedding, layer = case.build()
    source = graph.sources[0]
    query = layer.query.copy()
    # the weight that the source's own query feels most
    head, width = np.unravel_index(np.abs(embedding[source] @ query).argmax(), (layer.heads, layer.key_width))
    part = np.abs(embedding[source]).argmax()
    query[head, part, width] += 1000 * np.abs(query).max()
    disturbed = replace(layer, query=query)
    certificate = certify(disturbed, Problem(graph, embedding), context_length=case.lengths)
    assert certificate.verdict == "refuted"
    assert certificate.witness is not None
    assert is_wrong_at(disturbed, embedding, graph, certificate.witness)


def is_wrong_at(layer: Layer, embedding: np.ndarray, graph: Graph, witness: Witness) -> bool:
    """The layer itself, asked about the witness in its context."""
    context = list(witness.context or dict.fromkeys([witness.source, witness.target]))
    seen = layer.recognise(embedding[context])[context.index(witness.source), context.index(witness.target)]
    return bool(seen) != witness.is_relation == bool(graph.adjacency()[witness.source, witness.target])
