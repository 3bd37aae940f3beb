"""`manyheads block`: a full Transformer block on a frozen embedding, several seeds at once."""

from __future__ import annotations

import time
from dataclasses import asdict, dataclass, field
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import tyro

from manyheads.block.block_run import BlockRun, Precision
from manyheads.cli.options.option_types import (
    Device,
    Flag,
    Force,
    Heads,
    Json,
    KeyWidth,
    Output,
    require_ending,
)
from manyheads.cli.options.token_options import TokenOptions
from manyheads.cli.render.answer import Answer, pairs_table, shown_files
from manyheads.errors import InputError
from manyheads.tables import in_heads

if TYPE_CHECKING:
    from collections.abc import Sequence

    from rich.console import RenderableType

    from manyheads.block.block_run import BlockCheck, BlockOutcome
    from manyheads.cli.options.token_options import FrozenRows


@dataclass(frozen=True, kw_only=True)
class BlockProtocol:
    """How a block is trained and tested."""

    context_length: int = BlockRun.context
    """Number of pairs in a context."""
    mlp_width: int = BlockRun.mlp_width
    """Width of the MLP."""
    final_norm: Flag = BlockRun.final_norm
    """A layer norm before the read-out."""
    norm_epsilon: float = BlockRun.norm_epsilon
    """The number that a layer norm adds to the variance."""
    initial_scale: float = BlockRun.initial_scale
    """Standard deviation of the first weights, times the square root of their number of inputs."""
    batch: int = BlockRun.batch
    """Examples of a step."""
    learning_rate: float = BlockRun.learning_rate
    """AdamW's step."""
    weight_decay: float = BlockRun.weight_decay
    """AdamW's weight decay."""
    beta1: float = BlockRun.beta1
    """AdamW's memory of gradients."""
    beta2: float = BlockRun.beta2
    """AdamW's decay of the mean squared gradient."""
    epsilon: float = BlockRun.epsilon
    """The number that AdamW adds to a denominator."""
    steps: int = BlockRun.steps
    """Number of steps; a run takes them all."""
    validate_every: int = BlockRun.validate_every
    """Steps between two validation checks."""
    validation_examples: int = BlockRun.validation_examples
    """Examples of a validation check."""
    test_examples: int = BlockRun.test_examples
    """Examples of the test at the end."""
    precision: Precision = BlockRun.precision
    """Precision of the matrix products; bfloat16 is for GPUs."""


@dataclass(frozen=True, kw_only=True)
class BlockCommand:
    """Train a Transformer block to find a stored successor in the context and name its partner (the paper's Sec. 7.3).

    Every example is a query q, ℓ pairs of items as the sums of their rows, and NULL. One pair holds the successor π(q)
    of a permutation that is fixed for the whole training; the answer is the successor's partner.
    """

    tokens: tyro.conf.OmitArgPrefixes[TokenOptions]
    heads: Heads
    key_width: KeyWidth
    seed: int = 0
    """The first seed. A seed decides permutation, examples, first weights and a generated embedding."""
    seeds: int = 1
    """Number of seeds, from --seed on; all are trained in one batch."""
    protocol: tyro.conf.OmitArgPrefixes[BlockProtocol] = field(default_factory=BlockProtocol)
    device: Device = "cpu"
    threads: Annotated[int | None, tyro.conf.arg(metavar="INT", help_behavior_hint="(default: the cores)")] = None
    """Threads of PyTorch on the CPU."""
    output: Output = None
    """Where to write the block (.safetensors) of the seed that validates best, for `manyheads heads`."""
    force: Force = False
    json: Json = False

    def run(self) -> Answer:
        """Read the rows, train, write; yes if every run took all its steps."""
        from manyheads.block.block_training import train_blocks
        from manyheads.cli.render.progress import status

        self._check()
        frozen = self.tokens.load()
        runs = self._runs(frozen)
        self._set_threads()
        begun = time.monotonic()
        with status("block") as line:
            outcomes = train_blocks(
                runs,
                table=frozen.table,
                device=self.device,
                progress=lambda checks: line(checks_line(runs[0], checks, time.monotonic() - begun)),
            )
        written = self._write(outcomes, frozen)
        return Answer(
            facts={
                "embedding": frozen.name,
                "runs": [block_facts(outcome) for outcome in outcomes],
                "written": written,
            },
            shown=[*shown_blocks(outcomes, frozen.name), *shown_files(written)],
            yes=all(outcome.stopped == "limit" for outcome in outcomes),
        )

    def _runs(self, frozen: FrozenRows) -> list[BlockRun]:
        constants = dict(vars(self.protocol))
        constants["context"] = constants.pop("context_length")
        return [
            BlockRun(
                items=self.tokens.items,
                heads=self.heads,
                key_width=self.key_width,
                seed=seed,
                **frozen.fields(),
                **constants,
            )
            for seed in range(self.seed, self.seed + self.seeds)
        ]

    def _check(self) -> None:
        """Refuse, before the work, files that cannot be written after it."""
        from manyheads.files import check_writable

        require_ending("--output", self.output, (".safetensors",))
        if self.output is not None:
            check_writable(self.output, force=self.force)

    def _set_threads(self) -> None:
        if self.threads is not None:
            try:
                import torch
            except ModuleNotFoundError:
                raise InputError("a block needs torch: pip install 'manyheads[torch]'") from None
            torch.set_num_threads(self.threads)

    def _write(self, outcomes: Sequence[BlockOutcome], frozen: FrozenRows) -> list[Path]:
        from manyheads.files.layer_files import TrainedBlock, write_block

        best = max(outcomes, key=lambda outcome: -1.0 if outcome.best is None else outcome.best.accuracy)
        if self.output is None or best.weights is None:
            return []
        write_block(self.output, TrainedBlock(best.run, best.weights, frozen.table, frozen.name), force=self.force)
        return [self.output]


def checks_line(run: BlockRun, checks: Sequence[BlockCheck], seconds: float) -> str:
    """A validation check of all runs in one line, and the time they still need."""
    if not checks:
        return "all runs diverged"
    step = checks[0].step
    left = timedelta(seconds=round((run.steps - step) * seconds / step))
    scores = " ".join(f"{check.accuracy:.3f}" for check in checks)
    return f"step {step:,}/{run.steps:,}, validation accuracy {scores}, {step / seconds:,.1f} steps/s, {left} left"


def shown_blocks(outcomes: Sequence[BlockOutcome], name: str) -> list[RenderableType]:
    """The block, and a row for each seed; a score that was not measured is blank."""
    from rich.table import Table

    from manyheads.cli.render.progress import strip

    run = outcomes[0].run
    reduced = f" by PCA to {run.d_model} dimensions" if run.reduction == "pca" else f", d_model {run.d_model}"
    seconds = max(outcome.seconds for outcome in outcomes)
    steps = max(outcome.steps for outcome in outcomes)
    head = [
        ("embedding", f"{name}{reduced}: {run.items:,} items and NULL"),
        ("block", f"{in_heads(run.heads, run.key_width)}, D_K {run.key_budget}, {run.context} pairs in a context"),
        ("training", f"{steps:,} steps of {run.batch} examples, rate {run.learning_rate:g}, in {seconds:.3g} s"),
    ]
    table = Table(box=None, padding=(0, 2, 0, 0))
    for heading in ("seed", "accuracy", "NULL", "best step", "ended", f"validation, 0 to 1, {run.steps:,} steps"):
        table.add_column(heading, justify="left" if heading.startswith(("validation", "ended")) else "right")
    for outcome in outcomes:
        test, best = outcome.test, outcome.best
        table.add_row(
            str(outcome.run.seed),
            f"{test.accuracy:.4f}" if test else "",
            f"{test.null_rate:.4f}" if test else "",
            f"{best.step:,}" if best else "",
            outcome.stopped,
            strip([check.accuracy for check in outcome.curve]),
        )
    return [pairs_table(head), "", table]


def block_facts(outcome: BlockOutcome) -> dict[str, object]:
    """The outcome for programs; a score that was not measured is null."""
    test, best = outcome.test, outcome.best
    return {
        "run": asdict(outcome.run) | {"id": outcome.run.id},
        "stopped": outcome.stopped,
        "steps": outcome.steps,
        "accuracy": test.accuracy if test else None,
        "null_rate": test.null_rate if test else None,
        "best": asdict(best) if best else None,
        "seconds": outcome.seconds,
        "curve": [asdict(check) for check in outcome.curve],
    }
