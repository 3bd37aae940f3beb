"""Bounds and laws: plain functions of the sizes, given by keyword; each states its unit, condition and source.

- `graph_counts`: the number of graphs of a family, and bits per weight, the unit of layers and thresholds.
- `lower`: key budgets that are impossible, by the number of graphs.
- `upper`: key budgets that a construction reaches.
- `laws`: key budgets that training needed, and the degrees-of-freedom law.
- `inverse`: relations that fit a shape, and the d_model that a key budget needs.
- `shape`: the query–key channel of a layer, its cost, and its numbers in other papers.
- `head_bounds`: bounds of the second paper, on the number of heads for retrieval.
"""

from manyheads.bounds.graph_counts import (
    BitsPerWeight,
    bits_per_weight,
    ln_binomial,
    ln_graphs,
    ln_permutations,
)
from manyheads.bounds.head_bounds import RetrievalBounds, retrieval_bounds, retrieval_exponent, retrieval_length
from manyheads.bounds.laws import (
    constraint_positives,
    constraint_share,
    freedom_key_width,
    freedom_needed,
    freedom_split,
    paper_heads,
    paper_key_budget,
)
from manyheads.bounds.lower import (
    Regime,
    bit_key_budget,
    family_key_budget,
    graph_bit_key_budget,
    log2_labellings,
    log2_share,
    margin_key_budget,
    permutation_margin,
    regime,
    softmax_margin_key_budget,
    unconditional,
    unconditional_key_budget,
)
from manyheads.bounds.shape import Architecture, Neighbour, Shape, neighbours

__all__ = [
    "Architecture",
    "BitsPerWeight",
    "Neighbour",
    "Regime",
    "RetrievalBounds",
    "Shape",
    "bit_key_budget",
    "bits_per_weight",
    "constraint_positives",
    "constraint_share",
    "family_key_budget",
    "freedom_key_width",
    "freedom_needed",
    "freedom_split",
    "graph_bit_key_budget",
    "ln_binomial",
    "ln_graphs",
    "ln_permutations",
    "log2_labellings",
    "log2_share",
    "margin_key_budget",
    "neighbours",
    "paper_heads",
    "paper_key_budget",
    "permutation_margin",
    "regime",
    "retrieval_bounds",
    "retrieval_exponent",
    "retrieval_length",
    "softmax_margin_key_budget",
    "unconditional",
    "unconditional_key_budget",
]
