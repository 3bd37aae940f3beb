"""Text that others wrote (labels, names, paths, rows): made safe, by one function for each border."""

from __future__ import annotations

import html
import re

MOST = 2_000  # characters of a message: a longer one is shortened in its middle
# C0 and C1 control characters, line and paragraph separators, marks that change the direction of text, lone surrogates
HOSTILE = re.compile("[\x00-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069\ufeff\ud800-\udfff]")
NAMES = {"\t": r"\t", "\n": r"\n", "\r": r"\r"}
# a character that begins a formula in some spreadsheet, unless it is inside a word (ASCII and full-width forms)
FORMULA = re.compile(r"(?<![^\W_])[=+\-@\uff1d\uff0b\uff0d\uff20]|^[\t\r\n]")


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
    whole = _escaped(str(text))
    half = (most - 3) // 2
    return whole if len(whole) <= most else f"{whole[:half]} … {whole[-half:]}"


def drawn_text(text: object) -> str:
    r"""Text for a label or title of a picture: `shown_text` in which no part is a formula of matplotlib ($…$).

    Args:
        text: The text, or an object whose `str` is taken.

    Returns:
        One line. matplotlib draws its `\$` as a dollar sign.

    >>> print(drawn_text(r"price in $, \frac{$"))
    price in \$, \frac{\$
    """
    return shown_text(text, most=200).replace("$", r"\$")


def html_text(text: object, *, most: int = MOST) -> str:
    """Text for an element of an HTML page: `shown_text` in which no part is a tag or an entity.

    Args:
        text: The text, or an object whose `str` is taken.
        most: The largest length in characters before the escapes of HTML.

    Returns:
        One line.

    >>> html_text("<b> & 'c'")
    '&lt;b&gt; &amp; &#x27;c&#x27;'
    """
    return html.escape(shown_text(text, most=most))


def cell_text(text: str) -> str:
    r"""Text for a cell of a table that a spreadsheet may open: no control characters, and no part is a formula.

    Args:
        text: The text.

    Returns:
        The text on one line. A quotation mark stands before each character that could begin a formula.

    >>> print(cell_text("=1+1"), cell_text("a;=1"), cell_text("tcp-ip 1e-05"))
    '=1+1 a;'=1 tcp-ip 1e-05
    """
    return FORMULA.sub(lambda match: f"'{match[0]}", _escaped(text))


def page_text(text: object) -> str:
    r"""Text for a paragraph of a Markdown page: `shown_text` without HTML, links, code or cells of a table.

    Args:
        text: The text, or an object such as a path, whose `str` is taken.

    Returns:
        One line of Markdown that is read as the text.

    >>> print(page_text("a|b <img src=x> [c](http://d)"))
    a\|b \<img src=x\> \[c\](http://d)
    """
    return re.sub(r"[<>\[\]`|]", r"\\\g<0>", shown_text(text))


def _escaped(text: str) -> str:
    return HOSTILE.sub(lambda match: _escape(match[0]), text)


def _escape(character: str) -> str:
    number = ord(character)
    return NAMES.get(character) or (f"\\x{number:02x}" if number < 0x100 else f"\\u{number:04x}")
