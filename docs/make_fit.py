"""Make docs/fit.md: compare ways to fit, measure growth, store the rows, write the page from them.

python docs/make_fit.py            measure what has no row yet (some minutes on one core), then write
python docs/make_fit.py --stored   measure nothing: write from the stored rows
"""

from __future__ import annotations

import time
from pathlib import Path

import numpy as np
import tyro
from fit_methods import (
    Method,
    blas,
    contexts,
    from_construction,
    from_matchings,
    from_svd,
    full,
    large_random,
    lbfgs,
)
from rows import Row, machine_rows, only, read_rows, table, there, write_rows

from manyheads import Graph, gaussian, permutation_graph
from manyheads.fitting import Descent, FitOptions, fit, grow
from manyheads.problem.problem import Problem

SEEDS = range(4)
NEEDED = 3  # of the seeds, for a width to count
LADDERS = {(64, 16, 2): range(12, 2, -1), (128, 16, 5): range(14, 3, -1), (256, 32, 4): range(16, 3, -1)}
WAITED = 20.0  # seconds: a method slower than this on a ladder is not taken further down

METHODS: dict[str, Method] = {
    "contexts as the paper draws them, rate decayed": contexts(0.0),
    "half of the contexts hard": contexts(0.5),
    "full gradients: squared hinge, Adam (0.98, 0.98), small random start": full(),
    "… and failures start again shrunk, 6 attempts": full(chain=6),
    "Adam (0.9, 0.999)": full(descent=Descent(widen=0, beta1=0.9, beta2=0.999)),
    "Adam (0.9, 0.95)": full(descent=Descent(widen=0, beta1=0.9, beta2=0.95)),
    "a tenth of the rate": full(descent=Descent(widen=0, rate=0.025)),
    "L-BFGS": lbfgs,
    "large random start": full(start=large_random),
    "start: construction II": full(start=from_construction),
    "start: SVD of the whitened relations, dealt at random": full(start=from_svd),
    "start: SVD, dealt by the matchings of construction IV": full(start=from_matchings),
    "full batches by BLAS, squared hinge": blas("squared hinge"),
    "full batches by BLAS, hinge": blas("hinge"),
    "full batches by BLAS, logistic": blas("logistic"),
}


def ladder(method: Method, items: int, d_model: int, heads: int, widths: range) -> Row:
    """Down the widths while enough seeds come apart: the last that counts, and the seconds of an attempt there."""
    smallest, seconds, began = None, None, time.process_time()
    for width in widths:
        separated, start = 0, time.process_time()
        for seed in SEEDS:
            graph, rows = permutation_graph(items, seed=seed), gaussian(items, d_model, seed=seed + 1000)
            separated += method(graph, rows, heads, width, seed)
        if separated < NEEDED:
            break
        smallest, seconds = heads * width, (time.process_time() - start) / len(SEEDS)
        if time.process_time() - began > WAITED * len(SEEDS):
            break
    return {"key_budget": smallest, "seconds": seconds}


def growth_rows() -> list[Row]:
    """Relations exchanged in a certified layer: time and steps to the next certificate, beside a fresh fit."""
    made = []
    for items, d_model, heads, width in ((256, 32, 4, 8), (1024, 128, 3, 14)):
        graph, embedding = permutation_graph(items, seed=0), gaussian(items, d_model, seed=1)
        first = fit(Problem(graph, embedding), heads=heads, key_width=width, options=FitOptions(seed=0))
        for part in (0.01, 0.05, 0.2):
            count = max(2, round(part * items))
            chosen = np.random.default_rng(0).permutation(items)[:count]
            targets = graph.targets.copy()
            targets[chosen] = np.roll(targets[chosen], 1)
            changed = Graph(items, graph.sources, targets)
            grown = grow(first.layer, Problem(changed, embedding), options=FitOptions(seed=0))
            fresh = fit(Problem(changed, embedding), heads=heads, key_width=width, options=FitOptions(seed=0))
            made.append(
                {
                    "items": items, "d_model": d_model, "heads": heads, "key_width": width, "exchanged": count,
                    "grown": grown.certificate.verdict, "grown_attempts": grown.attempts, "grown_steps": grown.steps,
                    "grown_seconds": grown.seconds, "fresh": fresh.certificate.verdict,
                    "fresh_attempts": fresh.attempts, "fresh_steps": fresh.steps, "fresh_seconds": fresh.seconds,
                }
            )  # fmt: skip
    return made


def main(stored: bool = False) -> None:
    """Measure what is missing, write the page."""
    compared = read_rows("fit-comparison")
    if not stored:
        for name, method in METHODS.items():
            for (items, d_model, heads), widths in LADDERS.items():
                key = {"method": name, "items": items, "d_model": d_model, "heads": heads}
                if there(compared, **key):
                    continue
                compared.append({**key, **ladder(method, items, d_model, heads, widths)})
                write_rows("fit-comparison", compared)
                print(compared[-1], flush=True)
        if not read_rows("fit-growth"):
            write_rows("fit-growth", growth_rows())
        write_rows("fit-machine", machine_rows())
    docs = Path(__file__).parent
    (docs / "fit.md").write_text(page((docs / "fit.md.in").read_text(), compared, read_rows("fit-growth")))


def page(template: str, compared: list[Row], growth: list[Row]) -> str:
    """The template, its tables filled in."""
    heading = [f"({items}, {d_model}), {heads} heads" for items, d_model, heads in LADDERS]
    lines = []
    for name in METHODS:
        cells = []
        for items, d_model, heads in LADDERS:
            key = {"method": name, "items": items, "d_model": d_model, "heads": heads}
            row = only(compared, **key) if there(compared, **key) else None
            if row is None:
                cells.append("not run")
            elif row["key_budget"] is None:
                cells.append(f"> {heads * LADDERS[items, d_model, heads][0]}")
            else:
                cells.append(f"{row['key_budget']} ({row['seconds']:.2g} s)")
        lines.append([name, *cells])
    grown = [
        [
            f"({r['items']}, {r['d_model']}), {r['heads']} × {r['key_width']}", r["exchanged"],
            f"{r['grown']}, {r['grown_attempts']} / {r['grown_steps']} / {r['grown_seconds']:.2g} s",
            f"{r['fresh']}, {r['fresh_attempts']} / {r['fresh_steps']} / {r['fresh_seconds']:.2g} s",
        ]
        for r in growth
    ]  # fmt: skip
    head = ["layer", "relations exchanged", "warm start: attempts / steps / time", "fresh fit"]
    return template.replace("{{comparison}}", table(["method", *heading], lines)).replace(
        "{{growth}}", table(head, grown)
    )


if __name__ == "__main__":
    tyro.cli(main)
