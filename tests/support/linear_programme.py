"""An exact rational linear programme for tiny cases: the oracle of exclusions."""

from __future__ import annotations

from collections.abc import Collection
from fractions import Fraction

from numpy import ndarray

from manyheads.problem.graph import Graph


def one_head_holds(graph: Graph, rows: ndarray, ignored: Collection[tuple[int, int]] = ()) -> bool:
    """Whether some form A and threshold τ separate the relations from all other pairs, except those ignored.

    Phase one of the simplex method with Bland's rule, over fractions, on the alternative of Gordan's theorem: is there
    M ≥ 0, one number for each pair, with Σ Y_ij·M_ij·(x_i⊗x_j, 1) = 0 and ΣM = 1?
    """
    related = set(zip(graph.sources.tolist(), graph.targets.tolist(), strict=True))
    columns = []
    for i in range(graph.items):
        for j in range(graph.items):
            if (i, j) in ignored:
                continue
            sign = 1 if (i, j) in related else -1
            products = [Fraction(float(a)) * Fraction(float(b)) for a in rows[i] for b in rows[j]]
            columns.append([*(sign * product for product in products), Fraction(sign), Fraction(1)])
    height = len(columns[0])
    # the right-hand side is (0, …, 0, 1) ≥ 0: artificial variables are a first solution, and their sum is minimised
    table = [[column[row] for column in columns] + [Fraction(int(row == height - 1))] for row in range(height)]
    basis = [-1] * height  # −1: still the artificial variable of this row
    while True:
        costs = [sum(table[row][k] for row in range(height) if basis[row] < 0) for k in range(len(columns))]
        entering = next((k for k, cost in enumerate(costs) if cost > 0 and k not in basis), None)
        if entering is None:
            break
        ratios = [
            (table[row][-1] / table[row][entering], basis[row], row)
            for row in range(height)
            if table[row][entering] > 0
        ]
        if not ratios:
            break
        leaving = min(ratios)[2]
        pivot = table[leaving][entering]
        table[leaving] = [value / pivot for value in table[leaving]]
        for row in range(height):
            if row != leaving and table[row][entering]:
                factor = table[row][entering]
                table[row] = [a - factor * b for a, b in zip(table[row], table[leaving], strict=True)]
        basis[leaving] = entering
    return sum(table[row][-1] for row in range(height) if basis[row] < 0) > 0
