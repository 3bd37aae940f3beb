"""Measure the key budget of 64 items in 16 dimensions, catch a layer that only seems to work, find one that does.

    python examples/demo.py [DIRECTORY]

leaves two pictures, the certified layer, its graph, its embedding, every result, and a page for the browser in
DIRECTORY (demo-output).
"""

from __future__ import annotations

import sys
from dataclasses import replace
from pathlib import Path
from shutil import which

import numpy as np

from manyheads import Certificate, Graph, Layer, certify, train
from manyheads.capacity import Capacity, Goal, measure
from manyheads.drawing.capacity import draw_capacity
from manyheads.drawing.layer_pictures import Scores, draw_scores
from manyheads.drawing.style import pack_picture
from manyheads.files import pack_embedding, pack_graph, pack_layer, write_together
from manyheads.page import explore_page
from manyheads.sweep import Record, Store
from manyheads.training import Outcome, Run, Task
from manyheads.training.data import training_data

TASK = Task("permutation:64", "gaussian:16")
HEADS, SEEDS = (1, 2, 4, 8, 16), range(5)
PASSING = 0.99


def main(directory: Path) -> None:
    """The whole story, told as it happens."""
    directory.mkdir(parents=True, exist_ok=True)
    with Store.write(directory / "results.db") as store:
        print(f"{TASK.items} items share {TASK.d_model} dimensions, and each relates to one other. Layers of many")
        print(f"sizes are trained to recognise the relations, {len(SEEDS)} seeds each:")
        print(f"which is the smallest that reaches an F1 of {PASSING}?\n")
        capacity = measure(TASK, store=store, heads=HEADS, seeds=SEEDS, goal=Goal(micro_f1=PASSING), fill=True)
        tell_capacity(capacity)
        passing = seeming(store.records({"items": TASK.items, "d_model": TASK.d_model}))
        if passing is None:
            print(f"Every layer that reached {PASSING} here decides every pair right.\n")
        seed = 0 if passing is None else passing.seed
        exact = measure(TASK, store=store, heads=HEADS, seeds=[seed], goal=Goal(exact=True))
    refuted = (
        None
        if passing is None
        else tell_outcome(f"This layer passes, with an F1 above {PASSING}, but the proof refuses it:", train(passing))
    )
    assert exact.heads is not None
    assert exact.threshold.key_width is not None
    width = exact.threshold.key_width
    found = Run(TASK, heads=exact.heads, key_width=width, seed=seed, protocol=exact.protocol)
    whole = tell_outcome(
        "The smallest that recovers every pair of the same graph, trained on where the paper stops early:", train(found)
    )
    files = result_files(directory, found, whole[0], refuted)
    files |= pack_picture(draw_capacity(capacity), directory / "capacity")
    files[directory / "explore.html"] = explore_page().encode()
    write_together(files, force=True)
    print(f"The curves: {directory / 'capacity.png'}. Certify the layer yourself:\n  cd {directory}")
    # after `make demo` the command is in .venv, which is not on the PATH
    program = "manyheads" if which("manyheads") else Path(sys.executable).with_name("manyheads")
    print(f"  {program} certify layer.safetensors --graph graph.csv --embedding embedding.npy")
    print(f"Train layers yourself: open {directory / 'explore.html'} in a browser.")


def tell_capacity(capacity: Capacity) -> None:
    """D_K*, h* and their ranges."""
    found = capacity.threshold
    print(f"D_K* = {found.key_budget} ({found.low} to {found.high}): {found.heads} heads of width {found.key_width};")
    print(f"{found.heads_low} to {found.heads_high} heads do not differ significantly.")
    print(
        f"{capacity.runs} runs found it, of the {capacity.grid} that every width of every head count would have taken;"
    )
    print(f"{capacity.filled} more fill in the curves.\n")


def seeming(records: list[Record]) -> Run | None:
    """The smallest run that passed the paper's test although it decides some pair wrong."""
    passed = []
    for record in records:
        heads, width, seed = record.run["heads"], record.run["key_width"], record.run["seed"]
        assert isinstance(heads, int)
        assert isinstance(width, int)
        assert isinstance(seed, int)
        run = Run(TASK, heads=heads, key_width=width, seed=seed)
        if run.id == record.id and (record.score("micro_f1") or 0) >= PASSING and record.score("exact_errors"):
            passed.append(run)
    return min(passed, key=lambda run: (run.key_budget, run.heads, run.seed), default=None)


def tell_outcome(what: str, outcome: Outcome) -> tuple[Layer, Certificate]:
    """A trained layer and its certificate; the same run gives the same bits as in the sweep."""
    problem, layer = training_data(outcome.run).problem, outcome.layer
    assert layer is not None
    certificate = certify(layer, problem)
    print(f"{what}\n  test F1 {outcome.micro_f1:.4f}, seed {outcome.run.seed}, {outcome.steps:,} steps")
    print("\n".join(f"  {line}" for line in str(certificate).splitlines()) + "\n")
    return layer, certificate


def result_files(
    directory: Path, run: Run, layer: Layer, refuted: tuple[Layer, Certificate] | None
) -> dict[Path, bytes]:
    """The certified layer's files, and a picture of the scores of all pairs under both layers."""
    problem = training_data(run).problem
    graph, embedding = problem.graph, problem.rows
    files = {
        directory / "layer.safetensors": pack_layer(layer, provenance={"run": run.id, "seed": run.seed}),
        directory / "graph.csv": pack_graph("graph.csv", graph),
        directory / "embedding.npy": pack_embedding("embedding.npy", embedding),
    }
    holds = scores(f"holds: {layer.heads} heads of width {layer.key_width} decide every pair", layer, embedding, graph)
    shown = [holds]
    if refuted is not None:
        other, certificate = refuted
        witness = certificate.witness
        assert witness is not None
        title = f"refuted: {other.heads} heads of width {other.key_width}, though F1 ≥ {PASSING}"
        named = (f"{witness.labels[0]} → {witness.labels[1]}", witness.score)
        shown.insert(0, replace(scores(title, other, embedding, graph), witness=named))
    return files | pack_picture(draw_scores(shown), directory / "certificate")


def scores(title: str, layer: Layer, embedding: np.ndarray, graph: Graph) -> Scores:
    """Every pair's score, those of relations apart."""
    all_scores, related = layer.scores(embedding), graph.adjacency()
    return Scores(title, all_scores[related], all_scores[~related], layer.threshold)


if __name__ == "__main__":
    main(Path(sys.argv[1] if len(sys.argv) > 1 else "demo-output"))
