"""Fitting: the options of `compile --construction fit`, the compact compiler."""

from __future__ import annotations

from dataclasses import dataclass, fields
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import tyro

from manyheads.errors import InputError

if TYPE_CHECKING:
    from manyheads.cli.commands.compile import Compile

MapName = Literal["auto", "none", "whiten", "project", "project+whiten"]
OTHERS = ("block_size", "signatures", "packing", "constants", "scale", "threshold")  # of the paper's constructions
MOST_WORKERS = 1024
BY_SIZE = "(default: the cores for a search, for one layer 1, or 2 from 1,024 items on)"
MAP_HELP = (
    "A linear map of the embedding, folded into the weights: whiten it, project its mean direction out, or both; auto "
    "whitens where a few directions dominate."
)


@dataclass(frozen=True, kw_only=True)
class Fitting:
    """What `fit` alone takes."""

    heads: Annotated[int | None, tyro.conf.arg(metavar="INT", help_behavior_hint="(default: from the laws)")] = None
    """Number of heads, for fit."""
    budget: Annotated[int | None, tyro.conf.arg(metavar="D_K", help_behavior_hint="")] = None
    """Split this key budget into heads in the best way, for fit."""
    rule: Annotated[str | None, tyro.conf.arg(metavar="max|softmax", help_behavior_hint="(default: max)")] = None
    """Which rule the layer of fit has; softmax needs a context length as well."""
    map: Annotated[
        MapName | None, tyro.conf.arg(metavar="MAP", help=MAP_HELP, help_behavior_hint="(default: auto)")
    ] = None
    restarts: Annotated[int | None, tyro.conf.arg(metavar="INT", help_behavior_hint="(default: 12)")] = None
    """How many attempts fit may take: from a random start, then from what is left of the last one, in turns."""
    steps: Annotated[int | None, tyro.conf.arg(metavar="INT", help_behavior_hint="(default: 2000)")] = None
    """Steps of one attempt of fit at most, each over all pairs."""
    time_limit: Annotated[float | None, tyro.conf.arg(metavar="SECONDS", help_behavior_hint="")] = None
    """How long fit may take; --smallest and --budget take 60 seconds unless told otherwise."""
    workers: Annotated[int | None, tyro.conf.arg(metavar="INT", help_behavior_hint=BY_SIZE)] = None
    """Threads of fit."""
    warm_start: Annotated[Path | None, tyro.conf.arg(metavar="LAYER", help_behavior_hint="")] = None
    """Grow a certified layer: begin with its weights, whose relations may have been added to or removed from."""

    def given(self) -> dict[str, object]:
        """The options that were given, by name."""
        named = {field.name: getattr(self, field.name) for field in fields(self)}
        return {name: value for name, value in named.items() if value is not None}

    def check(self, command: Compile) -> None:
        """Refuse options that do not go together."""
        how = command.construction
        if how.name != "fit":
            for name in self.given():
                raise InputError(f"--{name.replace('_', '-')} goes with --construction fit, not with {how.name}")
            return
        for name in OTHERS:
            if getattr(how, name) is not None:
                raise InputError(f"--{name.replace('_', '-')} does not apply to the fit construction")
        if not command.certify:
            raise InputError("fit ends with a certificate: --no-certify does not apply")
        if self.budget is not None and command.smallest:
            raise InputError("--budget fixes the key budget that --smallest searches for: give one of them")
        if self.budget is not None and (self.heads is not None or how.key_width is not None):
            raise InputError("--budget finds the split into heads: --heads and --key-width do not go with it")
        if command.smallest and how.key_width is not None:
            raise InputError("--smallest finds the key width: --key-width does not go with it")
        if command.max_budget is not None and not command.smallest:
            raise InputError("--max-budget goes with --smallest")
        searching = command.smallest or self.budget is not None
        if searching and self.warm_start is not None:
            raise InputError("--warm-start keeps the shape of its layer: --smallest and --budget do not go with it")
        if searching and self.restarts is not None:
            raise InputError("--smallest and --budget try until their time is up: --restarts does not go with them")
        if self.warm_start is not None and (self.heads is not None or how.key_width is not None):
            raise InputError("--warm-start keeps the shape of its layer: --heads and --key-width do not go with it")
        counts = {name: getattr(self, name) for name in ("heads", "budget", "restarts", "steps", "workers")}
        for name, value in (counts | {"key-width": how.key_width, "max-budget": command.max_budget}).items():
            if value is not None and value < 1:
                raise InputError(f"--{name} is at least 1, not {value}")
        if self.workers is not None and self.workers > MOST_WORKERS:
            raise InputError(f"--workers is at most {MOST_WORKERS}, not {self.workers}")
        if self.time_limit is not None and not self.time_limit > 0:
            raise InputError(f"--time-limit is a positive number of seconds, not {self.time_limit:g}")
