"""Compare methods to fit a layer, and measure how a certified layer takes changed relations.

Parts: comparison, growth. Rows that are stored are kept: delete a file of docs/data to measure it again.
"""

from __future__ import annotations

import time

import numpy as np

from manyheads import Graph, gaussian, permutation_graph
from manyheads.fitting import FitOptions, fit, grow
from manyheads.problem.problem import Problem
from tools.pages.catalogue import Settings
from tools.pages.fit.methods import METHODS, Method
from tools.pages.fit.text import LADDERS, NEEDED
from tools.pages.rows import Row, machine_rows, matching, read_rows, write_rows

PARTS = ("comparison", "growth")
SEEDS = range(4)
PATIENCE = 20.0  # CPU seconds for each seed: a slower method is not tried at the next width

OPTIONS = FitOptions(seed=0, map="none")


def ladder(method: Method, items: int, d_model: int, heads: int, widths: range) -> Row:
    """The smallest key budget, going down the widths, at which enough seeds separate; CPU seconds of an attempt."""
    smallest, seconds, began = None, None, time.process_time()
    for width in widths:
        separated, start = 0, time.process_time()
        for seed in SEEDS:
            graph, rows = permutation_graph(items, seed=seed), gaussian(items, d_model, seed=seed + 1000)
            separated += method(graph, rows, heads, width, seed)
        if separated < NEEDED:
            break
        smallest, seconds = heads * width, (time.process_time() - start) / len(SEEDS)
        if time.process_time() - began > PATIENCE * len(SEEDS):
            break
    return {"key_budget": smallest, "seconds": seconds}


def growth_rows() -> list[Row]:
    """Relations of a certified layer are exchanged: time and steps to the next certificate, and of a new fit."""
    made = []
    for items, d_model, heads, width in ((256, 32, 4, 8), (1024, 128, 3, 14)):
        graph, embedding = permutation_graph(items, seed=0), gaussian(items, d_model, seed=1)
        first = fit(Problem(graph, embedding), heads=heads, key_width=width, options=OPTIONS)
        for part in (0.01, 0.05, 0.2):
            count = max(2, round(part * items))
            chosen = np.random.default_rng(0).permutation(items)[:count]
            targets = graph.targets.copy()
            targets[chosen] = np.roll(targets[chosen], 1)
            changed = Graph(items, graph.sources, targets)
            grown = grow(first.layer, Problem(changed, embedding), options=OPTIONS)
            fresh = fit(Problem(changed, embedding), heads=heads, key_width=width, options=OPTIONS)
            made.append(
                {
                    "items": items, "d_model": d_model, "heads": heads, "key_width": width, "exchanged": count,
                    "grown": grown.certificate.verdict, "grown_attempts": grown.attempts, "grown_steps": grown.steps,
                    "grown_seconds": grown.seconds, "fresh": fresh.certificate.verdict,
                    "fresh_attempts": fresh.attempts, "fresh_steps": fresh.steps, "fresh_seconds": fresh.seconds,
                }
            )  # fmt: skip
    return made


def measure(settings: Settings) -> None:
    """Measure the rows that are not stored; each row of the comparison is stored as soon as it is measured."""
    if settings.only in (None, "comparison"):
        rows = read_rows("fit-comparison")
        for name, method in METHODS.items():
            for (items, d_model, heads), widths in LADDERS.items():
                key = {"method": name, "items": items, "d_model": d_model, "heads": heads}
                if matching(rows, **key):
                    continue
                rows.append({**key, **ladder(method, items, d_model, heads, widths)})
                write_rows("fit-comparison", rows)
                print(rows[-1], flush=True)
    if settings.only in (None, "growth") and not read_rows("fit-growth"):
        write_rows("fit-growth", growth_rows())
    write_rows("fit-machine", machine_rows())
