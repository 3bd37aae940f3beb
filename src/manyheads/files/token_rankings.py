"""Rankings: token numbers by falling frequency, from a file that lists them or a text in which they are counted."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path

import numpy as np
from jaxtyping import Int64
from numpy import ndarray

from manyheads.errors import InputError
from manyheads.files.atomic_files import read_whole
from manyheads.files.tokenizer_files import Tokenizer

NUMBER = re.compile("[0-9]{1,18}")


def read_ranking(path: str | Path, open_tokenizer: Callable[[], Tokenizer] | None = None) -> Int64[ndarray, " tokens"]:
    """One token a line, the most frequent first: by their numbers, or else as the vocabulary writes them."""
    path = Path(path)
    try:
        lines = read_whole(path).decode("utf-8-sig").removesuffix("\n").split("\n")
    except UnicodeDecodeError as error:
        raise InputError(f"{path} is not UTF-8 text") from error
    if all(NUMBER.fullmatch(line) for line in lines):
        return np.array([int(line) for line in lines], dtype=np.int64)
    if open_tokenizer is None:
        raise InputError(f"{path} lists tokens, not their numbers, and there is no tokenizer that tells their rows")
    tokenizer = open_tokenizer()
    numbers = [tokenizer.number(line) for line in lines]
    if None in numbers:
        place = numbers.index(None)
        raise InputError(f"line {place + 1} of {path}, {lines[place]!r}, is no token of {tokenizer.source}")
    return np.array(numbers, dtype=np.int64)


def counted_ranking(corpus: str | Path, tokenizer: Tokenizer) -> Int64[ndarray, " tokens"]:
    """The tokens that occur in a text, the most frequent first, equals by their numbers."""
    counts = tokenizer.counts(corpus)
    return np.argsort(-counts, kind="stable")[: np.count_nonzero(counts)]
