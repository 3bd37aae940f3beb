"""Choose the optimiser of `manyheads paper retrieval`: L·h = D heads, other seeds than the reported ones, resumable.

python benchmarks/retrieval_scouting.py            some minutes on two cores; retrieval-scouting.db keeps every run

Every setting makes as many steps. The best setting has the lowest geometric mean NMSE over the seeds, in one layer and
in two. Runs with fewer heads are not made: the choice must not depend on the effect that the paper claims. Earlier
trials, e.g. of batches, are in docs/lab-notes/retrieval.md.
"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from manyheads.retrieval import RetrievalRun
from manyheads.sweep import RetrievalTrainer, Store, processes, sweep

SEEDS = range(1_000, 1_006)
STEPS = 6_000
ONE = RetrievalRun(4, 8, 4, SEEDS[0], head_width=8, steps=STEPS, validate_every=STEPS)
PROBLEMS = (ONE, replace(ONE, heads=2, head_width=16, layers=2))
CHOSEN: dict[str, Any] = {"learning_rate": 1e-2, "warm_up": 100, "beta2": 0.99, "initial_sharpness": 1.0}
OTHERS = (
    {"learning_rate": 5e-3, "warm_up": 1_000},
    {"learning_rate": 2e-2, "warm_up": 500},
    {"beta2": 0.999},
    {"initial_sharpness": 0.0},
    {"initial_sharpness": 2.0},
)


def main() -> None:
    """Train what is missing, then rank the settings."""
    settings = [CHOSEN, *(CHOSEN | other for other in OTHERS)]
    wanted = [
        [[replace(problem, seed=seed, **setting) for seed in SEEDS] for problem in PROBLEMS] for setting in settings
    ]
    with Store.write(Path("retrieval-scouting.db")) as store, processes() as workers:
        every = [run for problems in wanted for runs in problems for run in runs]
        records = sweep(every, store, trainer=RetrievalTrainer(), workers=workers)
    nmse = {record.id: record.score("nmse") for record in records}
    ranked = []
    for setting, problems in zip(settings, wanted, strict=True):
        means = [_mean([nmse.get(run.id) for run in runs]) for runs in problems]
        ranked.append((float(np.sqrt(np.prod(means))), means, setting))
    print("NMSE    one layer  two layers  setting")
    for mean, (one, two), setting in sorted(ranked, key=lambda row: row[0]):
        told = ", ".join(f"{name} {value:g}" for name, value in setting.items())
        print(f"{mean:.1e} {one:<10.1e} {two:<11.1e} {told}")


def _mean(values: list[float | None]) -> float:
    """The geometric mean; a run that diverged spoils it."""
    return float(np.exp(np.mean([np.inf if value is None else np.log(value) for value in values])))


if __name__ == "__main__":
    main()
