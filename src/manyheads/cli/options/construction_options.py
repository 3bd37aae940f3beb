"""Construction options: which of the paper's constructions is built, and with which sizes and constants."""

from __future__ import annotations

import inspect
import warnings
from collections.abc import Callable, Mapping
from dataclasses import dataclass, fields, replace
from typing import TYPE_CHECKING, Annotated, Any, Literal

import tyro

from manyheads.cli.options.option_types import Whole, finite_number, whole_number
from manyheads.errors import InputError

if TYPE_CHECKING:
    from manyheads.construct import Signatures
    from manyheads.layer.layer import Layer
    from manyheads.problem.problem import ContextLength, Problem

ConstructionName = Literal["one-hot", "compressive", "softmax", "incoherent", "general"]
Packing = Literal["equitable", "lemma"]
ThreeNumbers = tuple[float, float, float]
BLOCK_HELP = (
    "The most relations that one head serves. For incoherent also `profile` (its default), the most that Theorem B.5 "
    "allows, or `certificate`, the most with which the layer certifies."
)


@dataclass(frozen=True)
class BuiltLayer:
    """A layer, and notes for the person who asked for it."""

    layer: Layer
    notes: tuple[str, ...] = ()


@dataclass(frozen=True, kw_only=True)
class ConstructionOptions:
    """The construction and its sizes. An option that the construction does not use is an error."""

    name: Annotated[ConstructionName, tyro.conf.arg(name="construction")] = "general"
    """I one-hot, II compressive, its softmax form, III incoherent, IV general. Only IV takes every graph."""
    key_width: Whole = None
    """d_k, the width of a head. One-hot has a default: the width that its theorem proves sufficient."""
    matching_size: Annotated[
        str | None, tyro.conf.arg(metavar="INT", help=BLOCK_HELP, help_behavior_hint="(default: d_model)")
    ] = None
    seed: int = 2
    """Seed of the signatures."""
    signatures: Annotated[str | None, tyro.conf.arg(metavar="NAME", help_behavior_hint="")] = None
    """`rademacher` or `bernoulli:P`, for one-hot (default: bernoulli:0.25) and incoherent (default: rademacher)."""
    packing: Annotated[Packing | None, tyro.conf.arg(metavar="equitable|lemma", help_behavior_hint="")] = None
    """How general assigns relations to heads: `equitable` uses the fewest heads (default), `lemma` is Lemma B.8."""
    constants: Annotated[ThreeNumbers | None, tyro.conf.arg(metavar="C1 C2 C3", help_behavior_hint="")] = None
    """The constants of Theorem B.5 that limit a block, for incoherent (default: 0.125 1 1)."""
    logit_scale: Annotated[str | None, tyro.conf.arg(metavar="FLOAT|search", help_behavior_hint="(default: 1)")] = None
    """Factor on the logits of softmax: 1 is the paper's, `search` finds the factor with the widest window."""
    threshold: Annotated[
        str | None, tyro.conf.arg(metavar="paper|best|FLOAT", help_behavior_hint="(default: paper)")
    ] = None
    """τ: the paper's, or `best`, the middle of the window that a certificate finds, or a number."""

    def build(self, problem: Problem, *, context_length: ContextLength) -> BuiltLayer:
        """The layer, with the paper's threshold (`best` needs a certificate first) or the number given."""
        from manyheads.construct import ConditionWarning

        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always", ConditionWarning)
            built = self._build(problem, context_length)
        return BuiltLayer(built.layer, (*dict.fromkeys(str(warning.message) for warning in caught), *built.notes))

    def provenance(self) -> dict[str, str | int]:
        """The options that were given, for the layer's file."""
        values = {field.name: getattr(self, field.name) for field in fields(self) if field.name not in ("name", "seed")}
        given = {name: value for name, value in values.items() if value is not None}
        if self.constants is not None:
            given["constants"] = " ".join(map(str, self.constants))
        if self.key_width is not None:
            del given["key_width"]  # the weights' shape says it
        return {"construction": self.name, "seed": self.seed, **given}

    def _build(self, problem: Problem, context_length: ContextLength) -> BuiltLayer:
        from manyheads import construct

        functions: dict[ConstructionName, Callable[..., Layer]] = {
            "one-hot": construct.one_hot,
            "compressive": construct.compressive,
            "softmax": construct.softmax,
            "incoherent": construct.incoherent,
            "general": construct.general,
        }
        function = functions[self.name]
        threshold = None if self.threshold in (None, "paper", "best") else finite_number("--threshold", self.threshold)
        arguments = self._arguments(inspect.signature(function).parameters)
        note = ""
        if self.matching_size == "certificate":
            choice = construct.matchings_by_certificate(problem, **arguments)
            arguments["matching_size"] = choice.matching_size
            covers = "covers" if choice.theorem_applies else "does not cover"
            note = f"matchings of {choice.matching_size}, found by certificate: Theorem B.5 {covers} them"
        if self.logit_scale == "search":
            if not isinstance(context_length, int):
                raise InputError("--logit-scale search is for contexts of one length: give --context-length N")
            mended = construct.mended_softmax(problem, context_length=context_length, **arguments)
            arguments["scale"] = mended.scale
            note = f"scale {mended.scale:.4g} has the widest window of the {len(mended.trials)} that were tried"
        layer = function(problem, **arguments)
        return BuiltLayer(layer if threshold is None else replace(layer, threshold=threshold), (note,) if note else ())

    def _arguments(self, parameters: Mapping[str, inspect.Parameter]) -> dict[str, Any]:
        """The options given, under the names that the construction has for them."""
        from manyheads.construct import Constants

        given: dict[str, Any] = {
            "key_width": self.key_width,
            "matching_size": self.matching_size,
            "signatures": None if self.signatures is None else parse_signatures(self.signatures),
            "packing": self.packing,
            "constants": None if self.constants is None else Constants(*self.constants),
            "scale": self.logit_scale,
        }
        arguments = {name: value for name, value in given.items() if value is not None}
        for name in arguments:
            if name not in parameters:
                option = "logit-scale" if name == "scale" else name.replace("_", "-")
                raise InputError(f"--{option} does not apply to the {self.name} construction")
        if "key_width" not in arguments and parameters["key_width"].default is inspect.Parameter.empty:
            raise InputError(f"the {self.name} construction needs --key-width, or --smallest to find it")
        if self.name == "incoherent" and self.matching_size in ("profile", "certificate"):
            del arguments["matching_size"]  # found later
        elif self.matching_size is not None:
            arguments["matching_size"] = whole_number("--matching-size", self.matching_size)
        if self.logit_scale == "search":
            del arguments["scale"]
        elif self.logit_scale is not None:
            arguments["scale"] = finite_number("--logit-scale", self.logit_scale)
        return arguments | {"seed": self.seed}


def parse_signatures(text: str) -> Signatures:
    """The signatures that words such as rademacher or bernoulli:0.25 name."""
    from manyheads.construct import RADEMACHER, Bernoulli

    name, _, p = text.partition(":")
    if text == "rademacher":
        return RADEMACHER
    if name == "bernoulli":
        return Bernoulli(finite_number("the P of --signatures bernoulli:P", p))
    raise InputError(f"--signatures is rademacher or bernoulli:P, not {text!r}")
