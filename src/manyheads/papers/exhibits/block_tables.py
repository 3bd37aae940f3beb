"""The tables of Figure 7, by the names of their models."""

from __future__ import annotations

import numpy as np
from jaxtyping import Float32
from numpy import ndarray

from manyheads.block.block_data import frozen_table
from manyheads.errors import InputError
from manyheads.files.token_rankings import read_ranking
from manyheads.files.token_tables import KNOWN, read_token_table
from manyheads.papers.exhibits.block_setting import GAUSSIAN, BlockSetting, Table
from manyheads.problem.embedding import given_name


def named_table(words: str, setting: BlockSetting) -> tuple[Table, Float32[ndarray, "rows width"] | None]:
    """gaussian, a known model or its file: the table at this size, and its rows unless they are drawn.

    A table that is wider than the setting is reduced by PCA.
    """
    if words == "gaussian":
        return GAUSSIAN, None
    if words.partition(":")[0] not in KNOWN:
        raise InputError(
            f"Figure 7 has no table '{words}': choose from gaussian, {', '.join(KNOWN)}, or one of these with its file "
            "after a colon; `manyheads block` takes any other"
        )
    table = read_token_table(words)
    assert table.ranking is not None
    assert table.end is not None
    width = table.rows.shape[1]
    if width < setting.d_model:
        raise InputError(f"{table.name}'s rows have {width} numbers, and this size of Figure 7 needs {setting.d_model}")
    rows = frozen_table(table.rows, read_ranking(table.ranking), items=setting.items, null=table.end)
    return Table(table.name, given_name(rows), "none" if width == setting.d_model else "pca"), np.asarray(rows)
