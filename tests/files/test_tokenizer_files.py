"""Tokenizers: they fit their table, and what is not a tokenizer or a text is refused."""

from __future__ import annotations

from pathlib import Path

import pytest
from support.small_models import write_tokenizer

from manyheads import InputError
from manyheads.files.tokenizer_files import read_tokenizer


def test_a_tokenizer_that_does_not_fit_the_table_is_refused(tmp_path: Path) -> None:
    tokenizer = read_tokenizer(write_tokenizer(tmp_path / "tokenizer.json"))
    tokenizer.check(12)
    tokenizer.check(12 + 512)  # rows are padded to round numbers
    for rows in (11, 12 + 513):
        with pytest.raises(InputError, match=f"does not fit the table: .* has 12 tokens, the table {rows} rows"):
            tokenizer.check(rows)


def test_what_is_no_tokenizer_and_no_text_is_refused(tmp_path: Path) -> None:
    broken, blank = tmp_path / "broken.json", tmp_path / "blank.txt"
    broken.write_text("{}")
    blank.write_text("")
    with pytest.raises(InputError, match=r"broken\.json is not a tokenizer\.json"):
        read_tokenizer(broken)
    with pytest.raises(InputError, match="does not exist"):
        read_tokenizer(tmp_path / "nowhere.json")
    tokenizer = read_tokenizer(write_tokenizer(tmp_path / "tokenizer.json"))
    with pytest.raises(InputError, match="holds no text"):
        tokenizer.counts(blank)
    with pytest.raises(InputError, match=r"nowhere\.txt does not exist"):
        tokenizer.counts(tmp_path / "nowhere.txt")
    blank.write_bytes(b"\xff\xfe\xfa")
    with pytest.raises(InputError, match="is not UTF-8"):
        tokenizer.counts(blank)
