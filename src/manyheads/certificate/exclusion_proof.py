"""An exclusion and its check: a matrix M proves that no single head holds a graph.

Y_ij is +1 for a relation and −1 for any other pair. A matrix M with Y∘M > 0, XᵀMX = 0 and ΣM = 0 leaves no form A and
no threshold τ with Y_ij·(x_iᵀAx_j − τ) > 0 for all pairs: the sum of M_ij·(x_iᵀAx_j − τ) over all pairs would be zero
and a sum of positive terms (docs/reference/laws.md, section 6).

A matrix of floating-point numbers meets the two equations only nearly. With E = XᵀMX, e = ΣM, G = XᵀX and s = Xᵀ1, the
matrix M − X·C·Xᵀ − c·11ᵀ meets them exactly, where

    c = (e − sᵀG⁻¹EG⁻¹s) / (m² − (sᵀG⁻¹s)²),    C = G⁻¹(E − c·ssᵀ)G⁻¹.

So M proves the exclusion if |x_iᵀCx_j + c| < |M_ij| for all pairs. The bounds below include every rounding error. The
method that found M does not matter.

Some exclusions have no M without zeros: a form separates some pairs and puts all others on the threshold. Then a few
pairs alone prove it, in exact fractions (`few_pairs`). Or the pairs of one item j alone prove it: x_iᵀAx_j = x_iᵀu with
u = Ax_j, and no vector u and threshold separate the sources of j from all other items. The proof is a vector y with the
signs of these pairs, Xᵀy = 0 and Σy = 0, in the column j of M; for the targets of j it is in the row j.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import numpy as np
from jaxtyping import Float, Float64
from numpy import ndarray

from manyheads.certificate.certificate import Certificate
from manyheads.certificate.few_pairs import few_pairs_prove
from manyheads.certificate.projection import require_subnormals
from manyheads.errors import require_type
from manyheads.layer.layer import Layer
from manyheads.layer.rules import gamma
from manyheads.problem.graph import Graph
from manyheads.problem.problem import Problem
from manyheads.tables import Shown, Summary, graph_sizes, summary

norm = np.linalg.norm
BLOCK = 1 << 20  # numbers of a block of rows
FAR = 2.0**200  # rows and proofs of other sizes than 1/FAR … FAR are refused


Decision = Literal["excluded", "held", "undecided"]


@dataclass(frozen=True, eq=False, repr=False)
class Exclusion(Shown):
    """The answer to: can one head of any width hold this graph over this embedding?

    Attributes:
        verdict: "excluded" (proved: no head can), "held" (certified: a head of width d_model does), or "undecided".
        matrix: The proof M of an exclusion, else None.
        share: The largest part of an entry of M that the check's correction can take; below 1 it is a proof.
        layer: A layer of one head that holds the graph, else None.
        certificate: The certificate of that layer.
        steps: Newton steps of the search.
        seconds: Wall time of the search and of its check.
        reason: The verdict in one sentence.
        items, relations, d_model: The sizes of the problem: m, m' and the width of the embedding.
    """

    verdict: Decision
    reason: str
    items: int
    relations: int
    d_model: int
    steps: int
    seconds: float
    matrix: Float64[ndarray, "items items"] | None = None
    share: float | None = None
    layer: Layer | None = None
    certificate: Certificate | None = None

    def summary(self) -> Summary:
        """The verdict, its evidence and the effort."""
        told = None if self.certificate is None else self.certificate.summary()
        rows: list[tuple[str, object]] = [
            ("problem", f"{graph_sizes(self.items, self.relations)}, d_model {self.d_model}"),
            ("proof", None if self.matrix is None else f"a matrix with a number for each of {self.items**2:,} pairs"),
            (
                "rounding",
                None if self.share is None else f"at most {self.share:.2g} of an entry; below 1 it is a proof",
            ),
            ("certificate", None if told is None else told.title),
            ("effort", f"{self.steps} Newton steps, {self.seconds:.1f} s"),
        ]
        return summary(f"one head, {self.verdict}: {self.reason.removeprefix('one head: ')}", rows)


@dataclass(frozen=True)
class ExclusionCheck:
    """Whether a matrix proves that no single head holds a graph, and the evidence.

    Attributes:
        proved: Whether it does.
        share: The largest part of an entry that the correction can take, rounding included; below 1 it is a proof.
        pairs: How many entries are not zero: all pairs, or the few that prove it in exact fractions.
        reason: One sentence.
    """

    proved: bool
    share: float
    pairs: int
    reason: str


def check_exclusion(problem: Problem, matrix: Float64[ndarray, "rows columns"]) -> ExclusionCheck:
    """Check a proof that no single head, however wide, holds the graph over the embedding.

    Args:
        problem: The graph and the embedding.
        matrix: M of an `Exclusion`, or of a file.

    Returns:
        The check. It does not depend on the search that found M.

    Raises:
        InputError: The arguments are no problem and no array, or exchanged.
    """
    require_type(problem, Problem, "the problem of an exclusion")
    require_type(matrix, np.ndarray, "the matrix of an exclusion")
    pairs = int(np.count_nonzero(matrix))
    if matrix.shape != (problem.items, problem.items):
        return ExclusionCheck(False, np.inf, pairs, f"M has the shape {matrix.shape}: another number of items")
    share = correction_share(problem.graph, problem.rows, matrix)
    if share < 1:
        reason = f"M has the sign of every pair, and the correction takes at most {share:.1e} of an entry"
        return ExclusionCheck(True, share, pairs, reason)
    if (share := one_item_share(problem.graph, problem.rows, matrix)) < 1:
        reason = f"the {pairs} pairs of one item alone prove it: the correction takes at most {share:.1e} of an entry"
        return ExclusionCheck(True, share, pairs, reason)
    if few_pairs_prove(problem.graph, problem.rows, matrix):
        return ExclusionCheck(True, share, pairs, f"{pairs} pairs alone prove it, in exact fractions")
    if _has_signs(problem.graph, matrix):
        reason = "M has the sign of every pair, but XᵀMX or ΣM is too far from zero, or the rows have too low a rank"
    else:
        reason = "M has the wrong sign at a pair"
    return ExclusionCheck(False, share, pairs, reason)


def correction_share(
    graph: Graph, rows: Float[ndarray, "items d_model"], matrix: Float64[ndarray, "items items"]
) -> float:
    """The largest |x_iᵀCx_j + c| / |M_ij| over all pairs, rounding included: below 1 the exclusion is proved.

    Args:
        graph: The graph that is excluded.
        rows: The embedding's rows. Without zero columns and without columns equal to others, of full rank.
        matrix: M, one number for each ordered pair.

    Returns:
        The share, infinite where a sign is wrong, a number is not finite or the rows have too low a rank.

    Raises:
        InputError: The processor replaces subnormal numbers by zero.
    """
    require_subnormals()
    x = _equivalent_columns(rows.astype(np.float64))
    items, d_model = x.shape
    if d_model == 0 or matrix.shape != (items, items) or not _has_signs(graph, matrix):
        return np.inf
    up = 1 + gamma(16 * (items + d_model) + 64)  # for the rounding of the bounds, which are sums of positive numbers
    size = np.abs(x)
    # then what an underflow can lose, also on a thread of BLAS, is far below γ times the sizes
    if not (1 / FAR < size.max() < FAR and 1 / FAR < np.abs(matrix).min() <= np.abs(matrix).max() < FAR):
        return np.inf
    # |XᵀMX| as computed, plus the bound on its rounding error; the same for ΣM
    products, sizes, total, total_size = np.zeros((d_model, d_model)), np.zeros((d_model, d_model)), 0.0, 0.0
    step = max(1, BLOCK // items)
    for start in range(0, items, step):
        part = matrix[start : start + step]
        products += x[start : start + step].T @ (part @ x)
        magnitude = np.abs(part)
        sizes += size[start : start + step].T @ (magnitude @ size)
        total += float(part.sum())
        total_size += float(magnitude.sum())
    form = (norm(products) + gamma(3 * items) * norm(sizes)) * up  # ≥ ‖E‖
    excess = (abs(total) + gamma(items * items) * total_size) * up  # ≥ |e|
    inverse, rho, lengths = _inverse_gram(x, up)
    if not rho < 0.5:
        return np.inf
    grown = up / (1 - rho)
    s, s_error = x.sum(axis=0), gamma(items) * size.sum(axis=0)
    s_length = (norm(s) + norm(s_error)) * up
    inverse_s = (norm(inverse @ s) + (gamma(d_model) + gamma(items)) * norm(np.abs(inverse) @ size.sum(axis=0))) * grown
    if _has_constant_column(x):
        c = 0.0  # 1 = X·v: ΣM = vᵀXᵀMXv is zero with XᵀMX
    else:
        # sᵀG⁻¹s < m, the squared length of 1, as long as 1 does not lie in the columns' span
        share = float(s @ (inverse @ s)) + rho * norm(inverse) * s_length**2 * grown
        share += (gamma(2 * d_model) * s_length + 3 * norm(s_error)) * s_length * norm(inverse) * up
        if not share < items * (1 - 1e-9):
            return np.inf
        c = (excess + form * inverse_s**2) / (items**2 - share**2) * up
    factor = (form + c * s_length**2) * up
    worst = 0.0
    for start in range(0, items, step):
        bound = factor * np.outer(lengths[start : start + step], lengths) + c
        worst = np.maximum(worst, (bound / np.abs(matrix[start : start + step])).max())  # NaN stays NaN: no proof
    return float(worst) * up


def one_item_share(
    graph: Graph, rows: Float[ndarray, "items d_model"], matrix: Float64[ndarray, "items items"]
) -> float:
    """The largest part of an entry that the correction of a proof by one item's pairs can take, rounding included.

    With B = (X, 1) and r = Bᵀy the vector y − B(BᵀB)⁻¹r meets the equations exactly. Below 1 the exclusion is proved.

    Args:
        graph: The graph that is excluded.
        rows: The embedding's rows.
        matrix: M, zero outside one column or one row.

    Returns:
        The share, infinite where a sign is wrong, other entries are not zero or the rows have too low a rank.

    Raises:
        InputError: The processor replaces subnormal numbers by zero.
    """
    require_subnormals()
    related = graph.adjacency()
    for of_pairs, is_relation in ((matrix, related), (matrix.T, related.T)):
        columns = np.flatnonzero(of_pairs.any(axis=0))
        if len(columns) == 1:
            y, signs = of_pairs[:, columns[0]], np.where(is_relation[:, columns[0]], 1.0, -1.0)
            break
    else:
        return np.inf
    b = _equivalent_columns(np.column_stack([rows.astype(np.float64), np.ones(len(rows))]))
    up = 1 + gamma(16 * sum(b.shape) + 64)
    if not (np.isfinite(y).all() and (signs * y > 1 / FAR).all() and max(np.abs(y).max(), np.abs(b).max()) < FAR):
        return np.inf
    _, rho, lengths = _inverse_gram(b, up)
    rest = (norm(b.T @ y) + gamma(len(b)) * norm(np.abs(b).T @ np.abs(y))) * up  # ≥ ‖r‖
    return float((lengths * rest / np.abs(y)).max()) * up if rho < 0.5 else np.inf


def _inverse_gram(
    x: Float64[ndarray, "items d_model"], up: float
) -> tuple[Float64[ndarray, "d_model d_model"], float, Float64[ndarray, " items"]]:
    """H about G⁻¹ for G = XᵀX, ρ ≥ ‖I − HG‖, and lengths ≥ ‖G⁻¹x_i‖, rounding included; ρ is infinite without H.

    Where ρ < ½, G has an inverse, and ‖G⁻¹v‖ ≤ ‖Hv‖/(1 − ρ).
    """
    items, d_model = x.shape
    gram, size = x.T @ x, np.abs(x)
    try:
        inverse = np.linalg.inv(gram)
    except np.linalg.LinAlgError:
        return gram, np.inf, np.full(items, np.inf)
    rest = norm(np.eye(d_model) - inverse @ gram) + gamma(d_model + 2) * norm(np.abs(inverse) @ np.abs(gram))
    rho = float((rest + gamma(items) * norm(inverse) * norm(size.T @ size)) * up)
    if not rho < 0.5:
        return inverse, np.inf, np.full(items, np.inf)
    lengths = norm(x @ inverse.T, axis=1) + gamma(d_model) * norm(size @ np.abs(inverse).T, axis=1)
    return inverse, rho, lengths * up / (1 - rho)


def _equivalent_columns(x: Float64[ndarray, "items d_model"]) -> Float64[ndarray, "items columns"]:
    """The columns without zero columns and repetitions, times powers of two: they give the same forms, exactly."""
    columns = np.unique(x, axis=1)
    columns = columns[:, columns.any(axis=0)]
    exponents = np.frexp(np.abs(columns).max(axis=0, initial=0.0))[1]
    scaled = np.ldexp(columns, -exponents)
    return scaled if np.array_equal(np.ldexp(scaled, exponents), columns) else columns  # underflow: not the same


def _has_constant_column(x: Float64[ndarray, "items d_model"]) -> bool:
    """Whether some column has the same number, not zero, in every row."""
    return bool(((x == x[0]).all(axis=0) & (x[0] != 0)).any())


def _has_signs(graph: Graph, matrix: Float64[ndarray, "items items"]) -> bool:
    """Whether M is positive on every relation and negative on every other pair."""
    relations = matrix[graph.sources, graph.targets]
    positive = int(np.count_nonzero(matrix > 0))
    negative = int(np.count_nonzero(matrix < 0))
    signed = positive == graph.relations and negative == graph.items**2 - graph.relations
    return bool(signed and (relations > 0).all() and np.isfinite(matrix).all())
