"""Answer: what a command found, for people and for machines alike."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Protocol, runtime_checkable

import tyro

if TYPE_CHECKING:
    from rich.console import RenderableType

Flag = Annotated[bool, tyro.conf.arg(help_behavior_hint="")]  # off by default, as every flag is


@dataclass(frozen=True)
class Answer:
    """The facts as JSON, the same as tables and lines, and whether the answer is yes (exit code 0) or no (1)."""

    facts: Mapping[str, object]
    shown: Sequence[RenderableType]
    yes: bool


def rendered(shown: Sequence[RenderableType]) -> str:
    """The tables and lines as text for this terminal."""
    from rich.console import Console

    console = Console(highlight=False)
    with console.capture() as capture:
        console.print(*shown, sep="\n")
    # rich fills every line of a table up to its width, which only gets in the way of whoever copies it
    return "\n".join(line.rstrip() for line in capture.get().splitlines())


@runtime_checkable
class Command(Protocol):
    """A frozen dataclass whose fields are the options and whose docstring is the help."""

    @property
    def json(self) -> bool:
        """Whether the facts are printed as JSON, not the tables."""

    def run(self) -> Answer:
        """Do the work; what was handed in wrongly raises InputError."""
