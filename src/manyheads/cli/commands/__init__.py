"""Commands, a module each: a frozen dataclass whose fields are the options and whose docstring is the help text."""

from __future__ import annotations

from dataclasses import dataclass
from importlib import import_module
from typing import Any


@dataclass(frozen=True)
class Questions:
    """A command that asks one of several questions, each a command of its own with two words."""

    summary: str
    commands: dict[str, str]


QUESTIONS = {
    "plan": Questions(
        "Say what is impossible, likely and guaranteed for a layer.",
        {
            "plan budget": "PlanBudgetCommand",
            "plan relations": "PlanRelationsCommand",
            "plan width": "PlanWidthCommand",
            "plan retrieval": "PlanRetrievalCommand",
        },
    )
}
# A command's module is imported when the command is called: no other command waits for its imports.
COMMANDS = {
    "plan": "",
    "fit": "FitCommand",
    "compile": "CompileCommand",
    "certify": "CertifyCommand",
    "exclude": "ExcludeCommand",
    "attend": "AttendCommand",
    "audit": "AuditCommand",
    "export": "ExportCommand",
    "train": "TrainCommand",
    "measure": "MeasureCommand",
    "results": "ResultsCommand",
    "paper": "PaperCommand",
    "block": "BlockCommand",
    "heads": "HeadsCommand",
    "retrieve": "RetrieveCommand",
    "explore": "ExploreCommand",
}


def command_names() -> list[str]:
    """Every command that can be run, e.g. "fit" and "plan budget"."""
    return [one for name in COMMANDS for one in (QUESTIONS[name].commands if name in QUESTIONS else (name,))]


def command_class(name: str) -> type[Any]:
    """The dataclass of a command, e.g. of "plan budget": a `Command`."""
    first = name.partition(" ")[0]
    words = QUESTIONS[first].commands if first in QUESTIONS else COMMANDS
    return getattr(import_module(f"manyheads.cli.commands.{first}"), words[name])
