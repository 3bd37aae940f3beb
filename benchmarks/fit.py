"""How long the compact compiler takes, at which key budget, and in how much memory.

python benchmarks/fit.py                          the problems that need no files
python benchmarks/fit.py large wordnet --data F   these, with the files of README's data section in the folder F
"""

from __future__ import annotations

import resource
import time
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import tyro

from manyheads import Graph, gaussian, permutation_graph
from manyheads.fitting import FitOptions, fit, suitable_map
from manyheads.fitting.options import suitable_descent
from manyheads.problem.problem import Problem


@dataclass(frozen=True)
class Case:
    """A problem and a shape that holds it."""

    make: Callable[[Path], Problem]
    heads: int
    key_width: int
    changes: dict[str, Any] = field(default_factory=dict)  # of the settings that suit the size
    seed: int = 0


def permutation(items: int, d_model: int) -> Callable[[Path], Problem]:
    return lambda data: Problem(permutation_graph(items, seed=0), gaussian(items, d_model, seed=1))


def wordnet(data: Path) -> Problem:
    """All hypernym pairs among the 6144 most frequent tokens of SmolLM2, over its own token embedding."""
    stored = np.load(data / "smollm2_top6144_wordnet_triples.npz", allow_pickle=False)
    triples, names = stored["triples"], stored["relations"].tolist()
    pairs = np.unique(triples[triples[:, 1] == names.index("@")][:, [0, 2]], axis=0).astype(np.int64)
    rows = np.load(data / "smollm2_top6144_f16.npy", allow_pickle=False).astype(np.float32)
    return Problem(Graph(len(rows), pairs[:, 0], pairs[:, 1]), rows)


def wn18rr(data: Path) -> Problem:
    """WN18RR's largest relation, between all the items it names, over Gaussian rows."""
    stored = np.load(data / "wn18rr.npz", allow_pickle=False)
    triples = np.concatenate([stored[name] for name in stored.files if stored[name].ndim == 2])
    largest = int(np.bincount(triples[:, 1]).argmax())
    pairs = np.unique(triples[triples[:, 1] == largest][:, [0, 2]], axis=0)
    names, ends = np.unique(pairs, return_inverse=True)
    ends = ends.reshape(pairs.shape).astype(np.int64)
    return Problem(Graph(len(names), ends[:, 0], ends[:, 1]), gaussian(len(names), 1024, seed=1))


def synsets(data: Path) -> Problem:
    """All hypernyms of WordNet 3.1 among its synsets, over Gaussian rows."""
    stored = np.load(data / "wordnet31_hypernym_synsets.npz", allow_pickle=False)
    pairs, items = stored["edges"].astype(np.int64), len(stored["names"])
    return Problem(Graph(items, pairs[:, 0], pairs[:, 1]), gaussian(items, 1024, seed=1))


CASES = {
    "256": Case(permutation(256, 32), 5, 5),
    "512": Case(permutation(512, 64), 3, 9),
    "1024": Case(permutation(1024, 128), 2, 18),
    "large": Case(permutation(4096, 512), 2, 14),
    "crowded": Case(permutation(4096, 96), 24, 8),
    "wordnet": Case(wordnet, 6, 8),
    # tens of thousands of items: no steps that widen the margin. tokens and synsets were not certified yet
    "wn18rr": Case(wn18rr, 7, 32, {"widen": 0, "steps": 700}),
    "tokens": Case(permutation(49152, 576), 32, 16, {"widen": 0, "steps": 1_400, "rate": 0.08}),
    "synsets": Case(synsets, 20, 32, {"widen": 0, "steps": 800}),
}
QUICK = ("256", "512", "1024")


def main(
    cases: tyro.conf.Positional[tuple[str, ...]] = QUICK,
    data: Path = Path("../shared/data"),
    shape: Annotated[str | None, tyro.conf.arg(metavar="HEADSxWIDTH")] = None,
) -> None:
    """Fit each problem once and print what it took."""
    for name in cases:
        case = CASES[name]
        problem = case.make(data)
        heads, width = (case.heads, case.key_width) if shape is None else map(int, shape.split("x"))
        descent = replace(suitable_descent(problem.items, problem.d_model), **case.changes)
        begun = time.perf_counter()
        map_ = suitable_map(problem.rows)
        fitted = fit(
            problem, heads=heads, key_width=width,
            options=FitOptions(
                seed=case.seed, map=map_, descent=descent,
                progress=lambda progress: print(f"  {progress}", flush=True),
            ),
        )  # fmt: skip
        seconds, certificate = time.perf_counter() - begun, fitted.certificate
        memory = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20
        print(
            f"{name}: {problem.items} items, {problem.relations} relations, d_model {problem.d_model}, map {map_}, "
            f"{heads} × {width} = D_K {heads * width}: {certificate.verdict}, {certificate.missed} missed, "
            f"{certificate.false_pairs} false, margin {certificate.normalised_margin:.2e}, {fitted.attempts} attempts, "
            f"{fitted.steps} steps, {seconds:.1f} s, peak {memory:.2f} GiB",
            flush=True,
        )


if __name__ == "__main__":
    tyro.cli(main)
