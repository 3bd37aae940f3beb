"""How many relations every single head must miss: a bound for several heads under the rule max.

Each head of a layer that holds the graph rejects every other pair, z_kl = x_kᵀAx_l − τ < 0, and holds some of the
relations. The proof M of an exclusion has c_ij > 0 on relations and −P_kl < 0 on other pairs, and
Σ c_ij·z_ij = Σ P_kl·z_kl. Scale the head so that Σ P_kl·(−z_kl) = 1. Then Σ c_ij·z_ij = −1 over the relations. Held
relations have z_ij > 0, so that the missed ones have Σ c_ij·(−z_ij) > 1. Let b_ij be the largest −z_ij of any head that
is scaled like this and rejects every other pair, a linear programme. Then every head misses relations with
Σ c_ij·b_ij > 1.

- So each head misses at least k relations, k the fewest largest c_ij·b_ij with a sum above 1.
- The relations that h heads hold cover all: T ≤ h·(T − 1) with T = Σ c_ij·b_ij over all relations, so h ≥ T/(T − 1).

The programmes are solved in floating point: these numbers are computed, not proved against rounding.
"""

from __future__ import annotations

import math

import numpy as np
from jaxtyping import Float64
from numpy import ndarray
from scipy.optimize import linprog

from manyheads.certificate.exclusion import exclude
from manyheads.problem.problem import Problem
from tools.pages.rows import Row


def miss_shares(problem: Problem, matrix: Float64[ndarray, "items items"]) -> Float64[ndarray, " relations"]:
    """c_ij·b_ij of every relation, for the proof M of an exclusion."""
    x = problem.rows.astype(np.float64)
    items, d_model = x.shape
    related = problem.graph.adjacency()
    products = np.einsum("ia,jb->ijab", x, x).reshape(items, items, d_model**2)
    pairs = np.concatenate([products, -np.ones((items, items, 1))], axis=2)
    others, weights = pairs[~related], -matrix[~related]
    scale = weights.sum()
    total = -(weights @ others)[None] / scale
    shares = []
    for pair, c in zip(pairs[related], matrix[related], strict=True):
        found = linprog(
            pair, A_ub=others, b_ub=np.zeros(len(others)), A_eq=total, b_eq=[1.0], bounds=(None, None), method="highs"
        )
        shares.append(c / scale * -found.fun if found.status == 0 else math.inf)
    return np.array(shares)


def missed_row(problem: Problem) -> Row:
    """The bound for a problem that one head cannot hold.

    Raises:
        ValueError: one head is not excluded.
    """
    matrix = exclude(problem, workers=1).matrix
    if matrix is None:
        raise ValueError("one head is not excluded: every number of heads may do")
    shares = miss_shares(problem, matrix)
    total = float(shares.sum())
    # a millionth for the tolerance of the programmes
    missed = int(np.searchsorted(np.cumsum(np.sort(shares)[::-1]) * (1 + 1e-6), 1.0)) + 1
    return {
        "items": problem.items,
        "d_model": problem.d_model,
        "relations": problem.relations,
        "missed": missed,
        "total": total,
        "heads": math.ceil(total * (1 + 1e-6) / (total * (1 + 1e-6) - 1) - 1e-9),
    }
