"""The one table of cases: graphs, embeddings, constructions and the verdict to expect of each.

Compile, certify, the command line and the files all walk it. A case says its graph and embedding in the words of the
command line; `build` makes the same of them through the library alone.
"""

from __future__ import annotations

import warnings
from collections.abc import Mapping
from dataclasses import dataclass, field, replace

import numpy as np

from manyheads import (
    Graph,
    Layer,
    construct,
    gaussian,
    one_hot,
    permutation_graph,
    random_graph,
    regular_graph,
    sparse_binary,
    star_graph,
)
from manyheads.certificate import certify
from manyheads.problem.problem import Problem

GRAPH_SEED, EMBEDDING_SEED, SEED = 0, 1, 2  # the command line's defaults


@dataclass(frozen=True)
class Case:
    name: str
    graph: str
    embedding: str
    construction: str
    options: Mapping[str, object] = field(default_factory=dict)
    threshold: str = "paper"
    context_length: str | None = None
    verdict: str = "holds"

    def arguments(self) -> list[str]:
        """What `manyheads compile` is told."""
        told = {"graph": self.graph, "embedding": self.embedding, "construction": self.construction, **self.options}
        told |= {} if self.context_length is None else {"context_length": self.context_length}
        told |= {} if self.threshold == "paper" else {"threshold": self.threshold}
        told = {"logit_scale" if name == "scale" else name: value for name, value in told.items()}
        return [word for name, value in told.items() for word in (f"--{name.replace('_', '-')}", str(value))]

    @property
    def lengths(self) -> int | tuple[int, int] | None:
        match [] if self.context_length is None else [int(n) for n in self.context_length.split(":")]:
            case [low, high]:
                return low, high
            case [length]:
                return length
            case _:
                return None

    def problem(self) -> tuple[Graph, np.ndarray]:
        match self.graph.split(":"):
            case ["permutation", items]:
                graph = permutation_graph(int(items), seed=GRAPH_SEED)
            case ["regular", items, degree]:
                graph = regular_graph(int(items), int(degree), seed=GRAPH_SEED)
            case ["random", items, relations]:
                graph = random_graph(int(items), int(relations), seed=GRAPH_SEED)
            case ["star-out", items]:
                graph = star_graph(int(items), direction="out")
        match self.embedding.split(":"):
            case ["gaussian", d_model]:
                return graph, gaussian(graph.items, int(d_model), seed=EMBEDDING_SEED)
            case ["sparse-binary", d_model]:
                return graph, sparse_binary(graph.items, int(d_model), seed=EMBEDDING_SEED)
        return graph, one_hot(graph.items)

    def build(self) -> tuple[Graph, np.ndarray, Layer]:
        """The case through the library."""
        graph, embedding = self.problem()
        options: dict[str, object] = dict(self.options)
        if "signatures" in options:
            options["signatures"] = construct.RADEMACHER
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", construct.ConditionWarning)
            function = getattr(construct, self.construction.replace("-", "_"))
            layer = function(Problem(graph, embedding), seed=SEED, **options)
        if self.threshold == "best":
            certificate = certify(layer, Problem(graph, embedding), context_length=self.lengths)
            layer = construct.calibrate(layer, certificate)
        elif self.threshold != "paper":
            layer = replace(layer, threshold=float(self.threshold))
        return graph, embedding, layer


CASES = [
    Case("I, Bernoulli", "permutation:16", "one-hot", "one-hot"),
    Case("I, Rademacher", "permutation:16", "one-hot", "one-hot", {"signatures": "rademacher"}),
    Case("I, too narrow", "permutation:16", "one-hot", "one-hot", {"key_width": 3}, verdict="refuted"),
    Case(
        "I, a threshold that a score meets",
        *("permutation:16", "one-hot", "one-hot", {"signatures": "rademacher", "key_width": 64}),
        threshold="64",
        verdict="not proved",
    ),
    Case(
        "II, where d_model does not divide m",
        *("permutation:48", "gaussian:64", "compressive", {"key_width": 120, "matching_size": 7}),
        threshold="best",
    ),
    Case(
        "II, with the paper's threshold",
        *("permutation:48", "gaussian:64", "compressive", {"key_width": 120, "matching_size": 7}),
        verdict="refuted",
    ),
    Case("II, crowded", "permutation:48", "gaussian:16", "compressive", {"key_width": 16}, verdict="refuted"),
    Case("III, Gaussian", "permutation:32", "gaussian:256", "incoherent", {"key_width": 100}),
    Case(
        "III, sparse binary rows of different length",
        *("permutation:32", "sparse-binary:256", "incoherent", {"key_width": 200}),
        verdict="refuted",
    ),
    Case(
        "IV, random",
        *("random:24:60", "gaussian:64", "general", {"key_width": 120, "matching_size": 8}),
        threshold="best",
    ),
    Case(
        "IV, packed as the lemma does",
        *("random:24:60", "gaussian:64", "general", {"key_width": 120, "matching_size": 8, "packing": "lemma"}),
        threshold="best",
    ),
    Case("IV, star", "star-out:12", "gaussian:64", "general", {"key_width": 60}, threshold="best"),
    Case("IV, all but loops", "regular:16:15", "one-hot", "general", {"key_width": 60}),
    Case(
        "softmax as published",
        *("permutation:16", "one-hot", "softmax", {"key_width": 64, "matching_size": 8}),
        context_length="8",
        verdict="refuted",
    ),
    Case(
        "softmax that works",
        *("permutation:16", "gaussian:256", "softmax", {"key_width": 256, "matching_size": 4, "scale": 0.3}),
        context_length="12",
        threshold="best",
    ),
    Case(
        "softmax over a range of lengths",
        *("permutation:16", "one-hot", "softmax", {"key_width": 256, "matching_size": 4, "scale": 0.3}),
        context_length="12:14",
        threshold="best",
    ),
]
