"""The page on the compact compiler: its methods can be run, and its ladders go down the key widths."""

from __future__ import annotations

import pytest

from manyheads import gaussian, permutation_graph
from tools.pages.fit.measurement import ladder
from tools.pages.fit.methods import METHODS
from tools.pages.fit.text import LADDERS
from tools.pages.rows import read_rows


@pytest.mark.filterwarnings("ignore:d_model = 12 is below")
@pytest.mark.parametrize("name", METHODS)
def test_a_method_separates_a_small_graph(name: str) -> None:
    graph, rows = permutation_graph(16, seed=0), gaussian(16, 12, seed=1000)
    assert METHODS[name](graph, rows, 2, 6, 0)


def test_a_ladder_ends_at_the_last_width_that_counts() -> None:
    tried: list[int] = []

    def works_down_to_four(_graph: object, _rows: object, _heads: int, key_width: int, _seed: int) -> bool:
        tried.append(key_width)
        return key_width >= 4

    found = ladder(works_down_to_four, 16, 8, 3, range(6, 1, -1))
    assert found["key_budget"] == 12
    assert sorted(set(tried)) == [3, 4, 5, 6]


def test_every_method_has_a_row_on_every_ladder() -> None:
    rows = {(row["method"], row["items"], row["d_model"], row["heads"]) for row in read_rows("fit-comparison")}
    assert rows >= {(name, *shape) for name in METHODS for shape in LADDERS}
