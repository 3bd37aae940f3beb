"""What neighbouring works say about the same layer, for context: each measures something else than recognition."""

from __future__ import annotations

import math
from dataclasses import dataclass

from manyheads.bounds.channel_cost import Shape


@dataclass(frozen=True)
class Neighbour:
    """A quantity of another paper at one shape; the conditions under which it holds are not those of this package."""

    work: str
    quantity: str
    condition: str
    value: float  # infinite where the number is beyond float64


def neighbours(shape: Shape, *, context_length: int) -> list[Neighbour]:
    """Every neighbour's formula at a shape and a context length ℓ."""
    heads, width = shape.heads, shape.key_width
    facts = 2.0 * shape.parameters  # bits
    return [
        Neighbour(
            "Bhojanapalli et al. 2020", "least d_k for every ℓ×ℓ pattern", "low-rank bottleneck", float(context_length)
        ),
        Neighbour(
            "Likhosherstov et al. 2021",
            "ln ℓ, to which d_k is proportional for sparse patterns",
            "inputs adapt",
            math.log(context_length),
        ),
        Neighbour(
            "Mahdavi et al. 2024",
            "examples memorised, Ω(h·min(ℓ, d_k))",
            "linearly independent inputs",
            float(heads * min(context_length, width)),
        ),
        Neighbour(
            "Kajitsuka & Sato 2025",
            "next tokens memorised, Õ(parameters²)",
            "token-wise separation",
            float(shape.parameters) ** 2 if shape.parameters < 1e150 else math.inf,
        ),
        Neighbour("Zhong et al. 2025", "pairs retrieved by a linear kernel, O(d_k)", "random unit keys", float(width)),
        Neighbour(
            "Zhong et al. 2025",
            "pairs retrieved by a softmax kernel, exp(d_k/2)",
            "random unit keys",
            math.exp(width / 2) if width < 1400 else math.inf,
        ),
        Neighbour("Allen-Zhu & Li 2024", "bits stored, about 2 a parameter", "trained language models", facts),
    ]
