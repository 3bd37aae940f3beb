"""`manyheads train`: a layer trained by the paper's protocol, and what it recognises in the end."""

from __future__ import annotations

import re
import time
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import tyro

from manyheads.cli.options.outputs import Outputs
from manyheads.cli.options.protocol_options import Protocol
from manyheads.cli.render.answer import Answer, Flag
from manyheads.errors import InputError
from manyheads.training.run import Run, fingerprint, weight_for

if TYPE_CHECKING:
    from jaxtyping import Float32
    from numpy import ndarray

    from manyheads.problem.graph import Graph
    from manyheads.training.outcome import Check, Outcome

GRAPHS = {"permutation": "permutation:ITEMS", "regular": "regular:ITEMS:DEGREE"}
EMBEDDINGS = {"gaussian": "gaussian:D_MODEL"}


@dataclass(frozen=True, kw_only=True)
class Train:
    """Train a layer to recognise a graph, one random context a step, and test it."""

    graph: Annotated[str, tyro.conf.arg(metavar="FILE|DRAWN")]
    """An edge list (.csv, .tsv), or a graph to draw from the seed: permutation:ITEMS or regular:ITEMS:DEGREE."""
    embedding: Annotated[str, tyro.conf.arg(metavar="FILE|DRAWN")]
    """A file (.npy, .safetensors, .gguf), or an embedding to draw from the seed: gaussian:D_MODEL."""
    heads: int
    """Number of heads."""
    key_width: int
    """Width of each head."""
    seed: int
    """Seed of the first weights, and of graph, embedding and contexts unless --problem-seed is given."""
    problem_seed: Annotated[int | None, tyro.conf.arg(metavar="INT", help_behavior_hint="(default: the seed)")] = None
    """Seed of graph, embedding and contexts."""
    labels: Annotated[Path | None, tyro.conf.arg(metavar="FILE", help_behavior_hint="")] = None
    """The items' names in the order of the embedding's rows, one a line or a .json list of strings."""
    tensor: Annotated[str | None, tyro.conf.arg(metavar="NAME", help_behavior_hint="")] = None
    """Which tensor is the embedding, where a safetensors file holds several."""
    protocol: tyro.conf.OmitArgPrefixes[Protocol] = field(default_factory=Protocol)
    engine: Literal["native", "reference"] = "native"
    """The fused kernel, or plain PyTorch (needs the torch extra)."""
    device: str = "cpu"
    """Where the reference engine computes, as PyTorch calls it."""
    files: tyro.conf.OmitArgPrefixes[Outputs] = field(default_factory=Outputs)
    json: Flag = False
    """Print JSON instead of a table."""

    def run(self) -> Answer:
        """Train, write, tell."""
        from manyheads.cli.render.certificate_table import pairs_table, shown_files
        from manyheads.cli.render.progress_line import status
        from manyheads.training import train
        from manyheads.training.data import problem_of

        self.files.check()
        run, graph, embedding = self.what()
        problem = problem_of(run, graph=graph, embedding=embedding)
        begun = time.monotonic()
        with status("train") as line:
            outcome = train(
                run,
                graph=graph,
                embedding=embedding,
                engine=self.engine,
                device=self.device,
                progress=lambda run, check: line(standing(run, check, time.monotonic() - begun)),
            )
        meaning = {name: value if isinstance(value, int | str) else repr(value) for name, value in run.meaning.items()}
        provenance = meaning | {"run": run.id, "engine": self.engine}
        written = self.files.write(problem.graph, problem.embedding, outcome.layer, provenance)
        return Answer(
            facts=facts(outcome) | {"written": [str(path) for path in written]},
            shown=[pairs_table(rows(outcome)), *shown_files(written)],
            yes=outcome.stopped in ("converged", "limit"),
        )

    def what(self) -> tuple[Run, Graph | None, Float32[ndarray, "items d_model"] | None]:
        """The run, and the graph and the embedding it does not draw itself."""
        from manyheads.files import read_embedding, read_graph, read_labels

        width, sizes = drawn(self.embedding, EMBEDDINGS), drawn(self.graph, GRAPHS)
        if width and self.tensor is not None:
            raise InputError(f"--tensor does not apply: {self.embedding} is drawn, not read from a file")
        if sizes and self.labels is not None:
            raise InputError(f"--labels does not apply: {self.graph} is drawn, not read from a file")
        graph, embedding = None, None
        if not width:
            embedding = read_embedding(self.embedding, tensor=self.tensor)
            width = [embedding.shape[1]]
        if not sizes:
            labels = None if self.labels is None else read_labels(self.labels)
            graph = read_graph(self.graph, items=None if embedding is None else len(embedding), labels=labels)
            sizes = [graph.items]
        asked = self.protocol.positive_weight
        weight = weight_for(graph, self.protocol.context) if asked is None else asked
        run = Run(
            items=sizes[0],
            d_model=width[0],
            heads=self.heads,
            key_width=self.key_width,
            seed=self.seed,
            problem_seed=self.problem_seed,
            graph=self.graph.partition(":")[0] if graph is None else fingerprint(graph),
            degree=sizes[1] if len(sizes) > 1 else Run.degree,
            embedding=self.embedding.partition(":")[0] if embedding is None else fingerprint(embedding),
            **vars(self.protocol) | {"positive_weight": weight},
        )
        return run, graph, embedding


def drawn(words: str, forms: Mapping[str, str]) -> list[int]:
    """The numbers in words such as regular:128:4; none where the words are a file's name."""
    name, *numbers = words.split(":")
    if name not in forms:
        return []
    if len(numbers) != forms[name].count(":") or not all(re.fullmatch("[0-9]{1,9}", number) for number in numbers):
        raise InputError(f"{words!r} is not of the form {forms[name]}")
    return [int(number) for number in numbers]


def standing(run: Run, check: Check, seconds: float) -> str:
    """Where a run stands at a check, and the time it needs if it has to take all its steps."""
    speed = check.step / max(seconds, 1e-9)
    left = timedelta(seconds=round((run.steps - check.step) / speed))
    score = f"validation {'F1' if run.objective == 'edges' else 'MSE'} {check.score:.4f}"
    return f"step {check.step:,}/{run.steps:,}, {score}, {speed:,.0f} steps/s, {left} left"


def rows(outcome: Outcome) -> list[tuple[str, str]]:
    """The outcome for people; what was not measured is left out."""
    run = outcome.run
    edges = run.objective == "edges"
    ends = {
        "converged": f"{run.patience} checks in a row {f'above {run.stop_above}' if edges else 'without a new best'}",
        "limit": "the most it may take",
        "diverged": "where the loss or a weight was no longer finite",
        "cancelled": "cancelled",
        "timeout": "its time was up",
    }
    shape = f"{run.items} items, d_model {run.d_model}, {run.heads} heads of width {run.key_width}, rule {run.rule}"
    stopped = f"{outcome.stopped} after {outcome.steps:,} steps: {ends[outcome.stopped]}"
    said = [("run", run.id), ("shape", shape), ("stopped", stopped)]
    if outcome.micro_f1 is not None:
        said.append(("test F1", f"{outcome.micro_f1:.4f} over {run.test_contexts:,} contexts"))
    if outcome.mse is not None:
        said.append(("test MSE", f"{outcome.mse:.4g}; predicting zero {outcome.zero_mse:.4g}"))
    if outcome.exact_errors is not None:
        said.append(("errors", f"{outcome.exact_errors:,} of all {run.items**2:,} pairs, margin {outcome.margin:.4g}"))
    speed = f"{outcome.seconds:.3g} s, {outcome.steps_per_second:,.0f} steps/s with validation and test"
    return [*said, ("time", f"{speed}, engine {outcome.engine}")]


def facts(outcome: Outcome) -> dict[str, object]:
    """The outcome for machines; what was not measured is null."""
    return {
        "run": asdict(outcome.run) | {"id": outcome.run.id},
        "stopped": outcome.stopped,
        "steps": outcome.steps,
        "micro_f1": outcome.micro_f1,
        "mse": outcome.mse,
        "zero_mse": outcome.zero_mse,
        "exact_errors": outcome.exact_errors,
        "margin": outcome.margin,
        "seconds": outcome.seconds,
        "steps_per_second": outcome.steps_per_second,
        "engine": outcome.engine,
        "curve": [asdict(check) for check in outcome.curve],
    }
