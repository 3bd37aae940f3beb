"""BlockTrainer: Transformer blocks through the same sweep and store as every other run."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import astuple, dataclass
from importlib.util import find_spec

from jaxtyping import Float
from numpy import ndarray

from manyheads.block.block_data import table_refusal
from manyheads.block.block_run import BlockRun
from manyheads.block.block_training import train_blocks
from manyheads.errors import InputError
from manyheads.sweep.store.record import Ended


@dataclass(frozen=True, eq=False)
class BlockTrainer:
    """Trains `block.BlockRun`s; the table is for runs that name a given one by its fingerprint."""

    table: Float[ndarray, "rows d_model"] | None = None
    device: str = "cpu"
    threads: int = 1  # of a run on the CPU: a sweep fills the cores with runs

    @property
    def kind(self) -> str:
        """A whole block."""
        return "block"

    @property
    def engine(self) -> str:
        """The folded block; another kind of device rounds otherwise."""
        return f"folded-{self.device.partition(':')[0]}"

    def refusal(self, run: BlockRun) -> str | None:
        """Torch and its device must be here, and the table the one that the run names."""
        if find_spec("torch") is None:
            return "a block needs torch: install manyheads[torch]"
        from manyheads.training.batched_runs import device_named

        try:
            device_named(self.device)
        except InputError as error:
            return str(error)
        return table_refusal(run, self.table)

    def train(self, run: BlockRun, *, time_limit: float | None, keep_going: Callable[[], bool]) -> Ended:
        """Train one run."""
        import torch

        # not set back afterwards: runs beside this one would change their threads, and with them their rounding
        torch.set_num_threads(self.threads)
        (outcome,) = train_blocks(
            [run], table=self.table, device=self.device, time_limit=time_limit, keep_going=keep_going
        )
        test, best = outcome.test, outcome.best
        scores = {
            "accuracy": test.accuracy if test else None,
            "null_rate": test.null_rate if test else None,
            "best_validation": best.accuracy if best else None,
            "best_step": best.step if best else None,
        }
        curve = [astuple(check) for check in outcome.curve]
        return Ended(outcome.stopped, scores, outcome.steps, outcome.seconds, curve)
