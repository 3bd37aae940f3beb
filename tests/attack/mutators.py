"""Mutators: the ways in which the attack damages the bytes of a file, each decided by a seeded generator."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Callable
from typing import Any

import numpy as np

NUMBERS = (0, 1, 2**7, 2**16, 2**31 - 1, 2**31, 2**40, 2**48, 2**63 - 1, 2**63, 2**64 - 1)
WORDS = (
    *(str(number).encode() for number in NUMBERS),
    *(b"-1", b"1e999", b"NaN", b"Infinity", b"-0.0", b"true", b"null", b"9" * 400, b"9" * 5000, b"1" + b"0" * 20),
    *(b"[" * 500, b'{"a":' * 500, b'"', b'""', b"\\ud800", b"\xed\xa0\x80", b"\x1b[2J", b"\0", b"\r\n", b",,"),
    *(b"\xff" * 8, b"=1+1", "\u202e".encode(), b"x" * 3000, b"# item: a\n" * 3, b"[]", b"{}", b"# items: "),
)
VALUES: tuple[object, ...] = (
    *(
        0,
        1,
        -1,
        2,
        10**6,
        2**31,
        2**40,
        2**63,
        10**20,
        10**400,
        1.5,
        -0.0,
        1e308,
        math.nan,
        math.inf,
        True,
        False,
        None,
    ),
    *(
        "",
        " ",
        "x",
        "\ud800",
        "\x1b]0;",
        "=1+1",
        "x" * 3000,
        [],
        {},
        [[]],
        [0],
        [10**12, 10**12],
        {"a": 1},
        [None] * 300,
    ),
)
DIGITS = re.compile(rb"[0-9]+")
Mutator = Callable[[bytes, np.random.Generator], bytes]


def _span(content: bytes, rng: np.random.Generator) -> tuple[int, int]:
    start = int(rng.integers(len(content) + 1))
    return start, min(len(content), start + int(rng.integers(1, 64)))


def _word(rng: np.random.Generator) -> bytes:
    return WORDS[rng.integers(len(WORDS))]


def flip_bits(content: bytes, rng: np.random.Generator) -> bytes:
    damaged = bytearray(content)
    for place in rng.integers(8 * len(content), size=rng.integers(1, 9)) if content else ():
        damaged[place // 8] ^= 1 << place % 8
    return bytes(damaged)


def truncate(content: bytes, rng: np.random.Generator) -> bytes:
    return content[: rng.integers(len(content) + 1)]


def repeat_block(content: bytes, rng: np.random.Generator) -> bytes:
    start, stop = _span(content, rng)
    return content[:stop] + content[start:stop] * int(rng.integers(1, 200)) + content[stop:]


def delete_block(content: bytes, rng: np.random.Generator) -> bytes:
    start, stop = _span(content, rng)
    return content[:start] + content[stop:]


def insert_block(content: bytes, rng: np.random.Generator) -> bytes:
    place = int(rng.integers(len(content) + 1))
    block = rng.bytes(int(rng.integers(1, 40))) if rng.random() < 0.5 else _word(rng)
    return content[:place] + block + content[place:]


def move_block(content: bytes, rng: np.random.Generator) -> bytes:
    start, stop = _span(content, rng)
    rest, place = content[:start] + content[stop:], int(rng.integers(len(content) + 1))
    return rest[:place] + content[start:stop] + rest[place:]


def hostile_length(content: bytes, rng: np.random.Generator) -> bytes:
    """Overwrite bytes by a binary number of 4 or 8 bytes, as headers have it."""
    width = int(rng.choice((4, 8)))
    place = int(rng.integers(max(1, min(len(content), 400))))
    number = NUMBERS[rng.integers(len(NUMBERS))] % 2 ** (8 * width)
    return content[:place] + number.to_bytes(width, "little") + content[place + width :]


def hostile_number(content: bytes, rng: np.random.Generator) -> bytes:
    """Replace a decimal number by a hostile word."""
    numbers = list(DIGITS.finditer(content))
    if not numbers:
        return insert_block(content, rng)
    match = numbers[rng.integers(len(numbers))]
    return content[: match.start()] + _word(rng) + content[match.end() :]


MUTATORS: tuple[Mutator, ...] = (
    flip_bits,
    truncate,
    repeat_block,
    delete_block,
    insert_block,
    move_block,
    hostile_length,
    hostile_number,
)


def mutate(content: bytes, rng: np.random.Generator) -> bytes:
    """One to three mutations of the content."""
    for _ in range(rng.integers(1, 4)):
        content = MUTATORS[rng.integers(len(MUTATORS))](content, rng)
    return content


def mutate_json(content: bytes, rng: np.random.Generator) -> bytes:
    """Replace, delete or repeat one to three values of JSON, which stays JSON."""
    value = json.loads(content)
    for _ in range(rng.integers(1, 4)):
        value = _mutated(value, rng)
    return json.dumps(value).encode()


def _mutated(value: Any, rng: np.random.Generator) -> Any:
    if not isinstance(value, (dict, list)) or not value or rng.random() < 0.1:
        return VALUES[rng.integers(len(VALUES))]
    place = list(value)[rng.integers(len(value))] if isinstance(value, dict) else int(rng.integers(len(value)))
    changed = value.copy()
    match rng.integers(8):
        case 0:
            del changed[place]
        case 1 if isinstance(changed, list):
            changed.insert(int(rng.integers(len(changed) + 1)), changed[place])
        case 1 if isinstance(changed, dict):
            changed[str(VALUES[rng.integers(12)])] = changed[place]
        case _:
            changed[place] = _mutated(changed[place], rng)
    return changed
