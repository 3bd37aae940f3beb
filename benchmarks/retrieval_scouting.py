"""Choose the optimiser of `manyheads paper retrieval`: h = D heads, other seeds than the reported ones, resumable.

python benchmarks/retrieval_scouting.py            about 10 minutes on two cores; retrieval-scouting.db keeps every run

Every setting sees as many examples, so that smaller batches make more steps. The one with the lowest geometric mean
NMSE over the seeds and both lengths is the one to take, whatever it does to h < D, which is not looked at: the choice
is made by how well the task is solved and not by the effect that is claimed.
"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np

from manyheads.retrieval import RetrievalRun
from manyheads.sweep import RetrievalTrainer, Store, processes, sweep

SEEDS = (1_000, 1_001)
LENGTHS = (8, 128)
EXAMPLES = 512_000
CHOSEN = (1e-2, 32, 1.0)  # rate, batch, ln β before training; the others differ from it in one of the three
OTHERS = ((5e-3, 32, 1.0), (1e-2, 64, 1.0), (1e-2, 128, 1.0), (1e-2, 32, 0.0))


def settings() -> list[RetrievalRun]:
    """One run for each setting."""
    like = RetrievalRun(4, LENGTHS[0], 4, SEEDS[0], head_width=8)
    return [
        replace(
            like,
            learning_rate=rate,
            batch=batch,
            initial_sharpness=sharpness,
            steps=EXAMPLES // batch,
            validate_every=EXAMPLES // batch,
        )
        for rate, batch, sharpness in (CHOSEN, *OTHERS)
    ]


def main() -> None:
    """Train what is missing, then rank the settings."""
    chosen = {one: [replace(one, length=T, seed=seed) for T in LENGTHS for seed in SEEDS] for one in settings()}
    wanted = [run for runs in chosen.values() for run in runs]
    with Store.write(Path("retrieval-scouting.db")) as store, processes() as workers:
        records = sweep(wanted, store, trainer=RetrievalTrainer(), workers=workers)
    nmse = {record.id: record.score("nmse") for record in records}
    seconds = {record.id: record.seconds or 0.0 for record in records}
    ranked = []
    for one, runs in chosen.items():
        values = [nmse.get(run.id) for run in runs]
        known = [value for value in values if value is not None]
        mean = float(np.exp(np.mean(np.log(known)))) if len(known) == len(values) else np.inf
        ranked.append((mean, one, values, sum(seconds.get(run.id, 0.0) for run in runs)))
    print("NMSE    rate   batch  ln β   each (T = 8, 8, 128, 128)            seconds")
    for mean, one, values, spent in sorted(ranked, key=lambda row: row[0]):
        each = " ".join("diverged" if value is None else f"{value:.1e}" for value in values)
        print(f"{mean:.1e} {one.learning_rate:<6g} {one.batch:<6} {one.initial_sharpness:<6g} {each}  {spent:.0f}")


if __name__ == "__main__":
    main()
