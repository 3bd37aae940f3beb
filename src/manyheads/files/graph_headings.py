"""Headings of edge lists: whether the first line of a file names its two columns or is a relation."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Literal

NUMBER = re.compile(r" *[+-]?[0-9]{1,18} *", re.ASCII)
WORD = re.compile(r"[^\W\d][\w ]*")  # the name of a column begins with a letter
# words that often name the columns of an edge list
COLUMNS = frozenset(
    re.findall(
        r"\w+",
        "source target src dst from to head tail subject object parent child start end key value query answer item "
        "related country capital city word translation synonym antonym hyponym hypernym name category cause effect",
    )
)
FEWEST = 2  # relations: with fewer, a heading and a relation look alike

FirstLine = Literal["heading", "perhaps"]


class HeadingWarning(UserWarning):
    """The first line of an edge list was read as a heading, or could be one. The argument is the sentence about it."""

    def __str__(self) -> str:
        return f"{self.args[0]}: header=True or header=False decides it"


def first_line(
    first: tuple[str, str], rest: Sequence[tuple[str, str]], names: Sequence[str] | None
) -> FirstLine | None:
    """Whether the first line of an edge list is a heading.

    It is a heading if it cannot be a relation: words before item numbers, or words that are no names of items before a
    line of names. In a file of labels, it is a heading if both words occur in no other line, and both often name
    columns (`from`, `country`, …) or no other label begins with a small letter, as both do.

    Args:
        first: The two fields of the first line.
        rest: The fields of all other lines.
        names: The items' names, if they are known.

    Returns:
        "heading"; "perhaps" if both words have small letters and occur in no other line; None for a relation.

    >>> first_line(("country", "capital"), [("France", "Paris"), ("Italy", "Rome")], None)
    'heading'
    >>> first_line(("cat", "chat"), [("dog", "chien"), ("cow", "vache")], None)
    'perhaps'
    """
    if not rest or not all(map(WORD.fullmatch, first)):
        return None
    if names is not None:
        known = set(names)
        return "heading" if known.isdisjoint(first) and known.issuperset(rest[0]) else None
    if all(map(NUMBER.fullmatch, rest[0])):
        return "heading"
    others = {field for pair in rest for field in pair}
    if not others.isdisjoint(first):
        return None
    if COLUMNS.issuperset(field.lower() for field in first):
        return "heading"
    if len(rest) < FEWEST or not all(field[0].islower() for field in first):
        return None
    return "perhaps" if any(field[:1].islower() for field in others) else "heading"
