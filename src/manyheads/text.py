"""Text that others wrote (labels, names, paths, rows): made safe for messages and terminals."""

from __future__ import annotations

import re

MOST = 2_000  # characters of a message: a longer one is shortened in its middle
# C0 and C1 control characters, line and paragraph separators, marks that change the direction of text, lone surrogates
HOSTILE = re.compile("[\x00-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069\ufeff\ud800-\udfff]")
NAMES = {"\t": r"\t", "\n": r"\n", "\r": r"\r"}


def shown_text(text: object, *, most: int = MOST) -> str:
    r"""Text that is safe to print on one line of a terminal.

    Control characters, marks that change the direction of text, and lone surrogates become escapes, as in a Python
    string. All other characters stay; a backslash stays too. Text that was escaped already does not change.

    Args:
        text: The text, or an object such as a path, whose `str` is taken.
        most: The largest length in characters. The middle of a longer text is replaced by " … ".

    Returns:
        One line of text that every UTF-8 terminal can print.

    >>> print(shown_text("a\x1b[31m\nb"))
    a\x1b[31m\nb
    >>> shown_text("x" * 100, most=13)
    'xxxxx … xxxxx'
    """
    whole = HOSTILE.sub(lambda match: _escape(match[0]), str(text))
    half = (most - 3) // 2
    return whole if len(whole) <= most else f"{whole[:half]} … {whole[-half:]}"


def _escape(character: str) -> str:
    number = ord(character)
    return NAMES.get(character) or (f"\\x{number:02x}" if number < 0x100 else f"\\u{number:04x}")
