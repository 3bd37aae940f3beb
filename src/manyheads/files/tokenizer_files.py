"""Tokenizer: cuts text into the tokens of a model, with the tokenizers package (an extra)."""

from __future__ import annotations

from collections.abc import Iterator
from io import TextIOWrapper
from itertools import chain
from pathlib import Path
from typing import Any

import numpy as np
from jaxtyping import Int64
from numpy import ndarray

from manyheads.errors import InputError
from manyheads.files.door import open_file, read_text, reading, reason
from manyheads.files.gguf_files import GgufVocabulary

LINES_AT_ONCE = 10_000
CHARACTERS_AT_ONCE = 2**18  # the tokenizers package takes up to 400 bytes for each
SPARSE = 2**16  # the most token numbers that a tokenizer may leave out
PADDING = 512  # the most rows that a table has beyond its tokens: models pad their tables to round numbers


class Tokenizer:
    """Counts the tokens of a text. `source` is the name of its file, for messages."""

    def __init__(self, library: Any, source: str) -> None:
        self._library, self.source = library, source

    @property
    def size(self) -> int:
        """The largest token number plus 1."""
        return 1 + max(self._library.get_vocab(with_added_tokens=True).values(), default=-1)

    def number(self, token: str) -> int | None:
        """The number of a token, written as in the vocabulary; None if there is no such token."""
        return self._library.token_to_id(token)

    def check(self, rows: int) -> None:
        """Check that a table with this number of rows can belong to this tokenizer.

        Raises:
            InputError: A token has no row, or the table has over 512 rows more than tokens.
        """
        if not self.size <= rows <= self.size + PADDING:
            raise InputError(
                f"the tokenizer does not fit the table: {self.source} has {self.size} tokens, the table {rows} rows"
            )

    def counts(self, corpus: str | Path) -> Int64[ndarray, " tokens"]:
        """Count how often each token occurs in a text file. The file is read in parts.

        Raises:
            InputError: The file cannot be read, or is empty.
        """
        totals = np.zeros(self.size, dtype=np.int64)
        for lines in _batches(Path(corpus)):
            with reading(self.source, "cannot cut this text into tokens"):
                encoded = self._library.encode_batch_fast(lines, add_special_tokens=False)
            numbers = np.fromiter(chain.from_iterable(one.ids for one in encoded), dtype=np.int64)
            totals += np.bincount(numbers, minlength=len(totals))
        if not totals.any():
            raise InputError(f"{corpus} holds no text to count tokens in")
        return totals


def read_tokenizer(path: str | Path) -> Tokenizer:
    """Read the tokenizer in a tokenizer.json.

    Raises:
        InputError: The file cannot be read, or the tokenizers package is missing.
    """
    text = read_text(path)
    library = _package(str(path))
    with reading(path, "is not a tokenizer.json, or is damaged"):
        tokenizer = Tokenizer(library.Tokenizer.from_str(text), str(path))
        names = len(tokenizer._library.get_vocab(with_added_tokens=True))
        if tokenizer.size > names + SPARSE:  # one counter is kept for each number
            raise InputError(f"{path} numbers its tokens up to {tokenizer.size - 1:,}, but has only {names:,} tokens")
    return tokenizer


def gguf_tokenizer(vocabulary: GgufVocabulary) -> Tokenizer:
    """Build the tokenizer of a GGUF model, if it is byte-pair encoding with a known rule for cutting words.

    Raises:
        InputError: The tokenizer is of another kind, or the tokenizers package is missing.
    """
    package = _package(vocabulary.name)
    by_bytes = package.pre_tokenizers.ByteLevel(add_prefix_space=False)
    cuts = {
        "default": by_bytes,
        "gpt-2": by_bytes,
        "smollm": package.pre_tokenizers.Sequence([package.pre_tokenizers.Digits(individual_digits=True), by_bytes]),
    }
    if vocabulary.model != "gpt2" or vocabulary.cut not in cuts:
        raise InputError(
            f"{vocabulary.name} cuts text in a way not known here ({vocabulary.model}, {vocabulary.cut}): "
            "give its tokenizer.json"
        )
    numbers = {token: number for number, token in enumerate(vocabulary.tokens)}
    pairs = [tuple(merge.split(" ")) for merge in vocabulary.merges]
    with reading(vocabulary.name, "has tokens and merges that do not fit together"):
        library = package.Tokenizer(package.models.BPE(vocab=numbers, merges=pairs))
    library.pre_tokenizer = cuts[vocabulary.cut]
    return Tokenizer(library, vocabulary.name)


def _package(needed_by: str) -> Any:
    try:
        import tokenizers
    except ModuleNotFoundError:
        raise InputError(
            f"the tokenizer of {needed_by} needs the tokenizers package: pip install 'manyheads[tokens]'"
        ) from None
    return tokenizers


def _batches(path: Path) -> Iterator[list[str]]:
    """The lines of a text file in batches. A line that is longer than a batch is cut before one of its spaces.

    A tokenizer cuts words at spaces, too: a text in one long line has the same tokens.
    """
    with open_file(path) as (binary, _), TextIOWrapper(binary, encoding="utf-8") as file:
        batch: list[str] = []
        length, rest = 0, ""
        while line := rest + _readline(file, CHARACTERS_AT_ONCE - len(rest), path):
            rest = ""
            if len(line) == CHARACTERS_AT_ONCE and not line.endswith("\n"):
                place = line.rfind(" ", 1)
                if place > 0:
                    line, rest = line[:place], line[place:]
            batch.append(line)
            length += len(line)
            if len(batch) == LINES_AT_ONCE or length >= CHARACTERS_AT_ONCE:
                yield batch
                batch, length = [], 0
        if batch:
            yield batch


def _readline(file: TextIOWrapper, most: int, path: Path) -> str:
    try:
        return file.readline(most)
    except UnicodeDecodeError as error:
        raise InputError(f"{path} is not UTF-8 text") from error
    except OSError as error:
        raise InputError(f"{path} cannot be read: {reason(error)}") from error
