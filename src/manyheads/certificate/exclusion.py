"""exclude: whether one head of any width can hold a graph over an embedding, decided with a proof either way.

One head of width d_model scores a pair by any form x_iᵀAx_j. By Gordan's theorem exactly one of two things exists: a
form and a threshold that separate the relations from all other pairs, or a matrix that proves that there are none
(`exclusion_proof`). Both come out of one convex problem: the smallest total loss Σ w_ij·ℓ(z_ij) over all forms A and
thresholds τ, with z_ij = Y_ij·(x_iᵀAx_j − τ) and ℓ(z) = √(1 + z²) − z.

- Where no form separates, the total loss has a minimum. There its slopes M_ij = −w_ij·Y_ij·ℓ'(z_ij) satisfy XᵀMX = 0
  and ΣM = 0, and ℓ' < 0 everywhere gives them all their signs: M is the proof.
- Where a form separates, the total loss falls towards zero, and all z_ij become positive on the way.

Newton's method finds either (`exclusion_search`).
"""

from __future__ import annotations

import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

from manyheads.certificate import certify, described
from manyheads.certificate.exclusion_proof import Exclusion, correction_share, one_item_share
from manyheads.certificate.exclusion_search import ExclusionSearch
from manyheads.certificate.few_pairs import few_pairs, few_pairs_prove, one_item, twin_pairs
from manyheads.errors import require_type
from manyheads.machine import cores
from manyheads.numbers import check_numbers
from manyheads.problem.problem import Problem

NEWTON_STEPS = 200
FEW_PAIRS_STEP = 30  # where a problem is open after this step, a proof by few pairs or by one item is looked for
ONE_ITEM_STEPS = 10  # from then on, wrong pairs that all belong to one item are mended by themselves, so often
SAFE_SHARE = 0.5  # a proof is accepted where rounding can take at most this part of every entry


def exclude(
    problem: Problem,
    *,
    time_limit: float | None = None,
    workers: int | None = None,
    progress: Callable[[int, int, int], None] | None = None,
) -> Exclusion:
    """Decide whether one head of any width can hold the graph over the embedding.

    The answer is the same for any number of heads under the rule sum: their forms add up to one form. Two heads under
    the rule max can hold more than one, and are not excluded by this proof.

    Args:
        problem: The graph and the embedding.
        time_limit: Seconds after which the search ends undecided; None for no limit.
        workers: Threads; None for one a core.
        progress: Called with the Newton step, the pairs that are wrong and the signs that the proof lacks.

    Returns:
        The exclusion with its proof, the layer with its certificate, or neither.

    Raises:
        InputError: The argument is no problem, or a number is out of range.

    >>> from manyheads import gaussian, permutation_graph
    >>> [exclude(Problem(permutation_graph(32, seed=0), gaussian(32, d, seed=1))).verdict for d in (8, 16)]
    ['excluded', 'held']
    """
    require_type(problem, Problem, "the problem to exclude")
    check_numbers(time_limit=time_limit, workers=workers)
    started = time.monotonic()
    if (twins := twin_pairs(problem)) is not None:
        reason = "one head: impossible at every width, proved by two items with the same row and different relations"
        return Exclusion("excluded", reason, problem.items, problem.relations, problem.d_model, 0, 0.0, twins, 0.0)
    with ThreadPoolExecutor(workers or cores()) as pool:
        search = ExclusionSearch(problem, pool)

        def sizes() -> tuple[int, int, int, int, float]:
            seconds = time.monotonic() - started
            return problem.items, problem.relations, problem.d_model, search.steps, seconds

        while True:
            seconds = time.monotonic() - started
            wrong, lacking = search.look()
            if progress is not None:
                progress(search.steps, wrong, lacking)
            if not lacking:
                share = correction_share(problem.graph, problem.rows, search.matrix)
                if share < SAFE_SHARE:
                    reason = "one head: impossible at every width, proved"
                    return Exclusion("excluded", reason, *sizes(), matrix=search.matrix, share=share)
            is_mended = wrong and search.steps >= FEW_PAIRS_STEP and search.steps % ONE_ITEM_STEPS == 0
            more = search.one_item_step() if is_mended else None
            if not wrong or more is not None:
                layer = search.layer(more)
                certificate = certify(layer, problem)
                if certificate.holds:
                    reason = f"one head of width {layer.key_width} holds the graph, certified"
                    layer = described(layer, problem, certificate, {"construction": "exclude"})
                    return Exclusion("held", reason, *sizes(), layer=layer, certificate=certificate)
            is_last = search.steps >= NEWTON_STEPS or (time_limit is not None and seconds >= time_limit)
            is_last = is_last or not search.step()
            if is_last or search.steps == FEW_PAIRS_STEP:
                matrix = few_pairs(problem)
                if matrix is not None and few_pairs_prove(problem.graph, problem.rows, matrix):
                    reason = "one head: impossible at every width, proved by a few pairs"
                    return Exclusion("excluded", reason, *sizes(), matrix=matrix, share=0.0)
                matrix = one_item(problem)
                if matrix is not None:
                    share = one_item_share(problem.graph, problem.rows, matrix)
                    if share < SAFE_SHARE:
                        reason = "one head: impossible at every width, proved by the pairs of one item"
                        return Exclusion("excluded", reason, *sizes(), matrix=matrix, share=share)
            if is_last:
                return Exclusion("undecided", search.reason(wrong, lacking), *sizes())
