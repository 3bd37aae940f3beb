"""Protocol options: the constants of a training run, with the names, types and help texts of `training.Protocol`.

The options are made from the protocol's own fields: a new constant becomes an option of every command that trains.
"""

from __future__ import annotations

import inspect
import re
from dataclasses import dataclass, field, fields, make_dataclass
from typing import TYPE_CHECKING, Annotated, Any, get_type_hints

import tyro

from manyheads.cli.options.problem_options import RuleName
from manyheads.training.protocol import CONTEXT, TARGET_RATE, Protocol

BY_COMMAND = {
    "steps": f"{Protocol.steps}; in measure the paper's step limit for the size",
    "stop_above": f"{Protocol.stop_above}; in measure with --goal exact 1",
}


def attribute_texts(docstring: str) -> dict[str, str]:
    """The texts of the Attributes section of a docstring, by name.

    >>> attribute_texts("Title.\\n\\n    Attributes:\\n        one: In two\\n            lines.\\n        two: One.\\n")
    {'one': 'In two lines.', 'two': 'One.'}
    """
    _, _, section = inspect.cleandoc(docstring).partition(
        "\nAttributes:\n"
    )  # from 3.13 on, Python itself removes the indent
    section = section.partition("\n\n")[0]
    entries = re.findall(r"^ {4}(\w+): (.*(?:\n {5,}.*)*)", section, flags=re.MULTILINE)
    return {name: " ".join(text.split()) for name, text in entries}


def _optional_fields() -> list[tuple[str, Any, Any]]:
    """The protocol's fields; a field that was not given is None."""
    texts, types = attribute_texts(Protocol.__doc__ or ""), get_type_hints(Protocol)
    made = []
    for constant in fields(Protocol):
        text, _, default = texts.get(constant.name, "").partition(
            " None: "
        )  # how the protocol explains a default of None
        default = BY_COMMAND.get(constant.name, default.rstrip(".") or str(constant.default))
        argument = tyro.conf.arg(help=_with_options(text), help_behavior_hint=f"(default: {default})")
        made.append((constant.name, Annotated[types[constant.name] | None, argument], field(default=None)))
    return made


def _with_options(text: str) -> str:
    """The text with options in place of the names of fields in backquotes."""
    return re.sub(r"`(\w+)`", lambda name: f"--{name[1].replace('_', '-')}", text)


if TYPE_CHECKING:

    @dataclass(frozen=True)
    class ProtocolOptions:
        """How a layer is trained and tested."""

else:
    ProtocolOptions = make_dataclass("ProtocolOptions", _optional_fields(), frozen=True, kw_only=True)
    ProtocolOptions.__doc__ = "How a layer is trained and tested."


@dataclass(frozen=True, kw_only=True)
class TrainingOptions:
    """The rule, the contexts and the protocol of a run."""

    rule: RuleName = "max"
    context_length: int = CONTEXT
    """Number of items in a context."""
    target_rate: float = TARGET_RATE
    """Share of a context's items whose target is brought into the context."""
    protocol: tyro.conf.OmitArgPrefixes[ProtocolOptions] = field(default_factory=ProtocolOptions)

    def constants(self) -> dict[str, Any]:
        """The constants of the protocol that were given, by name."""
        return {name: value for name, value in vars(self.protocol).items() if value is not None}
