"""Bounds and laws as plain functions of (items, relations, d_model, …); each names its unit, condition and source.

`counting` has the sizes of families, `lower` what is impossible, `upper` what is guaranteed, `laws` what is likely,
`cost` what a shape costs, `neighbours` what other works say, `retrieval` what the paper on head counts proves,
`inverse` the same questions the other way round.
"""

from manyheads.bounds.channel_cost import Shape
from manyheads.bounds.counting import ln_binomial, ln_graphs, ln_permutations
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
    margin_key_budget,
    permutation_margin,
    regime,
    softmax_margin_key_budget,
)
from manyheads.bounds.neighbours import Neighbour, neighbours

__all__ = [
    "Neighbour",
    "Regime",
    "RetrievalBounds",
    "Shape",
    "bit_key_budget",
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
]
