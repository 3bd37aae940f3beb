"""What a block trains on: its frozen table and its task, derived from the run's seeds or handed in."""

from __future__ import annotations

import numpy as np
from jaxtyping import Float, Float32, Integer
from numpy import ndarray

from manyheads.block.block_run import BlockRun
from manyheads.block.matching_task import Purpose, Task, retrieval_task
from manyheads.block.reduction import principal
from manyheads.errors import InputError
from manyheads.problem.embedding import GIVEN, given_name
from manyheads.problem.embedding_generators import gaussian


def task_of(run: BlockRun) -> Task:
    """The task of a run, the same for every (heads, key_width) of a problem seed."""
    return retrieval_task(run.items, run.context, seed=run.problem)


def table_of(run: BlockRun, given: Float[ndarray, "rows width"] | None = None) -> Float32[ndarray, "rows d_model"]:
    """E, with NULL's row the last: drawn, or the given one that the run names."""
    reason = table_refusal(run, given)
    if reason is not None:
        raise InputError(reason)
    if given is not None:
        return principal(given, run.d_model) if run.reduction == "pca" else np.ascontiguousarray(given, np.float32)
    words = (int(Purpose.EMBEDDING), run.problem, run.items, run.d_model)
    return gaussian(run.items + 1, run.d_model, seed=int(np.random.default_rng(words).integers(1 << 63)))


def table_refusal(run: BlockRun, given: Float[ndarray, "rows width"] | None) -> str | None:
    """Why the run cannot train on this table; None where it can."""
    if given is None:
        return f"the run trains on the table {run.embedding}: hand it in" if run.embedding.startswith(GIVEN) else None
    if run.reduction == "pca":
        if len(given) != run.items + 1 or given.shape[1] < run.d_model:
            return (
                f"the table has the shape {given.shape}, and {run.items} items and NULL that are reduced to d_model = "
                f"{run.d_model} need {run.items + 1} rows of at least {run.d_model} numbers"
            )
    elif given.shape != (run.items + 1, run.d_model):
        return (
            f"the table has the shape {given.shape}, and {run.items} items and NULL of d_model = {run.d_model} "
            f"need ({run.items + 1}, {run.d_model})"
        )
    if not np.isfinite(given).all():
        return "the table must hold finite numbers only"
    if given_name(given) != run.embedding:
        return f"the table handed in is {given_name(given)}, the run names {run.embedding}"
    return None


def frozen_table(
    embedding: Float[ndarray, "rows d_model"], ranking: Integer[ndarray, " tokens"], *, items: int, null: int
) -> Float32[ndarray, "table d_model"]:
    """E of a model's token embedding: the rows of its most frequent tokens, and the row of NULL (its EOS) last.

    `ranking` numbers the tokens by falling frequency; NULL is passed over in it.
    """
    rows = len(embedding)
    if items + 1 > rows:
        raise InputError(f"{items} items and NULL need {items + 1} rows, and the table has {rows}")
    if not 0 <= null < rows:
        raise InputError(f"NULL shall be row {null}, and the table has {rows}")
    if len(ranking) and not 0 <= ranking.min() <= ranking.max() < rows:
        stray = ranking.max() if ranking.max() >= rows else ranking.min()
        raise InputError(
            f"the tokenizer does not fit the table: it has a token {stray}, the table rows 0 to {rows - 1}"
        )
    chosen = ranking[ranking != null][:items]
    if len(chosen) < items:
        raise InputError(f"the ranking has {len(chosen)} tokens besides NULL, and {items} items are wanted")
    if len(np.unique(chosen)) < items:
        raise InputError("the ranking has a token twice")
    return np.ascontiguousarray(embedding[np.append(chosen, null)], dtype=np.float32)
