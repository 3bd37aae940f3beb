"""Builds: a construction built and certified over all pairs, for claims 18a and 21."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import ClassVar, Literal

from jaxtyping import Float
from numpy import ndarray

from manyheads import construct
from manyheads.certificate import certify
from manyheads.layer.layer import Layer
from manyheads.papers.trial import Scores, Trial
from manyheads.problem.embedding_generators import gaussian, one_hot, sparse_binary
from manyheads.problem.graph import Graph
from manyheads.problem.graph_generators import permutation_graph, random_graph, regular_graph
from manyheads.problem.problem import Problem

Construction = Literal["I", "II", "III", "IV"]
ONES = 1 / 32  # the share of ones in the rows of construction III


@dataclass(frozen=True)
class Build(Trial):
    """A construction of the paper with d_k = ⌈C·ln m⌉, certified with its own threshold and with the best.

    I takes one-hot items and has one head; II Gaussian rows; III sparse binary rows; II and III a permutation. IV takes
    Gaussian rows and a graph of so many relations out of every item, regular or drawn at random.
    """

    KIND: ClassVar[str] = "build"

    construction: Construction
    items: int
    d_model: int
    block_size: int
    constant: float
    seed: int
    degree: int = 1
    graph: Literal["permutation", "regular", "random"] = "permutation"

    @property
    def key_width(self) -> int:
        """d_k = ⌈C·ln m⌉."""
        return math.ceil(self.constant * math.log(self.items))

    @property
    def relations(self) -> int:
        """m'."""
        return self.items * self.degree

    def problem(self) -> tuple[Graph, Float[ndarray, "items d_model"]]:
        """The graph and the embedding."""
        match self.graph:
            case "permutation":
                graph = permutation_graph(self.items, seed=self.seed)
            case "regular":
                graph = regular_graph(self.items, self.degree, seed=self.seed)
            case "random":
                graph = random_graph(self.items, self.relations, seed=self.seed)
        match self.construction:
            case "I":
                return graph, one_hot(self.items)
            case "III":
                return graph, sparse_binary(self.items, self.d_model, seed=self.seed, density=ONES)
            case _:
                return graph, gaussian(self.items, self.d_model, seed=self.seed)

    def layer(self, graph: Graph, embedding: Float[ndarray, "items d_model"]) -> Layer:
        """The layer as the paper's algorithm builds it."""
        width, size, seed = self.key_width, self.block_size, self.seed
        match self.construction:
            case "I":
                return construct.one_hot(Problem(graph, embedding), key_width=width, seed=seed)
            case "II":
                return construct.compressive(Problem(graph, embedding), key_width=width, block_size=size, seed=seed)
            case "III":
                return construct.incoherent(Problem(graph, embedding), key_width=width, block_size=size, seed=seed)
            case "IV":
                return construct.general(Problem(graph, embedding), key_width=width, block_size=size, seed=seed)

    def make(self) -> Scores:
        """Whether it certifies, and the window of thresholds in units of its own."""
        graph, embedding = self.problem()
        layer = self.layer(graph, embedding)
        certificate = certify(layer, Problem(graph, embedding))
        best = certificate
        if not certificate.holds and certificate.window[0] < certificate.window[1]:
            best = certify(construct.calibrate(layer, certificate), Problem(graph, embedding))
        low, high = (end / layer.threshold for end in certificate.window)
        return {
            "paper": int(certificate.holds),
            "best": int(best.holds),
            "false": low,  # the largest score of a pair that is no relation
            "true": high,  # the smallest of a relation
            "heads": layer.heads,
        }

    def seconds(self, flops: float) -> float:
        """Projections and all pairs' scores, in every head; two certificates at most."""
        heads = 1 if self.construction == "I" else -(-self.relations // self.block_size)
        return 3 * 2 * heads * self.key_width * self.items * (self.items + 2 * self.d_model) / flops
