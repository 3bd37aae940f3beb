"""`manyheads train`: a layer trained by the paper's protocol, and what it recognises in the end."""

from __future__ import annotations

import time
from dataclasses import asdict, dataclass, field
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import tyro

from manyheads.cli.options.outputs import Outputs
from manyheads.cli.options.protocol_options import Protocol
from manyheads.cli.render.answer import Answer, Flag
from manyheads.errors import InputError

if TYPE_CHECKING:
    from manyheads.training import Check, Outcome, Run


@dataclass(frozen=True, kw_only=True)
class Train:
    """Train a layer to recognise a graph, one random context a step, and test it."""

    graph: Annotated[str, tyro.conf.arg(metavar="FILE|DRAWN")]
    """An edge list (.csv, .tsv), or a graph to draw from the seed, e.g. permutation:ITEMS or regular:ITEMS:DEGREE."""
    embedding: Annotated[str, tyro.conf.arg(metavar="FILE|DRAWN")]
    """A file (.npy, .safetensors, .gguf), or an embedding to draw from the seed, e.g. gaussian:D_MODEL."""
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
        from manyheads.training.data import training_data

        self.files.check()
        run = self.what()
        data = training_data(run)
        begun = time.monotonic()
        with status("train") as line:
            outcome = train(
                run,
                engine=self.engine,
                device=self.device,
                progress=lambda run, check: line(standing(run, check, time.monotonic() - begun)),
            )
        fields = {name: value if isinstance(value, int | str) else repr(value) for name, value in run.fields.items()}
        provenance = fields | {"run": run.id, "engine": self.engine}
        written = self.files.write(data.graph, data.rows, outcome.layer, provenance)
        return Answer(
            facts=facts(outcome) | {"written": [str(path) for path in written]},
            shown=[pairs_table(rows(outcome)), *shown_files(written)],
            yes=outcome.stopped in ("converged", "limit"),
        )

    def what(self) -> Run:
        """The run, with the graph and the embedding that were read from files."""
        from manyheads.cli.options.kind_words import EMBEDDINGS, GRAPHS, is_drawn
        from manyheads.files import read_embedding, read_graph, read_labels
        from manyheads.layer.rules import rule_named
        from manyheads.training import Run, Task

        width, sizes = is_drawn(self.embedding, EMBEDDINGS), is_drawn(self.graph, GRAPHS)
        if width and self.tensor is not None:
            raise InputError(f"--tensor does not apply: {self.embedding} is drawn, not read from a file")
        if sizes and self.labels is not None:
            raise InputError(f"--labels does not apply: {self.graph} is drawn, not read from a file")
        embedding = None if width else read_embedding(self.embedding, tensor=self.tensor)
        graph = None
        if not sizes:
            labels = None if self.labels is None else read_labels(self.labels)
            graph = read_graph(self.graph, items=None if embedding is None else len(embedding), labels=labels)
        return Run(
            Task(
                self.graph if graph is None else graph,
                self.embedding if embedding is None else embedding,
                **self.protocol.task_options,
            ),
            heads=self.heads,
            key_width=self.key_width,
            seed=self.seed,
            problem_seed=self.problem_seed,
            rule=rule_named(self.protocol.rule),
            protocol=self.protocol.constants,
        )


def standing(run: Run, check: Check, seconds: float) -> str:
    """Where a run stands at a check, and the time it needs if it has to take all its steps."""
    speed = check.step / max(seconds, 1e-9)
    steps = run.protocol.steps
    left = timedelta(seconds=round((steps - check.step) / speed))
    score = f"validation {'F1' if run.task.objective == 'edges' else 'MSE'} {check.score:.4f}"
    return f"step {check.step:,}/{steps:,}, {score}, {speed:,.0f} steps/s, {left} left"


def rows(outcome: Outcome) -> list[tuple[str, str]]:
    """The outcome for people; what was not measured is left out."""
    run, protocol = outcome.run, outcome.run.protocol
    edges, mark = run.task.objective == "edges", f"above {protocol.stop_above}"
    ends = {
        "converged": f"{protocol.patience} checks in a row {mark if edges else 'without a new best'}",
        "limit": "the most it may take",
        "diverged": "where the loss or a weight was no longer finite",
        "cancelled": "cancelled",
        "timeout": "its time was up",
    }
    shape = f"{run.items} items, d_model {run.d_model}, {run.heads} heads of width {run.key_width}, rule {run.rule}"
    stopped = f"{outcome.stopped} after {outcome.steps:,} steps: {ends[outcome.stopped]}"
    said = [("run", run.id), ("shape", shape), ("stopped", stopped)]
    if outcome.micro_f1 is not None:
        said.append(("test F1", f"{outcome.micro_f1:.4f} over {protocol.test_contexts:,} contexts"))
    if outcome.mse is not None:
        said.append(("test MSE", f"{outcome.mse:.4g}; predicting zero {outcome.zero_mse:.4g}"))
    if outcome.exact_errors is not None:
        said.append(("errors", f"{outcome.exact_errors:,} of all {run.items**2:,} pairs, margin {outcome.margin:.4g}"))
    speed = f"{outcome.seconds:.3g} s, {outcome.steps_per_second:,.0f} steps/s with validation and test"
    return [*said, ("time", f"{speed}, engine {outcome.engine}")]


def facts(outcome: Outcome) -> dict[str, object]:
    """The outcome for machines; what was not measured is null."""
    return {
        "run": outcome.run.fields | {"id": outcome.run.id},
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
