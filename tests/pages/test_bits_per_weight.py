"""The page on bits per weight: its points, the transition of one head, and a picture with a mark for each."""

from __future__ import annotations

import math
from pathlib import Path

import numpy as np
import pytest

from manyheads.drawing.style import save
from tools.pages.bits_per_weight import measurement
from tools.pages.bits_per_weight.pictures import MARKS, draw_bits
from tools.pages.bits_per_weight.text import (
    GROUPS,
    NOT_SHARED,
    ONE_HEAD,
    SHARED,
    TABLES,
    points,
    shared_points,
    transitions,
)
from tools.pages.catalogue import Settings
from tools.pages.rows import Row, matching, read_rows, read_tables


def test_every_group_has_points_in_one_unit() -> None:
    found = points(read_tables(TABLES))
    assert {point["group"] for point in found} == set(GROUPS)
    for point in found:
        weights = 2 * point["d_model"] * point["certified"]
        if point["group"] != SHARED:
            assert point["certified_bits"] == pytest.approx(point["log2_graphs"] / weights)
        assert point["certified_bits"] < point["most_bits"]
        if point["trained"]:
            assert point["trained_bits"] * point["trained"] == pytest.approx(
                point["certified_bits"] * point["certified"]
            )
    (one,) = [p for p in found if (p["items"], p["d_model"], p["graphs"]) == (512, 64, "permutations of 512 items")]
    assert one["log2_graphs"] == pytest.approx(math.lgamma(513) / math.log(2))


def test_shared_keys_count_the_weights_of_their_key_heads() -> None:
    """4 heads that share one key head of width 5 over d_model 16: (4 + 1)·16·5 weights. The middle seed counts."""
    row = {"items": 64, "d_model": 16, "shared": 1, "heads": 4, "key_heads": 1, "key_width": 5}
    (point,) = shared_points([row | {"seed": 0}, row | {"seed": 1, "key_width": 9}, row | {"seed": 2, "key_width": 3}])
    assert point["certified_bits"] == pytest.approx(math.lgamma(65) / math.log(2) / 400)
    assert point["certified"] == 5
    assert point["graphs"] == "permutations of 64 items: 4 heads of width 5, 1 key head"
    apart = row | {"seed": 0, "shared": 0, "key_heads": 4}
    (other,) = shared_points([apart])
    assert (point["group"], other["group"]) == (SHARED, NOT_SHARED)
    assert other["certified_bits"] == pytest.approx(math.lgamma(65) / math.log(2) / 640)


def decision(family: str, d_model: int, seed: int, verdict: str) -> Row:
    return {"family": family, "items": 64, "relations": 64, "d_model": d_model, "seed": seed, "verdict": verdict}


def test_the_transition_is_that_of_the_middle_seed() -> None:
    """The page's own rows count only where the page on one head has none; graphs that are not drawn are left out."""
    rows = [decision("permutation", width - 1, seed, "excluded") for seed, width in enumerate((17, 19, 18))]
    rows += [decision("permutation", width, seed, "held") for seed, width in enumerate((17, 19, 18, 40))]
    rows += [decision("permutation", 16, 3, "excluded")]  # 17 to 39 are not decided: no transition
    rows += [decision("wordnet", 9, 0, "held"), decision("regular:4", 28, 0, "excluded")]
    assert transitions({"one-head": rows, "bits-per-weight-one-head": []}) == [("permutation:64", 18, 18.0)]
    own = [decision("regular:4", 27, 0, "excluded"), decision("regular:4", 28, 0, "held")]
    assert transitions({"one-head": [], "bits-per-weight-one-head": own}) == [("regular:64:4", 28, 28.0)]
    assert transitions({"one-head": rows, "bits-per-weight-one-head": own})[0][1] == 18
    assert transitions({"one-head": [], "bits-per-weight-one-head": []}) == []


def test_the_picture_shows_every_point(tmp_path: Path) -> None:
    tables = read_tables(TABLES)
    found = points(tables)
    figure = draw_bits(found, tables["bits-per-weight-neighbours"])
    (axis,) = figure.axes
    shown = {str(dots.get_label()): np.asarray(dots.get_offsets()) for dots in axis.collections}
    for group, name, _, _, label in MARKS:
        own = sorted((p["log2_graphs"], p[name]) for p in matching(found, group=group) if p[name])
        np.testing.assert_allclose(sorted(map(tuple, shown[label])), own)
    assert len(shown["no layer holds more, proved"]) == len(found)
    lines = sorted({float(np.asarray(line.get_ydata())[0]) for line in axis.get_lines()})
    assert lines == sorted({float(row["bits"]) for row in tables["bits-per-weight-neighbours"]})
    save(figure, tmp_path / "bits")


def test_one_head_is_decided_on_both_sides(monkeypatch: pytest.MonkeyPatch) -> None:
    stored: dict[str, list[Row]] = {}
    monkeypatch.setattr(measurement, "SIZES", (24,))
    monkeypatch.setattr(measurement, "read_rows", lambda name: [])
    monkeypatch.setattr(measurement, "write_rows", lambda name, rows: stored.update({name: list(rows)}))
    measurement.measure(Settings())
    rows = stored[measurement.NAME]
    assert list(rows[0]) == list(read_rows(measurement.NAME)[0])
    held, excluded = ([row["d_model"] for row in matching(rows, verdict=word)] for word in ("held", "excluded"))
    assert min(held) - max(excluded) == 1
    (point,) = matching(points({**{name: [] for name in TABLES}, measurement.NAME: rows}), group=ONE_HEAD)
    assert point["d_model"] == min(held)
