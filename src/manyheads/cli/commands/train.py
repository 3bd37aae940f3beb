"""`manyheads train`: a layer trained by the paper's protocol, and its scores."""

from __future__ import annotations

import time
from dataclasses import asdict, dataclass, field
from datetime import timedelta
from typing import TYPE_CHECKING, Annotated, Literal

import tyro

from manyheads.cli.commands.measure import parse_goal
from manyheads.cli.commands.plan import KeyHeads
from manyheads.cli.options.option_types import Device, GoalWord, Heads, Json, KeyWidth, Outputs
from manyheads.cli.options.problem_options import TaskOptions
from manyheads.cli.options.protocol_options import TrainingOptions
from manyheads.cli.render.answer import Answer, pairs_table, shown_files
from manyheads.tables import in_heads

if TYPE_CHECKING:
    from manyheads.capacity import Goal
    from manyheads.training import Check, Outcome, Run

GOAL_HELP = "The test F1 that counts as working; or `exact`: all items² pairs are right."


@dataclass(frozen=True, kw_only=True)
class TrainCommand:
    """Train a layer to recognise a graph, one random context a step, and test it.

    The exit code is 0 if the layer reaches --goal, and 1 if it does not.
    """

    task: tyro.conf.OmitArgPrefixes[TaskOptions]
    heads: Heads
    key_width: KeyWidth
    key_heads: KeyHeads = None
    seed: int = 0
    """Seed of the first weights, and of graph, embedding and contexts unless --problem-seed is given."""
    problem_seed: Annotated[int | None, tyro.conf.arg(metavar="INT", help_behavior_hint="(default: the seed)")] = None
    """Seed of graph, embedding and contexts."""
    objective: Literal["edges", "values"] = "edges"
    """Recognise relations, or pass on the related item's message through a frozen value map."""
    message_width: Annotated[int | None, tyro.conf.arg(metavar="INT", help_behavior_hint="(default: d_model)")] = None
    """Width of the messages of --objective values."""
    goal: Annotated[GoalWord, tyro.conf.arg(help=GOAL_HELP)] = "0.99"
    training: tyro.conf.OmitArgPrefixes[TrainingOptions] = field(default_factory=TrainingOptions)
    engine: Literal["native", "reference"] = "native"
    """The fused kernel, or plain PyTorch (needs the torch extra)."""
    device: Device = "cpu"
    files: tyro.conf.OmitArgPrefixes[Outputs] = field(default_factory=Outputs)
    json: Json = False

    def run(self) -> Answer:
        """Train, write; yes if the run ended by itself and reached its goal. The value channel has no goal."""
        from manyheads.cli.render.progress import status
        from manyheads.training import train

        goal = parse_goal(self.goal)
        self.files.check()
        run = self.training_run()
        begun = time.monotonic()
        with status("train") as line:
            outcome = train(
                run,
                engine=self.engine,
                device=self.device,
                progress=lambda run, check: line(check_line(run, check, time.monotonic() - begun)),
            )
        fields = {name: value if isinstance(value, int | str) else repr(value) for name, value in run.fields.items()}
        problem = run.task.draw(run.seed if run.problem_seed is None else run.problem_seed)
        written = self.files.write(problem, outcome.layer, fields | {"run": run.id, "engine": self.engine})
        return Answer(
            facts=outcome_facts(outcome) | {"written": written},
            shown=[pairs_table(outcome_rows(outcome)), *shown_files(written)],
            yes=outcome.stopped in ("converged", "limit") and reaches(outcome, goal),
        )

    def training_run(self) -> Run:
        """The run that the options name."""
        from manyheads.layer.rules import rule_named
        from manyheads.training import Protocol, Run, Task

        task = Task(
            *self.task.load_task(),
            context=self.training.context_length,
            target_rate=self.training.target_rate,
            objective=self.objective,
            message_width=self.message_width,
        )
        return Run(
            task,
            heads=self.heads,
            key_heads=self.key_heads,
            key_width=self.key_width,
            seed=self.seed,
            problem_seed=self.problem_seed,
            rule=rule_named(self.training.rule),
            protocol=Protocol(**self.training.constants()),
        )


def reaches(outcome: Outcome, goal: Goal) -> bool:
    """Whether a run has the test F1, or the exact recovery, that was asked for; True if it has no such score."""
    if goal.exact and outcome.exact_errors is not None:
        return outcome.exact_errors == 0
    return outcome.micro_f1 is None or outcome.micro_f1 >= goal.micro_f1


def check_line(run: Run, check: Check, seconds: float) -> str:
    """A validation check in one line, with the time that the run needs if it takes all its steps."""
    speed = check.step / max(seconds, 1e-9)
    steps = run.protocol.steps
    left = timedelta(seconds=round((steps - check.step) / speed))
    score = f"validation {'F1' if run.task.objective == 'edges' else 'MSE'} {check.score:.4f}"
    return f"step {check.step:,}/{steps:,}, {score}, {speed:,.0f} steps/s, {left} left"


def outcome_rows(outcome: Outcome) -> list[tuple[str, str]]:
    """The outcome for people; a score that was not measured has no row."""
    run, protocol = outcome.run, outcome.run.protocol
    above = f"above {protocol.stop_above}" if run.task.objective == "edges" else "without a new best"
    ends = {
        "converged": f"{protocol.patience} checks in a row {above}",
        "limit": "the step limit",
        "diverged": "the loss or a weight was no longer finite",
        "cancelled": "cancelled",
        "timeout": "its time was up",
    }
    layer = in_heads(run.heads, run.key_width, run.key_heads)
    shape = f"{run.items} items, d_model {run.d_model}, {layer}, rule {run.rule}"
    rows = [
        ("run", run.id),
        ("shape", shape),
        ("stopped", f"{outcome.stopped} after {outcome.steps:,} steps: {ends[outcome.stopped]}"),
    ]
    if outcome.micro_f1 is not None:
        rows.append(("test F1", f"{outcome.micro_f1:.4f} over {protocol.test_contexts:,} contexts"))
    if outcome.mse is not None:
        rows.append(("test MSE", f"{outcome.mse:.4g}; predicting zero {outcome.zero_mse:.4g}"))
    if outcome.exact_errors is not None:
        rows.append(("errors", f"{outcome.exact_errors:,} of all {run.items**2:,} pairs, margin {outcome.margin:.4g}"))
    speed = f"{outcome.seconds:.3g} s, {outcome.steps_per_second:,.0f} steps/s with validation and test"
    return [*rows, ("time", f"{speed}, engine {outcome.engine}")]


def outcome_facts(outcome: Outcome) -> dict[str, object]:
    """The outcome for programs; a score that was not measured is null."""
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
