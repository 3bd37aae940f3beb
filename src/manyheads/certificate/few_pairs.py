"""Exclusions that a few pairs alone prove, in exact fractions, and the search for a proof by the pairs of one item.

Some exclusions have no M without zeros: a form separates some pairs and puts all others on the threshold. Then a few
pairs alone prove the exclusion: by Carathéodory's theorem at most d_model² + 2. In graphs with hubs it can be the pairs
of one item: no vector separates its sources, or its targets, from all other items.
"""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np
from jaxtyping import Float, Float64
from numpy import ndarray

from manyheads.bounds.laws import constraint_share
from manyheads.problem.graph import Graph
from manyheads.problem.problem import Problem

MOST_PAIRS = 102  # of a proof by few pairs: fractions of more take minutes
MOST_WORK = 1 << 21  # pairs² · (d_model² + 1): twice the work of the largest proof that `few_pairs` makes
SMALL = 128  # items, up to which a proof by few pairs is looked for
HUBS = 8  # columns and rows that are searched for a proof by one item
ITEM_STEPS = 60  # Newton steps of this search


def few_pairs_prove(
    graph: Graph, rows: Float[ndarray, "items d_model"], matrix: Float64[ndarray, "items items"]
) -> bool:
    """Whether numbers on the pairs where M is not zero, in exact fractions, prove the exclusion.

    The numbers solve Σ M_ij·(x_i⊗x_j) = 0 and ΣM = 0. They are a proof if the solution is unique but for a factor, and
    has the signs of a proof on every one of these pairs. M must have these signs too; its numbers are not used.

    More than MOST_PAIRS pairs, or more work than MOST_WORK, prove nothing: a file could ask for hours.
    """
    sources, targets = np.nonzero(matrix)
    related = graph.adjacency()[sources, targets]
    if not 0 < len(sources) <= MOST_PAIRS or not np.array_equal(matrix[sources, targets] > 0, related):
        return False
    if len(sources) == 2 and all((rows[ends[0]] == rows[ends[1]]).all() for ends in (sources, targets)):
        return bool(related[0] != related[1])  # the solution is (1, −1): the same form has two pairs of opposite signs
    if len(sources) ** 2 * (rows.shape[1] ** 2 + 1) > MOST_WORK:
        return False
    ends = set(sources.tolist()) | set(targets.tolist())
    x = {item: [Fraction(float(number)) for number in rows[item]] for item in ends}
    columns = [
        [*(a * b for a in x[i] for b in x[j]), Fraction(1)]
        for i, j in zip(sources.tolist(), targets.tolist(), strict=True)
    ]
    solution = _null_vector([list(equation) for equation in zip(*columns, strict=True)])
    if solution is None:
        return False
    signs = {number > 0 if relation else number < 0 for number, relation in zip(solution, related, strict=True)}
    return 0 not in solution and len(signs) == 1


def twin_pairs(problem: Problem) -> Float64[ndarray, "items items"] | None:
    """The proof with two entries: two items with the same row, and a third that is related to one of them only."""
    _, first, place = np.unique(problem.rows, axis=0, return_index=True, return_inverse=True)
    twins = np.flatnonzero(first[place.ravel()] != np.arange(problem.items))
    if not len(twins):
        return None
    related, originals = problem.graph.adjacency(), first[place.ravel()[twins]]
    for one, flip in ((related, False), (related.T, True)):
        differing = np.argwhere(one[twins] != one[originals])
        if len(differing):
            at, third = differing[0]
            matrix = np.zeros(related.shape)
            matrix[[twins[at], originals[at]], third] = np.where(one[[twins[at], originals[at]], third], 1.0, -1.0)
            matrix = matrix.T.copy() if flip else matrix
            return matrix if few_pairs_prove(problem.graph, problem.rows, matrix) else None
    return None


def _null_vector(equations: list[list[Fraction]]) -> list[Fraction] | None:
    """The solution of homogeneous equations that is unique but for a factor, by elimination; None where it is not."""
    width, pivots, row = len(equations[0]), [], 0
    for column in range(width):
        best = next((k for k in range(row, len(equations)) if equations[k][column]), None)
        if best is None:
            continue
        equations[row], equations[best] = equations[best], equations[row]
        pivot = equations[row][column]
        equations[row] = [value / pivot for value in equations[row]]
        for k, equation in enumerate(equations):
            if k != row and equation[column]:
                factor = equation[column]
                equations[k] = [a - factor * b for a, b in zip(equation, equations[row], strict=True)]
        pivots.append(column)
        row += 1
        if row == len(equations):
            break
    free = [column for column in range(width) if column not in pivots]
    if len(free) != 1:
        return None
    solution = [Fraction(0)] * width
    solution[free[0]] = Fraction(1)
    for equation, column in zip(equations, pivots, strict=False):
        solution[column] = -equation[free[0]]
    return solution


def few_pairs(problem: Problem) -> Float64[ndarray, "items items"] | None:
    """A matrix with few entries that nearly proves an exclusion: a corner of the proofs, by a linear programme.

    None where the problem is too large for fractions, or the programme finds no proof.
    """
    items, d_model = problem.items, problem.d_model
    if d_model**2 + 2 > MOST_PAIRS or items > SMALL:
        return None
    from scipy.optimize import linprog  # takes long to import

    x = problem.rows.astype(np.float64)
    signs = np.where(problem.graph.adjacency(), 1.0, -1.0).ravel()
    forms = np.einsum("ia,jb->abij", x, x).reshape(d_model**2, -1) * signs
    equations = np.vstack([forms, signs, np.ones(items**2)])
    wanted = np.zeros(len(equations))
    wanted[-1] = 1
    # a random cost has one corner as its only best solution
    cost = np.random.default_rng(0).random(items**2)
    found = linprog(cost, A_eq=equations, b_eq=wanted, method="highs-ds")
    if found.x is None:
        return None
    return np.where(found.x > 1e-9, found.x * signs, 0.0).reshape(items, items)


def one_item(problem: Problem) -> Float64[ndarray, "items items"] | None:
    """A matrix with entries in one column or row that nearly proves an exclusion; None if none is found.

    By the law of the degrees of freedom, k of m rows are separated from the others by a vector if d ≥ m·g*(k/m). The
    columns and rows that need most are searched, if they need more than half of d_model.
    """
    items, related = problem.items, problem.graph.adjacency()
    degrees = np.concatenate([related.sum(axis=0), related.sum(axis=1)])  # columns, then rows
    shares = np.asarray(constraint_share(np.clip(degrees, 0.5, items - 0.5) / items))
    left, strengths, _ = np.linalg.svd(np.column_stack([problem.rows, np.ones(items)]), full_matrices=False)
    basis = left[:, strengths > strengths[0] * items * 2.0**-50] * math.sqrt(items)
    for place in np.argsort(-shares, kind="stable")[:HUBS].tolist():
        if items * shares[place] < problem.d_model / 2:
            return None
        item, is_row = place % items, place >= items
        signs = np.where(related[item] if is_row else related[:, item], 1.0, -1.0)
        found = _inseparable(basis, signs)
        if found is not None:
            matrix = np.zeros((items, items))
            matrix[item if is_row else slice(None), slice(None) if is_row else item] = found
            return matrix
    return None


def _inseparable(
    basis: Float64[ndarray, "items rank"], signs: Float64[ndarray, " items"]
) -> Float64[ndarray, " items"] | None:
    """A vector with these signs and no part along the basis, by Newton's method on the loss of `exclusion`."""
    items, rank = basis.shape
    point, scores = np.zeros(rank), np.zeros(items)
    loss = float(items)
    for _ in range(ITEM_STEPS):
        margins = signs * scores
        if (margins > 0).all():
            return None
        roots = 1 / np.sqrt(1 + margins**2)
        slopes = signs * (1 - roots * margins)  # −dℓ/d(score)
        gradient = basis.T @ slopes
        vector = slopes - basis @ gradient / items
        if (signs * vector > 0).all():
            return np.asarray(vector)
        curvature = (basis.T * roots**3) @ basis
        curvature[np.diag_indices(rank)] += 1e-12 * np.trace(curvature)
        step = np.linalg.solve(curvature, gradient)
        length, fall = 1.0, float(gradient @ step)
        while (after := _total_loss(signs * (scores + length * (basis @ step)))) > loss - 1e-4 * length * fall:
            length /= 2
            if length < 1e-8:
                return None
        point, loss = point + length * step, after
        scores = basis @ point
    return None


def _total_loss(margins: Float64[ndarray, " items"]) -> float:
    """Σ √(1 + z²) − z."""
    return float((np.sqrt(1 + margins**2) - margins).sum())
