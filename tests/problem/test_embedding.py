"""Embedding: what it refuses, and how rows are found by their names."""

from __future__ import annotations

import numpy as np
import pytest

from manyheads import InputError
from manyheads.problem.embedding import SHOWN, Embedding

TOKENS = ("Paris", "ĠParis", "ĠRome", "▁Oslo", " Bern", "river", "river")


@pytest.fixture
def tokens() -> Embedding:
    return Embedding(np.arange(len(TOKENS), dtype=np.float32)[:, None], TOKENS)


@pytest.mark.parametrize(
    ("rows", "names", "says"),
    [
        (np.zeros(3), None, r"a row of numbers for each item, not the shape \(3,\)"),
        (np.zeros((0, 3)), None, r"not the shape \(0, 3\)"),
        (np.zeros((3, 0)), None, r"not the shape \(3, 0\)"),
        (np.array([["a"]]), None, "floating-point numbers, not <U1"),
        (np.array([[1.0], [np.nan]]), None, "NaN or infinite"),
        (np.array([[1.0], [np.inf]]), None, "NaN or infinite"),
        (np.zeros((3, 1)), ("a", "b"), "2 names do not name the 3 rows"),
    ],
)
def test_malformed_rows_are_refused(rows: np.ndarray, names: tuple[str, ...] | None, says: str) -> None:
    with pytest.raises(InputError, match=says):
        Embedding(rows, names)


def test_whole_numbers_become_float64_and_floats_stay_as_they_are() -> None:
    assert Embedding(np.eye(2, dtype=np.int8)).rows.dtype == np.float64
    assert Embedding(np.eye(2, dtype=np.float16)).rows.dtype == np.float16


def test_an_embedding_is_taken_as_it_is(tokens: Embedding) -> None:
    assert Embedding.of(tokens) is tokens
    assert Embedding.of(np.eye(2)).names is None


@pytest.mark.parametrize(
    ("name", "row"), [("Paris", 0), ("ĠParis", 1), ("Rome", 2), ("Oslo", 3), ("Bern", 4), ("river", 5), (" Bern", 4)]
)
def test_a_name_finds_its_row_with_or_without_a_mark(tokens: Embedding, name: str, row: int) -> None:
    """The name itself comes first, then the marks; of two rows with one name the first."""
    selected = tokens.select([name])
    assert selected.rows.tolist() == [[row]]
    assert selected.names == (name,)


def test_rows_come_in_the_order_of_the_names(tokens: Embedding) -> None:
    assert tokens.select(["Oslo", "Paris", "Oslo"]).rows[:, 0].tolist() == [3, 0, 3]


def test_all_missing_names_are_said_at_once_with_the_nearest(tokens: Embedding) -> None:
    with pytest.raises(InputError) as caught:
        tokens.select(["Pariss", "Rome", "Tokyo", "rivers"])
    assert (
        str(caught.value)
        == "3 of 4 names have no row: 'Pariss' (nearest: 'Paris'), 'Tokyo', 'rivers' (nearest: 'river')"
    )


def test_a_long_list_of_missing_names_is_cut(tokens: Embedding) -> None:
    with pytest.raises(InputError, match=rf"^25 of 25 names have no row: 'w0', .*'w{SHOWN - 1}' and 5 more$"):
        tokens.select([f"w{n}" for n in range(25)])


def test_rows_without_names_cannot_be_selected() -> None:
    with pytest.raises(InputError, match="does not know the names"):
        Embedding(np.eye(2)).select(["a"])


def test_the_fingerprint_is_of_the_numbers_alone(tokens: Embedding) -> None:
    assert tokens.fingerprint == Embedding(tokens.rows.astype(np.float64)).fingerprint
    assert tokens.fingerprint != Embedding(tokens.rows + 1).fingerprint
    assert tokens.fingerprint != Embedding(tokens.rows.T).fingerprint
