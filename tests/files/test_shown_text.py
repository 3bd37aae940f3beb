"""Text that others wrote is shown: no message can write to the terminal."""

from __future__ import annotations

import pickle
import unicodedata

import pytest
from hypothesis import given
from hypothesis import strategies as st

from manyheads import InputError
from manyheads.text import shown_text


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("Rome, Zürich, 東京 😀 \\x", "Rome, Zürich, 東京 😀 \\x"),
        ("\x1b[2J\x07\x00\x7f\x9b", "\\x1b[2J\\x07\\x00\\x7f\\x9b"),
        ("a\nb\rc\td\u2028e\u2029\x85", "a\\nb\\rc\\td\\u2028e\\u2029\\x85"),
        ("\u202egnp.exe\u2066", "\\u202egnp.exe\\u2066"),
        ("\ud800x\udfff", "\\ud800x\\udfff"),
    ],
)
def test_what_a_terminal_would_obey_is_escaped(text: str, shown: str) -> None:
    assert shown_text(text) == shown
    assert str(InputError(f"the label '{text}' is unknown")) == f"the label '{shown}' is unknown"


@given(st.text(st.characters()))
def test_every_text_is_one_line_that_can_be_printed(text: str) -> None:
    shown = shown_text(text, most=50)
    assert len(shown) <= 50
    assert len(shown.splitlines()) <= 1
    shown.encode()
    assert not any(unicodedata.category(character) in ("Cc", "Cs", "Zl", "Zp") for character in shown)
    assert shown_text(shown, most=50) == shown


def test_an_error_survives_a_pickle() -> None:
    error = pickle.loads(pickle.dumps(InputError("a\x1b")))
    assert (type(error), str(error)) == (InputError, "a\\x1b")
