"""The one error a caller has to expect."""


class InputError(ValueError):
    """What was handed in is malformed; the message is one sentence that says how. The command line exits with 2."""
