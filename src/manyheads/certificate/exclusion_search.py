"""Newton's method on the total loss of `exclusion`: one convex problem that ends at a proof or at a head.

Conjugate gradients solve the linear systems. ℓ' falls like z⁻² and not like a power of e, so that the smallest entry of
M stays far above rounding.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field

import numpy as np
from jaxtyping import Float64
from numpy import ndarray

from manyheads._native import multiply
from manyheads.layer.layer import Layer
from manyheads.problem.problem import Problem

# conjugate gradients: their most steps, and the share of the gradient that they may leave. A small share costs more
# than it saves, except near the transition, where many Newton steps have not decided.
EASY, HARD, HARD_STEP = (250, 0.3), (1500, 0.1), 40
RARE = 256  # other pairs for each relation, from which on relations weigh more
LONGEST_STEP = 64  # times the Newton step: if a form separates, the loss falls without end
ONE_ITEM_MOST = 2048  # items, up to which the pairs of one item are mended: a linear programme of as many rows
BLOCK = 1 << 18  # scores of a block of rows
PART = 1 << 13  # scores of a part of a block: 64 KiB


def product(left: ndarray, right: ndarray) -> ndarray:
    """left @ right on the thread of the caller: the threads of BLAS wait for each other where others use the cores."""
    out = np.empty((len(left), right.shape[1]), dtype=left.dtype)
    multiply(left, right, out)
    return out


def _parts(rows: slice, items: int) -> Iterator[slice]:
    """The block of rows in parts so small that their temporary arrays take no new pages of memory."""
    height = max(1, PART // items)
    return (slice(start, min(start + height, rows.stop)) for start in range(rows.start, rows.stop, height))


Step = tuple[Float64[ndarray, "rank rank"], float]  # of the form and of the threshold


@dataclass(eq=False)
class ExclusionSearch:
    """Newton's method on the total loss. Rows are in an orthonormal basis Q of the embedding's columns, times √m."""

    problem: Problem
    pool: ThreadPoolExecutor
    steps: int = 0
    threshold: float = 0.0
    loss: float = field(init=False)

    def __post_init__(self) -> None:
        rows = self.problem.rows.astype(np.float64)
        items = len(rows)
        left, strengths, right = np.linalg.svd(rows, full_matrices=False)
        present = strengths > strengths[0] * items * 2.0**-50
        self.rank = int(np.count_nonzero(present))
        self.basis = np.ascontiguousarray(left[:, present] * math.sqrt(items))
        self.to_basis = right[present].T / strengths[present] * math.sqrt(items)  # Q = X·T
        self.wide = np.ascontiguousarray(self.basis.T)
        self.small_basis, self.small_wide = self.basis.astype(np.float32), self.wide.astype(np.float32)
        self.weight = max(1.0, items**2 / max(1, self.problem.relations) / RARE)  # of a relation against another pair
        self.form = np.zeros((self.rank, self.rank))
        self.scores = np.zeros((items, items))  # x_iᵀAx_j − τ
        self.matrix = np.empty((items, items))
        self.stiffness = np.empty((items, items), dtype=np.float32)  # w·ℓ''
        self.gradient: Step = self.form, 0.0
        height = max(1, BLOCK // items)
        self.blocks = [slice(start, min(start + height, items)) for start in range(0, items, height)]
        mean = self.basis.sum(axis=0) / items
        self.constant = self.basis @ mean  # the projection of 1 on the columns of X
        self.loss = items**2 + (self.weight - 1) * self.problem.relations  # ℓ(0) = 1

    def look(self) -> tuple[int, int]:
        """Slopes and curvature at the current scores; how many pairs are wrong, and how many signs M lacks.

        M is the matrix of slopes, moved onto XᵀMX = 0 and ΣM = 0: by its part along the forms, then along the part
        of the constant 11ᵀ that is no form.
        """
        items, sums = self.problem.items, self.basis.sum(axis=0)
        parts = list(self.pool.map(self._slopes, self.blocks))
        form = np.sum([part[0] for part in parts], axis=0)
        total = math.fsum(part[1] for part in parts)
        self.gradient = -form, total
        along = form / items**2
        outside = items**2 - float(self.constant @ self.constant) ** 2
        offset = (total - float(sums @ along @ sums)) / outside if outside > 1e-9 * items**2 else 0.0
        lacking = sum(self.pool.map(lambda rows: self._move(rows, along, offset), self.blocks))
        return sum(part[2] for part in parts), lacking

    def step(self) -> bool:
        """One Newton step with a line search; whether it lowered the loss."""
        form, threshold = self._direction()
        moves = self._scores_of(form, threshold)
        slope = float(np.sum(self.gradient[0] * form)) + self.gradient[1] * threshold
        length, loss = 1.0, self._loss_at(1.0, moves)
        while not loss <= self.loss + 1e-4 * length * slope:
            length /= 2
            if length < 1e-8:
                return False
            loss = self._loss_at(length, moves)
        while 1 <= length < LONGEST_STEP and (longer := self._loss_at(2 * length, moves)) < loss:
            length, loss = 2 * length, longer
        self.form = self.form + length * form
        self.threshold += length * threshold
        moves *= length
        self.scores += moves
        self.loss = loss
        self.steps += 1
        return True

    def layer(self, more: Step | None = None) -> Layer:
        """One head whose form and threshold are those found, in the coordinates of the embedding itself.

        Args:
            more: A step that is added to them.
        """
        added, raised = more or (0.0, 0.0)
        form = self.to_basis @ (self.form + added) @ self.to_basis.T
        left, strengths, right = np.linalg.svd(form)
        width = max(1, self.rank)
        roots = np.sqrt(strengths[:width])
        query, key = left[:, :width] * roots, right[:width].T * roots
        return Layer(query[None], key[None], self.threshold + raised)

    def one_item_step(self) -> Step | None:
        """Where every wrong pair lies in one column or one row: a step that mends its pairs, by a linear programme.

        The scores of the column j are those of the vector u = A·q_j. The step u → u + a, A → A + a·vᵀ with
        v = q_j/‖q_j‖² changes the score of another pair (i, l) by (q_iᵀa)·(vᵀq_l). Its size and that of the change of
        the threshold are bounded, so that no other pair becomes wrong. None where there is no such step.
        """
        if self.problem.items > ONE_ITEM_MOST:
            return None
        signs = np.where(self.problem.graph.adjacency(), 1.0, -1.0)
        margins = signs * self.scores
        ends_of_wrong = [np.unique(ends) for ends in np.nonzero(margins <= 0)]  # sources, targets
        is_row = len(ends_of_wrong[0]) == 1
        if not is_row and len(ends_of_wrong[1]) != 1:
            return None
        item = int(ends_of_wrong[0 if is_row else 1][0])
        if self.problem.items == 1 or not self.basis[item].any():
            return None
        if is_row:
            signs, margins = signs.T, margins.T
        signs, own = signs[:, item], margins[:, item]
        across = self.basis[item] / (self.basis[item] @ self.basis[item])
        room = float(np.delete(margins, item, axis=1).min()) / (1.001 + np.abs(self.basis @ across).max())
        # the largest ε with own + signs·(Qa − t) ≥ ε, |Qa| ≤ room and |t| ≤ room; variables a, t, ε
        one = np.ones((len(own), 1))
        bounded = np.hstack([self.basis, 0 * one, 0 * one])
        limits = np.vstack([np.hstack([-signs[:, None] * self.basis, signs[:, None], one]), bounded, -bounded])
        ends = np.concatenate([own, np.full(2 * len(own), room)])
        from scipy.optimize import linprog  # takes long to import

        ranges = [*([(None, None)] * self.rank), (-room, room), (None, None)]
        found = linprog(np.append(np.zeros(self.rank + 1), -1.0), A_ub=limits, b_ub=ends, bounds=ranges)
        if found.x is None or not found.x[-1] > 0:
            return None
        a, raised = found.x[: self.rank], float(found.x[self.rank])
        return np.outer(across, a) if is_row else np.outer(a, across), raised

    def reason(self, wrong: int, lacking: int) -> str:
        """The reason why neither proof was found."""
        if self.rank < (width := self.problem.d_model):
            return f"the embedding has rank {self.rank}, less than its width {width}: a proof needs independent columns"
        if not lacking:
            return "the matrix has all signs of a proof, but the columns are too nearly dependent for float64"
        return f"after {self.steps} steps {wrong:,} pairs are wrong and {lacking:,} signs of the proof are lacking"

    def _slopes(self, rows: slice) -> tuple[Float64[ndarray, "rank rank"], float, int]:
        """For a block of rows: M and w·ℓ'' of its pairs, their part of QᵀMQ and of ΣM, and the pairs that are wrong."""
        wrong = 0
        for part in _parts(rows, self.problem.items):
            margins = self._signed(self.scores[part], part)  # z
            wrong += int(np.count_nonzero(margins <= 0))
            roots = margins * margins
            roots += 1
            np.reciprocal(np.sqrt(roots, out=roots), out=roots)  # 1/√(1 + z²)
            small = roots.astype(np.float32)
            np.multiply(small * small, small, out=self.stiffness[part])
            roots *= margins
            np.subtract(roots, 1, out=self.matrix[part])  # ℓ'(z)
        matrix = self.matrix[rows]
        sources, targets = self._relations(rows)
        self.stiffness[rows][sources, targets] *= self.weight
        matrix[sources, targets] *= -self.weight
        form = product(self.basis[rows].T, product(matrix, self.basis))
        return form, float(matrix.sum()), wrong

    def _move(self, rows: slice, along: Float64[ndarray, "rank rank"], offset: float) -> int:
        """Move a block of rows of M onto the two equations; how many of its signs are lacking then."""
        matrix = self.matrix[rows]
        matrix -= product(product(self.basis[rows], along), self.wide)
        matrix -= offset * (1 - np.outer(self.constant[rows], self.constant))
        sources, targets = self._relations(rows)
        relations = int(np.count_nonzero(matrix[sources, targets] > 0))
        wrong_others = int(np.count_nonzero(matrix >= 0)) - int(np.count_nonzero(matrix[sources, targets] >= 0))
        return len(sources) - relations + wrong_others

    def _direction(self) -> Step:
        """Conjugate gradients on the Newton system, in single precision: a direction need not be exact."""
        scale = float(self.stiffness.mean(dtype=np.float64)) * self.problem.items**2
        form, threshold = np.zeros_like(self.form), 0.0
        rest_form, rest_threshold = -self.gradient[0], -self.gradient[1]
        move_form, move_threshold = rest_form, rest_threshold
        size = first = float(np.sum(rest_form**2)) + rest_threshold**2
        most, rest = EASY if self.steps < HARD_STEP else HARD
        wanted = min(rest, math.sqrt(math.sqrt(first) / scale)) ** 2 * first
        for _ in range(most):
            bent_form, bent_threshold = self._bend(move_form, move_threshold)
            curvature = float(np.sum(move_form * bent_form)) + move_threshold * bent_threshold
            if not curvature > 0:  # single precision allows no further progress: use the direction so far
                break
            length = size / curvature
            form, threshold = form + length * move_form, threshold + length * move_threshold
            rest_form = rest_form - length * bent_form
            rest_threshold -= length * bent_threshold
            before, size = size, float(np.sum(rest_form**2)) + rest_threshold**2
            if size <= wanted:
                break
            move_form = rest_form + size / before * move_form
            move_threshold = rest_threshold + size / before * move_threshold
        return form, threshold

    def _bend(self, form: Float64[ndarray, "rank rank"], threshold: float) -> Step:
        """The second derivative of the loss, applied to a step."""
        small_form = form.astype(np.float32)

        def part(rows: slice) -> tuple[ndarray, float]:
            bent = product(product(self.small_basis[rows], small_form), self.small_wide)
            bent -= np.float32(threshold)
            bent *= self.stiffness[rows]
            total = float(bent.sum(dtype=np.float64))
            return product(self.small_basis[rows].T, product(bent, self.small_basis)), total

        parts = list(self.pool.map(part, self.blocks))
        total = np.stack([one[0] for one in parts]).sum(axis=0, dtype=np.float64)
        return total, -math.fsum(one[1] for one in parts)

    def _scores_of(self, form: Float64[ndarray, "rank rank"], threshold: float) -> Float64[ndarray, "items items"]:
        """The change of every pair's score by a step."""
        moves = np.empty_like(self.scores)

        def part(rows: slice) -> None:
            multiply(product(self.basis[rows], form), self.wide, moves[rows])
            moves[rows] -= threshold

        list(self.pool.map(part, self.blocks))
        return moves

    def _loss_at(self, length: float, moves: Float64[ndarray, "items items"]) -> float:
        """The total loss after a part of a step."""

        def loss(rows: slice) -> float:
            total = 0.0
            for part in _parts(rows, self.problem.items):
                scores = length * moves[part]
                margins = self._signed(np.add(scores, self.scores[part], out=scores), part)
                sizes = np.abs(margins)
                losses = margins * margins
                losses += 1
                np.sqrt(losses, out=losses)
                losses += sizes
                np.reciprocal(losses, out=losses)  # √(1 + z²) − |z|, without cancellation
                losses += sizes
                losses -= margins
                sources, targets = self._relations(part)
                total += float(losses.sum()) + (self.weight - 1) * float(losses[sources, targets].sum())
            return total

        return math.fsum(self.pool.map(loss, self.blocks))

    def _signed(self, scores: Float64[ndarray, "rows items"], rows: slice) -> Float64[ndarray, "rows items"]:
        """Y∘scores: positive where a pair is on its side of the threshold."""
        signed = -scores
        sources, targets = self._relations(rows)
        signed[sources, targets] *= -1
        return signed

    def _relations(self, rows: slice) -> tuple[ndarray, ndarray]:
        """Sources (from the block's first row on) and targets of the relations of a block of rows."""
        graph = self.problem.graph
        first, last = graph.row_starts[rows.start], graph.row_starts[rows.stop]
        return graph.sources[first:last] - rows.start, graph.targets[first:last]
