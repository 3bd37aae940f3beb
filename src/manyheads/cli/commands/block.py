"""`manyheads block`: a full Transformer block on a frozen embedding, several seeds at once."""

from __future__ import annotations

import time
from dataclasses import asdict, dataclass, field
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import tyro

from manyheads.block.block_run import BlockRun, Precision
from manyheads.cli.options.frozen_table import FrozenTable
from manyheads.cli.render.answer import Answer, Flag
from manyheads.errors import InputError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from rich.console import RenderableType

    from manyheads.block.block_run import BlockCheck, BlockOutcome
    from manyheads.cli.options.frozen_table import Frozen

STRIP = 30  # characters of a curve


@dataclass(frozen=True, kw_only=True)
class BlockProtocol:
    """How a block is trained and tested."""

    context: int = BlockRun.context
    """Pairs in a context."""
    mlp_width: int = BlockRun.mlp_width
    """Width of the MLP."""
    final_norm: Flag = BlockRun.final_norm
    """A layer norm before the read-out."""
    norm_epsilon: float = BlockRun.norm_epsilon
    """The layer norms' guard against division by nothing."""
    initial_scale: float = BlockRun.initial_scale
    """Standard deviation of the first weights, times the root of what each sums over."""
    batch: int = BlockRun.batch
    """Examples of a step."""
    learning_rate: float = BlockRun.learning_rate
    """AdamW's step."""
    weight_decay: float = BlockRun.weight_decay
    """AdamW's decay of the weights."""
    beta1: float = BlockRun.beta1
    """AdamW's memory of gradients."""
    beta2: float = BlockRun.beta2
    """AdamW's memory of their squares."""
    epsilon: float = BlockRun.epsilon
    """AdamW's guard against division by nothing."""
    steps: int = BlockRun.steps
    """Steps, all of which are taken."""
    validate_every: int = BlockRun.validate_every
    """Steps from one validation check to the next."""
    validation_examples: int = BlockRun.validation_examples
    """Examples of a validation check."""
    test_examples: int = BlockRun.test_examples
    """Examples of the test at the end."""
    precision: Precision = BlockRun.precision
    """Of the products; bfloat16 is for GPUs."""


@dataclass(frozen=True, kw_only=True)
class Block:
    """Train a Transformer block to find a stored successor in the context and name its partner (the paper's Sec. 7.3).

    Every example is a query q, ℓ pairs of items as the sums of their rows, and NULL. One pair holds the successor π(q)
    of a permutation that is fixed for the whole training; the answer is the successor's partner.
    """

    table: tyro.conf.OmitArgPrefixes[FrozenTable]
    heads: int
    """Number of heads; d_model must be divisible by it, for the values."""
    key_width: int
    """Width of each head's queries and keys."""
    seeds: Annotated[tuple[int, ...], tyro.conf.arg(metavar="INT [INT …]")]
    """Seeds of permutation, examples, first weights and a drawn embedding; all are trained side by side."""
    protocol: tyro.conf.OmitArgPrefixes[BlockProtocol] = field(default_factory=BlockProtocol)
    device: str = "cpu"
    """Where it is trained, as PyTorch calls it."""
    threads: Annotated[int | None, tyro.conf.arg(metavar="INT", help_behavior_hint="(default: the cores)")] = None
    """Threads of PyTorch on the CPU."""
    output: Annotated[Path | None, tyro.conf.arg(metavar="FILE", aliases=("-o",), help_behavior_hint="")] = None
    """Where to write the block (.safetensors) of the seed that validates best, for `manyheads heads`."""
    force: Flag = False
    """Overwrite files that exist."""
    json: Flag = False
    """Print JSON instead of a table."""

    def run(self) -> Answer:
        """Read the table, train, write, tell."""
        from manyheads.block.block_training import train_blocks
        from manyheads.cli.render.certificate_table import shown_files
        from manyheads.cli.render.progress_line import status

        self._check()
        frozen = self.table.load()
        runs = [
            BlockRun(
                items=self.table.items,
                heads=self.heads,
                key_width=self.key_width,
                seed=seed,
                **frozen.fields(),
                **vars(self.protocol),
            )
            for seed in self.seeds
        ]
        self._set_threads()
        begun = time.monotonic()
        with status("block") as line:
            outcomes = train_blocks(
                runs,
                table=frozen.table,
                device=self.device,
                progress=lambda checks: line(standing(runs[0], checks, time.monotonic() - begun)),
            )
        written = self._write(outcomes, frozen)
        return Answer(
            facts={
                "embedding": frozen.name,
                "runs": [facts(outcome) for outcome in outcomes],
                "written": [str(path) for path in written],
            },
            shown=[*shown(outcomes, frozen.name), *shown_files(written)],
            yes=all(outcome.stopped == "limit" for outcome in outcomes),
        )

    def _check(self) -> None:
        """Refuse before the work what it could not end with."""
        from manyheads.files import check_writable

        if len(set(self.seeds)) < len(self.seeds) or not self.seeds:
            raise InputError("--seeds are at least one, and none twice")
        if self.threads is not None and self.threads < 1:
            raise InputError(f"--threads is at least 1, not {self.threads}")
        if self.output is not None:
            if self.output.suffix != ".safetensors":
                raise InputError(f"--output must end in .safetensors, not as {self.output.name!r} does")
            check_writable(self.output, force=self.force)

    def _set_threads(self) -> None:
        if self.threads is not None:
            try:
                import torch
            except ModuleNotFoundError:
                raise InputError("a block needs torch: install manyheads[torch]") from None
            torch.set_num_threads(self.threads)

    def _write(self, outcomes: Sequence[BlockOutcome], frozen: Frozen) -> list[Path]:
        from manyheads.files.block_files import TrainedBlock, write_block

        best = max(outcomes, key=lambda outcome: -1.0 if outcome.best is None else outcome.best.accuracy)
        if self.output is None or best.weights is None:
            return []
        write_block(self.output, TrainedBlock(best.run, best.weights, frozen.table, frozen.name), force=self.force)
        return [self.output]


def standing(run: BlockRun, checks: Sequence[BlockCheck], seconds: float) -> str:
    """Where the runs stand at a check, and the time they still need."""
    if not checks:
        return "all runs diverged"
    step = checks[0].step
    left = timedelta(seconds=round((run.steps - step) * seconds / step))
    scores = " ".join(f"{check.accuracy:.3f}" for check in checks)
    return f"step {step:,}/{run.steps:,}, validation accuracy {scores}, {step / seconds:,.1f} steps/s, {left} left"


def shown(outcomes: Sequence[BlockOutcome], name: str) -> list[RenderableType]:
    """What was trained, and a line for each seed; what was not measured is left blank."""
    from rich.table import Table

    from manyheads.cli.render.certificate_table import in_heads, pairs_table

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


def strip(values: Sequence[float]) -> str:
    """A curve between 0 and 1 in one line; of a long one, the last of each stretch."""
    from manyheads.cli.render.measure_display import BLOCKS

    cells = min(STRIP, len(values))
    last = [values[(cell + 1) * len(values) // cells - 1] for cell in range(cells)]
    return "".join(BLOCKS[1 + min(7, int(8 * value))] for value in last)


def facts(outcome: BlockOutcome) -> dict[str, object]:
    """The outcome for machines; what was not measured is null."""
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
