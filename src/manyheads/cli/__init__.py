"""The command line: the words of the library, tables for people, JSON for machines."""

from __future__ import annotations

import json
import math
import os
import sys
from collections.abc import Callable, Mapping, Sequence

import tyro

from manyheads.cli.commands.attend import Attend
from manyheads.cli.commands.audit import Audit
from manyheads.cli.commands.bench import Bench
from manyheads.cli.commands.block import Block
from manyheads.cli.commands.certify import Certify
from manyheads.cli.commands.compile import Compile
from manyheads.cli.commands.export import Export
from manyheads.cli.commands.heads import Heads
from manyheads.cli.commands.measure import Measure
from manyheads.cli.commands.paper import Paper
from manyheads.cli.commands.plan import Plan
from manyheads.cli.commands.results import Results
from manyheads.cli.commands.retrieve import Retrieve
from manyheads.cli.commands.train import Train
from manyheads.cli.render.answer import Answer, Command, rendered
from manyheads.errors import InputError
from manyheads.layer.rules import Rule

COMMANDS: dict[str, Callable[..., Command]] = {
    "plan": Plan,
    "compile": Compile,
    "certify": Certify,
    "attend": Attend,
    "audit": Audit,
    "export": Export,
    "train": Train,
    "block": Block,
    "heads": Heads,
    "measure": Measure,
    "results": Results,
    "paper": Paper,
    "retrieve": Retrieve,
    "bench": Bench,
}
DESCRIPTION = """How many relations can one attention layer hold, and into how many
heads should its key budget be split?

Every command prints a table, or JSON with --json, and exits with 0 for yes,
1 for no (any verdict but "holds"), 2 for bad input and 130 after Ctrl-C.
`manyheads COMMAND --help` explains a command, `manyheads --version` this."""


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command; the exit code."""
    argv = sys.argv[1:] if argv is None else list(argv)
    if argv == ["--version"]:
        from importlib.metadata import version

        print(f"manyheads {version('manyheads')}")
        return 0
    try:
        command = _parse(argv)
        answer = command.run()
        _show(answer, as_json=command.json)
    except SystemExit as stop:  # tyro's, after help (0) or a sentence about the options (2)
        return int(stop.code or 0)
    except InputError as error:
        print(f"manyheads: {error}", file=sys.stderr)
        return 2
    except MemoryError:
        print("manyheads: this is larger than the memory of this machine", file=sys.stderr)
        return 2
    except KeyboardInterrupt as interrupt:  # some say what is kept and how to go on
        print(f"manyheads: {str(interrupt) or 'interrupted'}", file=sys.stderr)
        return 130
    return 0 if answer.yes else 1


def _parse(argv: Sequence[str]) -> Command:
    markers = (tyro.conf.FlagCreatePairsOff, tyro.conf.DisallowNone)
    return tyro.extras.subcommand_cli_from_dict(
        COMMANDS, prog="manyheads", description=DESCRIPTION, args=argv, config=markers
    )


def _show(answer: Answer, *, as_json: bool) -> None:
    try:
        if as_json:
            print(json.dumps(_plain(answer.facts), allow_nan=False))
        elif answer.shown:
            print(rendered(answer.shown))
        sys.stdout.flush()
    except BrokenPipeError:
        # Whoever reads has seen enough; the exit code still tells the verdict, so nothing more may be flushed.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def _plain(value: object) -> object:
    """The same as JSON has it, where what is infinite or undefined is null."""
    match value:
        case Mapping():
            return {name: _plain(part) for name, part in value.items()}
        case list() | tuple():
            return [_plain(part) for part in value]
        case Rule():
            return value.name
        case float():
            return value if math.isfinite(value) else None
        case _:
            return value
