"""Construction: which of the paper's constructions to build, and with what."""

from __future__ import annotations

import inspect
import math
import re
import warnings
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Annotated, Any, Literal

import tyro

from manyheads.cli.options.problem_options import checked_seed
from manyheads.errors import InputError

if TYPE_CHECKING:
    from manyheads.construct import Signatures
    from manyheads.layer.layer import Layer
    from manyheads.problem.problem import Problem

Name = Literal["one-hot", "compressive", "softmax", "incoherent", "general", "fit"]
Packing = Literal["equitable", "lemma"]
Three = tuple[float, float, float]
BLOCK_HELP = (
    "How many relations a head serves at most; for incoherent also `profile` (its default), the most that Theorem B.5 "
    "allows, or `certificate`, the most with which the layer certifies."
)


@dataclass(frozen=True)
class Built:
    """A layer, and what there is to say about how it came about."""

    layer: Layer
    notes: tuple[str, ...] = ()


@dataclass(frozen=True, kw_only=True)
class Construction:
    """Which construction to build, and with what; an option it has no use for is an error."""

    name: Annotated[Name, tyro.conf.arg(name="construction")] = "general"
    """I one-hot, II compressive, its softmax form, III incoherent, IV general; fit, like IV, takes every graph."""
    key_width: Annotated[int | None, tyro.conf.arg(metavar="INT", help_behavior_hint="")] = None
    """d_k, the width of a head; one-hot can do without, and takes the width its theorem proves sufficient."""
    block_size: Annotated[
        str | None, tyro.conf.arg(metavar="INT", help=BLOCK_HELP, help_behavior_hint="(default: d_model)")
    ] = None
    seed: int = 2
    """Seed of the signatures, or of the starts of fit."""
    signatures: Annotated[str | None, tyro.conf.arg(metavar="NAME", help_behavior_hint="")] = None
    """`rademacher` or `bernoulli:P`, for one-hot (default: bernoulli:0.25) and incoherent (default: rademacher)."""
    packing: Annotated[Packing | None, tyro.conf.arg(metavar="equitable|lemma", help_behavior_hint="")] = None
    """How general packs the relations: `equitable`, into the fewest heads there can be (default), or as Lemma B.8."""
    constants: Annotated[Three | None, tyro.conf.arg(metavar="C1 C2 C3", help_behavior_hint="")] = None
    """What Theorem B.5 allows a block, for incoherent (default: 0.125 1 1)."""
    scale: Annotated[str | None, tyro.conf.arg(metavar="FLOAT|search", help_behavior_hint="(default: 1)")] = None
    """Factor on the logits of softmax: 1 is the paper's, `search` finds the one with the widest window."""
    threshold: Annotated[
        str | None, tyro.conf.arg(metavar="paper|best|FLOAT", help_behavior_hint="(default: paper)")
    ] = None
    """τ: the paper's, the middle of the window that a certificate finds, or a number."""

    def build(
        self,
        problem: Problem,
        *,
        context_length: int | tuple[int, int] | None,
    ) -> Built:
        """The layer, with the paper's threshold (`best` needs a certificate first) or the number given."""
        from manyheads.construct import ConditionWarning

        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always", ConditionWarning)
            built = self._build(problem, context_length)
        return Built(built.layer, (*dict.fromkeys(str(warning.message) for warning in caught), *built.notes))

    def _build(self, problem: Problem, context_length: int | tuple[int, int] | None) -> Built:
        from manyheads import construct

        functions: dict[Name, Callable[..., Layer]] = {
            "one-hot": construct.one_hot,
            "compressive": construct.compressive,
            "softmax": construct.softmax,
            "incoherent": construct.incoherent,
            "general": construct.general,
        }
        function = functions[self.name]
        threshold = None if self.threshold in (None, "paper", "best") else number("--threshold", self.threshold)
        arguments = self._arguments(inspect.signature(function).parameters)
        note = ""
        if self.block_size == "certificate":
            choice = construct.block_by_certificate(problem, **arguments)
            arguments["block_size"] = choice.block_size
            covers = "covers" if choice.theorem_applies else "does not cover"
            note = f"blocks of {choice.block_size}, found by certificate: Theorem B.5 {covers} them"
        if self.scale == "search":
            if not isinstance(context_length, int):
                raise InputError("--scale search is for contexts of one length: give --context-length N")
            mended = construct.mended_softmax(problem, context_length=context_length, **arguments)
            arguments["scale"] = mended.scale
            note = f"scale {mended.scale:.4g}, of {len(mended.trials)} tried the one with the widest window"
        layer = function(problem, **arguments)
        return Built(layer if threshold is None else replace(layer, threshold=threshold), (note,) if note else ())

    def _arguments(self, parameters: Mapping[str, inspect.Parameter]) -> dict[str, Any]:
        """The options given, under the names that the construction has for them."""
        from manyheads.construct import Constants

        given: dict[str, Any] = {
            "key_width": self.key_width,
            "block_size": self.block_size,
            "signatures": None if self.signatures is None else _signatures(self.signatures),
            "packing": self.packing,
            "constants": None if self.constants is None else Constants(*self.constants),
            "scale": self.scale,
        }
        arguments = {name: value for name, value in given.items() if value is not None}
        for name in arguments:
            if name not in parameters:
                raise InputError(f"--{name.replace('_', '-')} does not apply to the {self.name} construction")
        if "key_width" not in arguments and parameters["key_width"].default is inspect.Parameter.empty:
            raise InputError(f"the {self.name} construction needs --key-width, or --smallest to find it")
        if self.name == "incoherent" and self.block_size in ("profile", "certificate"):
            del arguments["block_size"]  # to be found
        elif self.block_size is not None:
            arguments["block_size"] = whole("--block-size", self.block_size)
        if self.scale == "search":
            del arguments["scale"]
        elif self.scale is not None:
            arguments["scale"] = number("--scale", self.scale)
        return arguments | {"seed": checked_seed("--seed", self.seed)}


def whole(option: str, text: str) -> int:
    """The whole number an option was given."""
    if not re.fullmatch("[0-9]{1,9}", text):
        raise InputError(f"{option} is a whole number, not {text!r}")
    return int(text)


def positive(option: str, text: str) -> int:
    """The whole number from 1 on that an option was given."""
    if (value := whole(option, text)) < 1:
        raise InputError(f"{option} is at least 1, not {value}")
    return value


def number(option: str, text: str) -> float:
    """The number an option was given."""
    try:
        value = float(text)
    except ValueError:
        raise InputError(f"{option} is a number, not {text!r}") from None
    if not math.isfinite(value):
        raise InputError(f"{option} is a finite number, not {text}")
    return value


def _signatures(text: str) -> Signatures:
    from manyheads.construct import RADEMACHER, Bernoulli

    name, _, p = text.partition(":")
    if text == "rademacher":
        return RADEMACHER
    if name == "bernoulli":
        return Bernoulli(number("the P of --signatures bernoulli:P", p))
    raise InputError(f"--signatures is rademacher or bernoulli:P, not {text!r}")
