"""The one error a caller has to expect, the checks of arguments that raise it, and the nearest word for its message."""

import difflib
import os
from collections.abc import Iterable
from pathlib import Path

from manyheads.text import shown_text

NEAR = 0.62  # the least likeness of a word that is offered: "steps" must not be offered for "items", which has 0.6


class InputError(ValueError):
    """Malformed input. The message is one sentence that names the mistake. The command line exits with 2.

    Messages quote labels, names and paths that others wrote. Therefore every message is escaped here, in one place:
    no message has a control character or a second line.

    >>> print(InputError("the label 'a\\x1b[2Jb' is unknown"))
    the label 'a\\x1b[2Jb' is unknown
    """

    def __init__(self, message: object = "") -> None:
        super().__init__(shown_text(message))


def require_type(value: object, kind: type | tuple[type, ...], what: str) -> None:
    """Refuse an argument of another type, e.g. two arguments that are exchanged.

    Args:
        value: The argument.
        kind: Its type, or the types that it can have.
        what: The beginning of the message, e.g. "the layer of certify".

    Raises:
        InputError: The argument has another type. The message names both types.
    """
    if not isinstance(value, kind):
        kinds = [one.__name__ for one in (kind if isinstance(kind, tuple) else (kind,))]
        allowed = " or ".join(f"{'an' if name[0] in 'AEIOU' else 'a'} {name}" for name in kinds)
        raise InputError(f"{what} is {allowed}, not {type(value).__name__}")


def require_texts(values: object, what: str) -> None:
    """Refuse names that are no texts, and a single text, which is a sequence of letters.

    Args:
        values: The names.
        what: The beginning of the message, e.g. "labels".

    Raises:
        InputError: The values are no sequence of texts.
    """
    if isinstance(values, str) or not (isinstance(values, Iterable) and all(isinstance(one, str) for one in values)):
        raise InputError(f"{what} are a sequence of texts, not {values!r}")


def did_you_mean(word: str, known: Iterable[str], form: str = " (did you mean {}?)") -> str:
    """The part of a message about an unknown word that names the nearest known word.

    Args:
        word: The unknown word.
        known: All known words.
        form: The part, with {} in place of the nearest word.

    Returns:
        The part; "" if no known word is near.

    >>> did_you_mean("sofmax", ["max", "softmax"]), did_you_mean("x", ["max"])
    (' (did you mean softmax?)', '')
    """
    near = difflib.get_close_matches(word, list(known), n=1, cutoff=NEAR)
    return form.format(near[0]) if near else ""


def path_of(value: object) -> Path:
    """A path that is given as text or as a path.

    Args:
        value: A str, a Path, or another object with a path.

    Returns:
        The path.

    Raises:
        InputError: The value is neither, or it has a NUL character, which no file system takes.
    """
    if not isinstance(value, (str, os.PathLike)):
        raise InputError(f"the name of a file is text or a Path, not {type(value).__name__}")
    if "\0" in str(value):
        raise InputError(f"the name of a file has no NUL character, but this one has: {value}")
    return Path(value)
