"""The one error a caller has to expect."""

from manyheads.text import shown_text


class InputError(ValueError):
    """Malformed input. The message is one sentence that names the mistake. The command line exits with 2.

    Messages quote labels, names and paths that others wrote. Therefore every message is escaped here, in one place:
    no message has a control character or a second line.

    >>> print(InputError("the label 'a\\x1b[2Jb' is unknown"))
    the label 'a\\x1b[2Jb' is unknown
    """

    def __init__(self, message: object = "") -> None:
        super().__init__(shown_text(message))
