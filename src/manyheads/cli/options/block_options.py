"""BlockOptions: the options of `manyheads paper` for exhibits that train Transformer blocks."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from importlib.util import find_spec
from typing import TYPE_CHECKING, Annotated, Literal

import tyro

from manyheads.cli.render.answer import say
from manyheads.errors import InputError

if TYPE_CHECKING:
    from numpy import ndarray

    from manyheads.block.block_run import BlockRun
    from manyheads.papers.exhibits.block_setting import BlockCost, BlockSetting
    from manyheads.sweep import BlockTrainer

BY_SCALE = "(default: smollm2 gaussian; at the paper's scale gpt2)"


@dataclass(frozen=True, kw_only=True)
class BlockOptions:
    """Options of Figure 7, a whole Transformer block."""

    scale: Literal["laptop", "paper"] = "laptop"
    """Size of fig7: one that two cores train in hours, or the paper's own, for a GPU."""
    embedding: Annotated[tuple[str, ...], tyro.conf.arg(metavar="NAME[:FILE] …", help_behavior_hint=BY_SCALE)] = ()
    """Embeddings of fig7: gaussian, gpt2 or smollm2, or one of these in a file, e.g. gpt2:model.safetensors."""
    device: str = "cpu"
    """Device that trains the blocks of fig7, as PyTorch names it."""

    def check(self, names: Sequence[str]) -> None:
        """Refuse an option that has no effect on these exhibits.

        Raises:
            InputError: an option was given and no exhibit trains blocks.
        """
        from manyheads.papers import exhibit_named
        from manyheads.papers.exhibit import EXHIBITS

        if any("block" in exhibit_named(name).work for name in names):
            return
        given = {
            "scale": self.scale != "laptop",
            "embedding": bool(self.embedding),
            "device": self.device != "cpu",
        }
        if any(given.values()):
            option = next(option for option, is_given in given.items() if is_given)
            blocks = ", ".join(name for name in EXHIBITS if "block" in exhibit_named(name).work)
            raise InputError(f"--{option} goes with {blocks}")

    def setting(self) -> BlockSelection:
        """The size, and the tables that were read to learn their names.

        Raises:
            InputError: an unknown or repeated table, or one that cannot be read.
        """
        from manyheads.papers.exhibits.block_setting import DEFAULT_TABLES, SETTINGS, named_table

        setting = SETTINGS[self.scale]
        if setting.tables and not self.embedding:
            return BlockSelection(setting)
        found = [named_table(words, setting) for words in self.embedding or DEFAULT_TABLES[self.scale]]
        if len({table for table, _ in found}) < len(found):
            raise InputError("--embedding names a table twice")
        read = {table.embedding: rows for table, rows in found if rows is not None}
        return BlockSelection(replace(setting, tables=tuple(table for table, _ in found)), read)

    def trainers(self, chosen: BlockSelection, missing: Sequence[BlockRun]) -> dict[str, BlockTrainer]:
        """The trainers of the missing blocks, by embedding; a default table that is needed is read now.

        Raises:
            InputError: a run needs a table that is not available.
        """
        from manyheads.papers.exhibits.block_setting import DEFAULT_TABLES, named_table
        from manyheads.sweep import BlockTrainer

        tables: dict[str, ndarray | None] = {"gaussian": None, **chosen.tables}
        wanted = {run.embedding for run in missing}
        for words in DEFAULT_TABLES[self.scale]:
            if wanted <= set(tables):
                break
            table, rows = named_table(words, chosen.setting)
            tables[table.embedding] = rows
        if unknown := wanted - set(tables):
            raise InputError(f"the table found here is not the one that Figure 7 was made with, {unknown.pop()}")
        return {name: BlockTrainer(table=rows, device=self.device) for name, rows in tables.items()}

    def tell_cost(self, missing: Sequence[BlockRun], workers: int) -> None:
        """Print an estimate of the cost before the training starts."""
        if not missing:
            return
        cost = self.cost(missing, workers)
        say(f"Figure 7: {len(missing):,} runs of {missing[0].steps:,} steps: {cost} on {self.device}")

    def cost(self, missing: Sequence[BlockRun], workers: int) -> BlockCost:
        """The cost of these runs here, from a few timed steps.

        Raises:
            InputError: torch is not installed.
        """
        from manyheads.papers.exhibits.block_setting import block_cost

        if find_spec("torch") is None:
            raise InputError("a block needs torch: pip install 'manyheads[torch]'")
        return block_cost(missing, device=self.device, workers=workers if self.device == "cpu" else 1)


@dataclass(frozen=True)
class BlockSelection:
    """A setting, and the rows of those of its tables that were read."""

    setting: BlockSetting
    tables: dict[str, ndarray] = field(default_factory=dict)
