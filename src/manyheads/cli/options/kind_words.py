"""Drawn graphs and embeddings: what words such as permutation:1024 or gaussian:256 stand for."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from jaxtyping import Float32
from numpy import ndarray

from manyheads.errors import InputError
from manyheads.problem.embedding_generators import gaussian, one_hot, sparse_binary
from manyheads.problem.graph import Graph
from manyheads.problem.graph_generators import (
    permutation_graph,
    power_law_graph,
    random_graph,
    regular_graph,
    star_graph,
)

# what follows the name, and what it makes of the numbers there
Drawings = Mapping[str, tuple[str, Callable[..., Any]]]
GRAPHS: Drawings = {
    "permutation": (":ITEMS", permutation_graph),
    "regular": (":ITEMS:DEGREE", regular_graph),
    "random": (":ITEMS:RELATIONS", random_graph),
    "star-out": (":ITEMS", lambda items, *, seed: star_graph(items, direction="out")),
    "star-in": (":ITEMS", lambda items, *, seed: star_graph(items, direction="in")),
    "power-law": (
        ":ITEMS:RELATIONS:EXPONENT",
        lambda items, relations, exponent, *, seed: power_law_graph(items, relations, exponent=exponent, seed=seed),
    ),
}
EMBEDDINGS: Drawings = {
    "one-hot": ("", lambda items, *, seed: one_hot(items)),
    "gaussian": (":D_MODEL", gaussian),
    "sparse-binary": (":D_MODEL", sparse_binary),
}


def is_drawn(words: str, drawings: Drawings) -> bool:
    """Whether the words name a drawing; else they are a file's name."""
    name = words.partition(":")[0]
    if name not in drawings and ":" in words and not Path(words).exists():  # more likely a slip than a file
        forms = ", ".join(known + form for known, (form, _) in drawings.items())
        raise InputError(f"{words!r} is neither a file nor one of {forms}")
    return name in drawings


def draw_graph(words: str, *, seed: int) -> Graph:
    """The graph the words stand for."""
    numbers, make = _understood(words, GRAPHS)
    return make(*numbers, seed=seed)


def draw_embedding(words: str, *, items: int, seed: int) -> Float32[ndarray, "items d_model"]:
    """The embedding the words stand for, for so many items."""
    numbers, make = _understood(words, EMBEDDINGS)
    return make(items, *numbers, seed=seed)


def _understood(words: str, drawings: Drawings) -> tuple[list[int | float], Callable[..., Any]]:
    name, _, rest = words.partition(":")
    form, make = drawings[name]
    given, wanted = rest.split(":") if rest else [], form.split(":")[1:]
    patterns = [r"[0-9]+\.?[0-9]*" if what == "EXPONENT" else "[0-9]{1,18}" for what in wanted]
    if len(given) != len(wanted) or not all(map(re.fullmatch, patterns, given)):
        raise InputError(f"{words!r} is not of the form {name}{form}")
    return [float(n) if what == "EXPONENT" else int(n) for n, what in zip(given, wanted, strict=True)], make
