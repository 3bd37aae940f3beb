"""Tokenizer: how a model cuts text into its tokens, by the tokenizers package (an extra)."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import chain, islice
from pathlib import Path
from typing import Any

import numpy as np
from jaxtyping import Int64
from numpy import ndarray

from manyheads.errors import InputError
from manyheads.files.gguf_vocabulary import GgufVocabulary

LINES_AT_ONCE = 10_000
PADDING = 512  # a table may have so many rows more than the vocabulary has tokens: they are padded to round numbers


class Tokenizer:
    """Counts the tokens of a text; `source` names the file it comes from in messages."""

    def __init__(self, library: Any, source: str) -> None:
        self._library, self.source = library, source

    @property
    def size(self) -> int:
        """One more than the largest number of a token."""
        return 1 + max(self._library.get_vocab(with_added_tokens=True).values(), default=-1)

    def number(self, token: str) -> int | None:
        """The number of a token, written as the vocabulary writes it."""
        return self._library.token_to_id(token)

    def check(self, rows: int) -> None:
        """Refuse a table that has no row for some token, or so many more rows that it must be another model's."""
        if not self.size <= rows <= self.size + PADDING:
            raise InputError(
                f"the tokenizer does not fit the table: {self.source} has {self.size} tokens, the table {rows} rows"
            )

    def counts(self, corpus: str | Path) -> Int64[ndarray, " tokens"]:
        """How often each token occurs in a text file, which is read in parts."""
        found = np.zeros(self.size, dtype=np.int64)
        for lines in _lines(Path(corpus)):
            encoded = self._library.encode_batch_fast(lines, add_special_tokens=False)
            numbers = np.fromiter(chain.from_iterable(one.ids for one in encoded), dtype=np.int64)
            found += np.bincount(numbers, minlength=len(found))
        if not found.any():
            raise InputError(f"{corpus} holds no text to count tokens in")
        return found


def read_tokenizer(path: str | Path) -> Tokenizer:
    """The tokenizer in a tokenizer.json."""
    path = Path(path)
    if not path.is_file():
        raise InputError(f"{path} does not exist" if not path.exists() else f"{path} is not a regular file")
    library = _package(str(path))
    try:
        return Tokenizer(library.Tokenizer.from_file(str(path)), str(path))
    except Exception as error:  # the package raises plain Exceptions for whatever it cannot read
        raise InputError(f"{path} is not a tokenizer.json, or is damaged") from error


def gguf_tokenizer(vocabulary: GgufVocabulary) -> Tokenizer:
    """The tokenizer of a GGUF model: byte pairs, where the way it cuts words is known here."""
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
    library = package.Tokenizer(package.models.BPE(vocab=numbers, merges=pairs))
    library.pre_tokenizer = cuts[vocabulary.cut]
    return Tokenizer(library, vocabulary.name)


def _package(needed_by: str) -> Any:
    try:
        import tokenizers
    except ModuleNotFoundError:
        raise InputError(
            f"to count with the tokenizer of {needed_by} the tokenizers package is needed: install manyheads[tokens]"
        ) from None
    return tokenizers


def _lines(path: Path) -> Iterator[list[str]]:
    try:
        with path.open(encoding="utf-8") as file:
            while lines := list(islice(file, LINES_AT_ONCE)):
                yield lines
    except FileNotFoundError:
        raise InputError(f"{path} does not exist") from None
    except UnicodeDecodeError as error:
        raise InputError(f"{path} is not UTF-8 text") from error
    except OSError as error:
        raise InputError(f"{path} cannot be read: {error.strerror}") from error
