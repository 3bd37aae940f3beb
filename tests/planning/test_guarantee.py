"""Guarantee and promise: only where the conditions of the proof hold."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

from manyheads import gaussian, permutation_graph
from manyheads.construct import width_limit
from manyheads.planning import plan, promise


def test_a_guarantee_has_a_proof() -> None:
    every = plan(relations=100, items=64, d_model=16).guaranteed
    assert every is not None
    assert (every.key_budget, every.heads, every.key_width) == (100, 100, 1)
    wide = plan(relations=4096, items=4096, d_model=4096).guaranteed
    assert wide is not None
    assert wide.heads == 1
    assert wide.key_budget < 4096
    assert plan(relations=64, items=64, d_model=16, rule="softmax", context_length=16).guaranteed is None


def test_a_star_is_no_permutation_though_it_has_as_many_relations_as_items() -> None:
    star = plan(relations=600, items=600, d_model=600, max_degree=599).guaranteed
    assert star is not None
    assert "permutation" not in star.proof
    assert star.key_budget == 600
    for max_degree in (None, 1):  # degrees not given are even: one each
        swap = plan(relations=600, items=600, d_model=600, max_degree=max_degree).guaranteed
        assert swap is not None
        assert "permutation" in swap.proof


def test_a_guarantee_is_of_rows_that_meet_its_condition() -> None:
    rows = gaussian(40, 8, seed=0)
    proved = plan(relations=40, items=40, d_model=8, embedding=rows)
    assert proved.guaranteed is not None
    assert "no two of them equal or opposite" in proved.guaranteed.proof
    spoilt = {
        "rows 3 and 5 of the embedding are equal or opposite": (5, rows[3]),
        "rows 2 and 9 of the embedding are equal or opposite": (9, -rows[2]),
        "row 7 of the embedding has 1.5": (7, 1.5 * rows[7]),
        "row 4 of the embedding is zero": (4, 0 * rows[4]),
    }
    for why, (place, row) in spoilt.items():
        bad = rows.copy()
        bad[place] = row
        advice = plan(relations=40, items=40, d_model=8, embedding=bad)
        assert advice.guaranteed is None
        assert advice.unproved is not None
        assert why in advice.unproved
    narrow = plan(relations=1, items=3, d_model=1)
    assert narrow.guaranteed is None
    assert narrow.unproved is not None
    assert "in one dimension" in narrow.unproved


def test_construction_one_is_guaranteed_on_independent_rows_only() -> None:
    rows = gaussian(600, 600, seed=0)
    assert (
        plan(relations=600, items=600, d_model=600, embedding=rows).guaranteed
        == plan(relations=600, items=600, d_model=600).guaranteed
    )
    rows[0] = (rows[1] + rows[2]) / np.linalg.norm(rows[1] + rows[2])
    dependent = plan(relations=600, items=600, d_model=600, embedding=rows).guaranteed
    assert dependent is not None
    assert "permutation" not in dependent.proof


def test_what_an_embedding_promises() -> None:
    """Wide rows promise whole blocks, crowded ones next to nothing; rows in pairs promise nothing at all."""
    graph = permutation_graph(64, seed=0)
    roomy = promise(graph, gaussian(64, 512, seed=1))
    assert roomy.matching_size is not None
    assert roomy.realised is not None
    assert roomy.heads == -(-64 // roomy.matching_size)
    crowded = promise(graph, gaussian(64, 16, seed=1))
    assert crowded.matching_size is None or crowded.matching_size < roomy.matching_size
    twins = np.repeat(gaussian(32, 16, seed=1), 2, axis=0)
    assert promise(graph, twins).matching_size is None


def test_a_matching_size_that_fails_is_given_up_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    whole, seen = width_limit.limit_tiles, []

    def counted(*given: Any, **named: Any) -> Iterator[object]:
        for tile in whole(*given, **named):
            seen.append(tile[:2])
            yield tile

    monkeypatch.setattr(width_limit, "limit_tiles", counted)
    found = promise(permutation_graph(512, seed=0), gaussian(512, 4, seed=1))
    assert found.tried == (4, 2, 1)
    assert found.matching_size == 1
    assert 8 < len(seen) <= 8 + 2 * 2  # eight tiles, all of them only where it works
