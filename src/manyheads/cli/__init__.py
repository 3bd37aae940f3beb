"""The command line: the words of the library, tables for people, JSON for programs. Only this room prints."""

from __future__ import annotations

import contextlib
import io
import json
import sys
from collections.abc import Callable, Sequence
from importlib.metadata import version
from typing import Any

import tyro

from manyheads.cli.commands import COMMANDS, QUESTIONS, command_class
from manyheads.cli.option_errors import check_options, explain, unknown_word
from manyheads.cli.render.answer import Answer, Collector, Command, json_value, rendered, say, tell
from manyheads.errors import InputError

DESCRIPTION = """How many relations can one attention layer hold, and into how many
heads should its key budget be split?

Every command prints a table, or JSON with --json, and exits with 0 for yes,
1 for no (any verdict but "holds"), 2 for bad input and 130 after Ctrl-C.
`manyheads COMMAND --help` explains a command, and `manyheads --version`
prints the version."""
MARKERS = (tyro.conf.FlagCreatePairsOff, tyro.conf.DisallowNone)


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command.

    Args:
        argv: The words after `manyheads`; None: the words of this process.

    Returns:
        The exit code: 0 for yes, 1 for no, 2 for bad input, 130 after Ctrl-C.
    """
    argv = sys.argv[1:] if argv is None else list(argv)
    try:
        if argv == ["--version"]:
            tell(f"manyheads {version('manyheads')}")
            return 0
        command = _parse(argv)
        if command is None:
            return 0
        answer = command.run()
        _show(answer, as_json=command.json)
    except InputError as error:
        say(f"manyheads: {error}")
        return 2
    except MemoryError:
        say("manyheads: this is larger than the memory of this machine")
        return 2
    except KeyboardInterrupt as interrupt:  # some commands say which results are kept and how to go on
        say(f"manyheads: {str(interrupt) or 'interrupted'}")
        return 130
    return 0 if answer.yes else 1


def _parse(argv: Sequence[str]) -> Command | None:
    """The command that the words name, with its options, or None after a help text.

    Raises:
        InputError: The words name no command, or its options are wrong.
    """
    name, *words = argv or [""]
    names = list(COMMANDS)
    if name in ("-h", "--help"):
        _show_commands("manyheads", names, DESCRIPTION)
        return None
    if name not in COMMANDS:
        raise InputError(unknown_word("command", name, names, see="manyheads --help"))
    if name in QUESTIONS:
        question, *words = words or [""]
        questions = [entry.removeprefix(f"{name} ") for entry in QUESTIONS[name].commands]
        if question in ("-h", "--help"):
            _show_commands(f"manyheads {name}", questions, QUESTIONS[name].summary)
            return None
        if question not in questions:
            raise InputError(unknown_word(f"question of {name}", question, questions, see=f"manyheads {name} --help"))
        name = f"{name} {question}"
    return _options(name, words)


def _options(name: str, words: Sequence[str]) -> Command | None:
    """The command with its options. If tyro refuses them, one sentence replaces tyro's box of text."""
    kind = command_class(name)

    def parse() -> Command:
        return tyro.cli(kind, prog=f"manyheads {name}", args=list(words), config=MARKERS)

    try:
        command: Command | None = _parsed(parse)
    except _RefusalError as refusal:
        raise InputError(explain(name, kind, words, str(refusal))) from None
    if command is not None:
        check_options(command)
    return command


def _show_commands(prog: str, names: Sequence[str], description: str) -> None:
    """Print the help text with all commands."""
    group = prog.removeprefix("manyheads").strip()
    stubs: dict[str, Callable[..., Any]] = {name: _stub(f"{group} {name}".strip()) for name in names}
    _parsed(lambda: tyro.extras.subcommand_cli_from_dict(stubs, prog=prog, description=description, args=["--help"]))


class _RefusalError(Exception):
    """The parser's own text about words that it refuses."""


def _parsed(parse: Callable[[], Any]) -> Any:
    """The value of a parser, or None after it has printed a help text."""
    with contextlib.redirect_stdout(Collector()) as told, contextlib.redirect_stderr(io.StringIO()) as refusal:
        try:
            return parse()
        except SystemExit as stop:
            if stop.code not in (0, None):
                raise _RefusalError(refusal.getvalue()) from None
    tell(told.getvalue().rstrip("\n"))
    return None


def _stub(name: str) -> type:
    """A class without options whose help text is the first sentence of the command's."""
    text = QUESTIONS[name].summary if name in QUESTIONS else str(command_class(name).__doc__)
    return type("Stub", (), {"__doc__": text.partition("\n\n")[0]})


def _show(answer: Answer, *, as_json: bool) -> None:
    if as_json:
        # JSON has escapes for all control characters, but need not use that of DEL
        tell(json.dumps(json_value(answer.facts), allow_nan=False).replace("\x7f", "\\u007f"))
    elif answer.shown:
        tell(rendered(answer.shown))
