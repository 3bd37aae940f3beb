"""Search the narrowest certified heads of every way to share keys; each row is stored as soon as it is found.

Parts: max, softmax. All shapes of a size have the same effort: at each width, one attempt from the weights of a wider
layer that holds (if there is one), and as many further attempts as `Size.attempts` says. No clock is involved, so the
same seed gives the same row on every machine of a kind. `--share 1/2` and `--share 2/2` in two processes divide the
searches between them.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import dataclass, replace

import numpy as np

from manyheads.fitting import FitOptions, FitResult, fit
from manyheads.fitting.descent import narrowed_start
from manyheads.fitting.shapes import predicted_shape
from manyheads.layer.layer import Layer
from manyheads.layer.rules import MAX, SOFTMAX
from manyheads.problem.problem import Problem
from manyheads.training import Task
from tools.pages.catalogue import Settings
from tools.pages.rows import Row, append_row, machine_rows, matching, read_rows, write_rows

NAME = "shared-keys"
PARTS = ("max", "softmax")
SEEDS = range(5)
CONTEXT = 16  # items in a context, for softmax
LATENTS = (2, 4)  # widths of a latent over the width of a head
FIRST, LOWER, HIGHER = 0.7, 0.8, 1.25  # the first width over the law's; the next, after a success and after a failure


@dataclass(frozen=True)
class Size:
    """Problems of one size under one rule.

    Attributes:
        items: m.
        d_model: Width of the rows.
        attempts: Random and shrunk starts at each width.
        rule: max or softmax.
        degrees: 1 for permutations, r for r-regular graphs.
        heads: The numbers of heads; each number h shares h, h/2, h/4 and 1 key heads.
    """

    items: int
    d_model: int
    attempts: int
    rule: str = "max"
    degrees: tuple[int, ...] = (1, 4)
    heads: tuple[int, ...] = (4, 8)

    @property
    def sharings(self) -> list[Sharing]:
        """The ways to share keys: for each number of heads, key heads from many to one, then latents."""
        own = [Sharing(h, g) for h in self.heads for g in sorted({h, h // 2, h // 4, 1}, reverse=True)]
        return own + [Sharing(h, 1, latent) for h in self.heads for latent in LATENTS if latent < h]


@dataclass(frozen=True)
class Sharing:
    """A way to share keys: g key heads, or a latent that is `latent` times as wide as a head (0: no latent)."""

    heads: int
    key_heads: int
    latent: int = 0


# in the order of their work: permutations first, because their searches are the shortest
SIZES = (
    Size(64, 16, 24),
    Size(128, 16, 24, degrees=(1,)),
    Size(256, 32, 6, degrees=(1,)),
    Size(64, 16, 6, "softmax", (1,), (4,)),
    Size(64, 64, 6, "softmax", (1,), (4,)),
    Size(128, 128, 4, "softmax", (1,), (4,)),
    Size(512, 64, 3, degrees=(1,), heads=(4,)),
    Size(128, 16, 8, degrees=(4,), heads=(8,)),  # 4 heads of full width hold none of these graphs
    Size(256, 32, 4, degrees=(4,), heads=(8,)),
    Size(1024, 128, 2, degrees=(1,), heads=(4,)),
    Size(512, 64, 2, degrees=(4,), heads=(8,)),
    Size(1024, 128, 2, degrees=(4,), heads=(8,)),
)


def search(size: Size, degree: int, seed: int, sharing: Sharing) -> Row:
    """The narrowest heads of one way to share keys that a fit certified."""
    graph = f"permutation:{size.items}" if degree == 1 else f"regular:{size.items}:{degree}"
    problem = Task(graph, f"gaussian:{size.d_model}").draw(seed)
    begun, attempts = time.process_time(), 0
    held: FitResult | None = None
    failed, held_width, width = 0, size.d_model + 1, _first_width(problem, sharing)
    while failed + 1 < held_width:
        found, used = _try(problem, size, seed, sharing, width, held)
        attempts += used
        if found is None:
            failed = width
        else:
            held, held_width = found, width
        width = _next_width(failed, held_width, size.d_model)
    return {
        "rule": size.rule,
        "items": size.items,
        "d_model": size.d_model,
        "degree": degree,
        "seed": seed,
        "heads": sharing.heads,
        "key_heads": sharing.key_heads,
        "latent": sharing.latent,
        "key_width": held and held_width,
        "failed_width": failed or None,
        "normalised_margin": held and held.certificate.normalised_margin,
        "attempts": attempts,
        "cpu_seconds": time.process_time() - begun,
    }


def _first_width(problem: Problem, sharing: Sharing) -> int:
    """A part of the width that the degrees of freedom predict; for a latent, that of as many numbers to cache."""
    key_heads = sharing.latent or sharing.key_heads
    budget, _ = predicted_shape(problem.graph, problem.d_model, heads=sharing.heads, key_heads=key_heads)
    return max(1, round(FIRST * budget / key_heads))


def _next_width(failed: int, held: int, d_model: int) -> int:
    """Wider after failures alone, narrower after successes alone, then the middle."""
    if held > d_model:
        return min(d_model, max(failed + 1, round(HIGHER * failed)))
    return max(1, int(LOWER * held)) if not failed else (failed + held) // 2


def _try(
    problem: Problem, size: Size, seed: int, sharing: Sharing, width: int, held: FitResult | None
) -> tuple[FitResult | None, int]:
    """A layer of this width that certified, or None; and the number of attempts."""
    options = FitOptions(
        seed=seed,
        restarts=size.attempts,
        map="none",
        workers=1,
        rule=SOFTMAX if size.rule == "softmax" else MAX,
        context_length=CONTEXT if size.rule == "softmax" else None,
        latent=min(sharing.latent * width, size.d_model) or None,
    )
    keys = None if sharing.latent else sharing.key_heads
    used = 0
    if held is not None:
        start = held.layer
        if not sharing.latent:
            query, key = (weights.astype(np.float64) for weights in (start.query, start.key))
            start = Layer(*narrowed_start((query, key, start.threshold), key_width=width), start.rule)
        once = replace(options, restarts=1)
        found = fit(problem, heads=sharing.heads, key_width=width, key_heads=keys, options=once, start=start)
        used += 1
        if found.certificate.holds:
            return found, used
    found = fit(problem, heads=sharing.heads, key_width=width, key_heads=keys, options=options)
    return (found if found.certificate.holds else None), used + found.attempts


def missing(part: int, parts: int, rules: tuple[str, ...]) -> Iterator[tuple[Size, int, int, Sharing]]:
    """The searches of this share without a row: size by size, all ways to share keys for a seed before the next."""
    every = [
        (size, degree, seed, sharing)
        for size in SIZES
        for seed in SEEDS
        for degree in size.degrees
        for sharing in size.sharings
        if size.rule in rules
    ]
    for size, degree, seed, sharing in every[part::parts]:
        key = {"rule": size.rule, "items": size.items, "d_model": size.d_model, "degree": degree}
        if not matching(read_rows(NAME), **key, seed=seed, **vars(sharing)):
            yield size, degree, seed, sharing


def measure(settings: Settings) -> None:
    """Search every size, seed and way to share keys of this share that has no row."""
    part, parts = (int(number) for number in settings.share.split("/"))
    for search_of in missing(part - 1, parts, PARTS if settings.only is None else (settings.only,)):
        row = search(*search_of)
        append_row(NAME, row)
        print(row, flush=True)
    write_rows(f"{NAME}-machine", machine_rows())
