"""The page about the store: its queries run and say what the library says; its table names every column."""

from __future__ import annotations

import re
import sqlite3
from collections.abc import Iterator
from pathlib import Path

import pytest
from support.runs import changed, make_run

from manyheads.capacity import points, threshold
from manyheads.sweep import Record, Store

PAGE = (Path(__file__).parents[2] / "docs" / "guide" / "store.md").read_text()
CURVE, SMALLEST, SEEMING = re.findall(r"^```sql\n(.*?)^```$", PAGE, re.MULTILINE | re.DOTALL)
LIKE = make_run(items=64, d_model=16, heads=1, key_width=1, seed=0)
# mean F1 by (heads, key width); the last is a point given up after two seeds
POINTS = {(2, 8): (0.97, 3), (2, 10): (0.995, 3), (4, 4): (0.98, 3), (4, 5): (0.999, 3), (1, 16): (0.9997, 2)}


@pytest.fixture
def store(tmp_path: Path) -> Iterator[sqlite3.Connection]:
    records = []
    for (heads, width), (mean, seeds) in POINTS.items():
        for seed in range(seeds):
            scores = {
                "micro_f1": mean + 0.0005 * (seed - (seeds - 1) / 2),
                "exact_errors": max(0, 3 - heads),
                "margin": -0.1,
            }
            run = changed(LIKE, heads=heads, key_width=width, seed=seed)
            records.append(Record.of(run, "layer", "native", status="limit", scores=scores, steps=20_000, seconds=0.1))
    with Store.write(tmp_path / "s.db") as made:
        made.add(records)
    connection = sqlite3.connect(tmp_path / "s.db")
    yield connection
    connection.close()


def test_the_curve(store: sqlite3.Connection) -> None:
    rows = store.execute(CURVE).fetchall()
    assert [row[:4] for row in rows] == [(1, 16, 16, 2), (2, 8, 16, 3), (4, 4, 16, 3), (2, 10, 20, 3), (4, 5, 20, 3)]
    assert [row[4] for row in rows] == pytest.approx([POINTS[row[0], row[1]][0] for row in rows])


def test_the_smallest_key_budgets(store: sqlite3.Connection) -> None:
    made = points(store.execute("SELECT heads, key_width, seed, micro_f1 FROM results"))
    found = threshold([point for point in made if len(point.scores) > 2])
    assert store.execute(SMALLEST).fetchall() == [(64, 16, "permutation", 1, "max", found.key_budget)]
    assert found.key_budget == 20


def test_layers_that_only_seem_to_work(store: sqlite3.Connection) -> None:
    rows = store.execute(SEEMING).fetchall()
    assert [row[2:5] for row in rows] == [(1, 16, 0), (1, 16, 1), (2, 10, 0), (2, 10, 1), (2, 10, 2)]
    assert [row[6] for row in rows] == [2, 2, 1, 1, 1]


def test_the_page_names_every_column(store: sqlite3.Connection) -> None:
    columns = {row[1] for row in store.execute("PRAGMA table_xinfo(results)")}
    first_cells = [line.split("|")[1] for line in PAGE.splitlines() if line.startswith("| `")]
    assert set(re.findall(r"`(\w+)`", "".join(first_cells))) == columns
