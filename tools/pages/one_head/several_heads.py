"""How many relations every single head must miss: a bound for several heads under the rule max.

Each head of a layer that holds the graph rejects every other pair, z_kl = x_kᵀAx_l − τ < 0, and holds some of the
relations. The proof M of an exclusion has c_ij > 0 on relations and −P_kl < 0 on other pairs, and
Σ c_ij·z_ij = Σ P_kl·z_kl. Scale the head so that Σ P_kl·(−z_kl) = 1. Then Σ c_ij·z_ij = −1 over the relations. Held
relations have z_ij > 0, so that the missed ones have Σ c_ij·(−z_ij) > 1. Let b_ij be the largest −z_ij of any head that
is scaled like this and rejects every other pair, a linear programme. Then every head misses relations with
Σ c_ij·b_ij > 1.

- So each head misses at least k relations, k the fewest largest c_ij·b_ij with a sum above 1.
- The relations that h heads hold cover all: T ≤ h·(T − 1) with T = Σ c_ij·b_ij over all relations, so h ≥ T/(T − 1).

The programme is solved in floating point. Its dual solution gives numbers N_kl on the other pairs with
v_ij + Σ N_kl·v_kl = 0, where v_kl = (x_k⊗x_l, −1) and z_kl = v_kl·(A, τ). So −z_ij = Σ N_kl·z_kl, which is at most
max(−N_kl/P_kl) for every head that is scaled as above. Any such N proves a bound on b_ij: no property of the solver
matters. The computed N leaves a small rest r in place of zero. The numbers N_kl − v_kl·H⁻¹r, with H = Σ v_kl·v_klᵀ over
the other pairs, leave no rest. They differ from N_kl by at most ‖v_kl‖·‖H⁻¹r‖. M differs from an exact proof by the
share that its check states. Every rounding error is in the bounds.
"""

from __future__ import annotations

import math

import numpy as np
from jaxtyping import Float64
from numpy import ndarray
from scipy.optimize import linprog

from manyheads.certificate.exclusion import exclude
from manyheads.certificate.exclusion_proof import correction_share
from manyheads.layer.rules import gamma
from manyheads.problem.problem import Problem
from tools.pages.rows import Row

norm = np.linalg.norm


def pair_vectors(problem: Problem) -> Float64[ndarray, "items items forms"]:
    """v_ij = (x_i⊗x_j, −1) of every pair; each number has at most one rounding error."""
    x = problem.rows.astype(np.float64)
    items, d_model = x.shape
    products = np.einsum("ia,jb->ijab", x, x).reshape(items, items, d_model**2)
    return np.concatenate([products, -np.ones((items, items, 1))], axis=2)


def dual_numbers(
    relation: Float64[ndarray, " forms"],
    others: Float64[ndarray, "pairs forms"],
    weights: Float64[ndarray, " pairs"],
) -> Float64[ndarray, " pairs"] | None:
    """N of one relation, from the dual solution of its programme; None where the programme was not solved."""
    total = -(weights @ others)[None] / weights.sum()
    found = linprog(
        relation, A_ub=others, b_ub=np.zeros(len(others)), A_eq=total, b_eq=[1.0], bounds=(None, None), method="highs"
    )
    if found.status != 0:
        return None
    return np.asarray(-found.ineqlin.marginals + found.eqlin.marginals[0] * weights / weights.sum())


def rest_factor(others: Float64[ndarray, "pairs forms"]) -> float:
    """A proved bound on ‖H⁻¹‖, H = Σ v_kl·v_klᵀ: infinite where H may have no inverse."""
    gram, size = others.T @ others, np.abs(others)
    forms = len(gram)
    try:
        inverse = np.linalg.inv(gram)
    except np.linalg.LinAlgError:
        return math.inf
    # ρ ≥ ‖I − H⁻¹H‖ for the computed inverse, with the rounding of v, of the sums and of the product
    product = norm(np.eye(forms) - inverse @ gram) + gamma(forms + 2) * norm(np.abs(inverse) @ np.abs(gram))
    rho = float(product + gamma(len(others) + 4) * norm(inverse) * norm(size.T @ size)) * upwards(others)
    return float(norm(inverse)) * upwards(others) / (1 - rho) if rho < 0.5 else math.inf


def upwards(others: Float64[ndarray, "pairs forms"]) -> float:
    """A factor for the rounding of the bounds themselves, which are sums of positive numbers."""
    return 1 + gamma(16 * (len(others) + others.shape[1]) + 64)


def proved_bound(
    relation: Float64[ndarray, " forms"],
    others: Float64[ndarray, "pairs forms"],
    least: Float64[ndarray, " pairs"],
    numbers: Float64[ndarray, " pairs"],
    factor: float,
) -> float:
    """A proved bound on b_ij, from any numbers N.

    Args:
        relation: v of the relation.
        others: v of the other pairs.
        least: Numbers that P_kl of the exact proof is not below.
        numbers: N.
        factor: The bound of `rest_factor`.
    """
    up = upwards(others)
    rest = norm(relation + numbers @ others)
    rest = (rest + gamma(len(others) + 4) * norm(np.abs(relation) + np.abs(numbers) @ np.abs(others))) * up
    corrections = norm(others, axis=1) * rest * factor * up
    return max(0.0, float(((corrections - numbers) / least).max())) * up


def miss_shares(problem: Problem, matrix: Float64[ndarray, "items items"]) -> Float64[ndarray, " relations"]:
    """A proved bound on c_ij·b_ij of every relation, for the proof M of an exclusion; infinite where there is none.

    Args:
        problem: The graph and the embedding.
        matrix: M, with the sign of every pair.

    Returns:
        The bounds, in the order of the graph's relations.
    """
    share = correction_share(problem.graph, problem.rows, matrix)
    related = problem.graph.adjacency()
    pairs = pair_vectors(problem)
    others, weights = pairs[~related], -matrix[~related]
    factor = rest_factor(others)
    if not (share < 0.5 and factor < math.inf):
        return np.full(problem.relations, math.inf)
    least, up = weights * (1 - share) * (1 - 4 * gamma(1)), (1 + share) * (1 + 4 * gamma(1))
    found = []
    for relation, c in zip(pairs[related], matrix[related], strict=True):
        numbers = dual_numbers(relation, others, weights)
        found.append(math.inf if numbers is None else c * up * proved_bound(relation, others, least, numbers, factor))
    return np.array(found)


def missed_row(problem: Problem) -> Row:
    """The bound for a problem that one head cannot hold.

    Raises:
        ValueError: one head is not excluded.
    """
    matrix = exclude(problem, workers=1).matrix
    if matrix is None:
        raise ValueError("one head is not excluded: every number of heads may do")
    shares = miss_shares(problem, matrix)
    up = 1 + gamma(2 * len(shares) + 8)
    total = float(shares.sum()) * up
    # the fewest largest shares with a sum above 1; one that is not bounded may carry all
    missed = int(np.searchsorted(np.cumsum(np.sort(shares)[::-1]) * up, 1.0)) + 1
    return {
        "items": problem.items,
        "d_model": problem.d_model,
        "relations": problem.relations,
        "missed": min(missed, problem.relations),
        "total": total,
        "heads": max(2, math.ceil(total / (total - 1) * (1 - 4 * gamma(8)))) if 1 < total < math.inf else 2,
    }
