"""Figure7: the options of `manyheads paper` that only Figure 7 has: its size, its embeddings, its device."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Annotated, Literal

import tyro

from manyheads.errors import InputError

if TYPE_CHECKING:
    from numpy import ndarray

    from manyheads.block.block_run import BlockRun
    from manyheads.papers.exhibits.block_cost import BlockCost
    from manyheads.papers.exhibits.block_setting import BlockSetting
    from manyheads.sweep import BlockTrainer

DEFAULTS = {"laptop": ("smollm2", "gaussian"), "paper": ("gpt2",)}
BY_SCALE = "(default: smollm2 gaussian; at the paper's scale gpt2)"


@dataclass(frozen=True, kw_only=True)
class Figure7:
    """A whole Transformer block, in hours or, at the paper's scale, on a GPU."""

    scale: Literal["laptop", "paper"] = "laptop"
    """Size of fig7: what two cores do in hours, or the paper's own, for a GPU."""
    embedding: Annotated[tuple[str, ...], tyro.conf.arg(metavar="NAME[:FILE] …", help_behavior_hint=BY_SCALE)] = ()
    """Embeddings of fig7: gaussian, gpt2 or smollm2, or one of these in a file, e.g. gpt2:model.safetensors."""
    device: str = "cpu"
    """Where the blocks of fig7 are trained, as PyTorch calls it."""

    def check(self, names: Sequence[str]) -> None:
        """Refuse what would change nothing."""
        from manyheads.papers import HOURS

        if set(names) & set(HOURS):
            return
        for option, given in (
            ("scale", self.scale != "laptop"),
            ("embedding", self.embedding),
            ("device", self.device != "cpu"),
        ):
            if given:
                raise InputError(f"--{option} goes with fig7")

    def setting(self) -> Chosen:
        """The size, and the tables that had to be read to know their names."""
        from manyheads.papers.exhibits.block_setting import SETTINGS
        from manyheads.papers.exhibits.block_tables import named_table

        setting = SETTINGS[self.scale]
        if setting.tables and not self.embedding:
            return Chosen(setting)
        found = [named_table(words, setting) for words in self.embedding or DEFAULTS[self.scale]]
        if len({table for table, _ in found}) < len(found):
            raise InputError("--embedding names a table twice")
        read = {table.embedding: rows for table, rows in found if rows is not None}
        return Chosen(replace(setting, tables=tuple(table for table, _ in found)), read)

    def trainers(self, chosen: Chosen, left: Sequence[BlockRun]) -> dict[str, BlockTrainer]:
        """Who trains these runs, by the embedding; a known table that has not been read is read now."""
        from manyheads.papers.exhibits.block_tables import named_table
        from manyheads.sweep import BlockTrainer

        tables: dict[str, ndarray | None] = {"gaussian": None, **chosen.tables}
        wanted = {run.embedding for run in left}
        for words in DEFAULTS[self.scale]:
            if wanted <= set(tables):
                break
            table, rows = named_table(words, chosen.setting)
            tables[table.embedding] = rows
        if unknown := wanted - set(tables):
            raise InputError(f"the table found here is not the one that Figure 7 was made with, {unknown.pop()}")
        return {name: BlockTrainer(table=rows, device=self.device) for name, rows in tables.items()}

    def tell_cost(self, left: Sequence[BlockRun], workers: int) -> None:
        """Say, before anything starts, what the runs will take here."""
        if not left:
            return
        cost = self.cost(left, workers)
        print(f"Figure 7: {len(left):,} runs of {left[0].steps:,} steps: {cost} on {self.device}", file=sys.stderr)

    def cost(self, left: Sequence[BlockRun], workers: int) -> BlockCost:
        """About what the runs will take here."""
        from importlib.util import find_spec

        from manyheads.papers.exhibits.block_cost import block_cost

        if find_spec("torch") is None:
            raise InputError("a block needs torch: install manyheads[torch]")
        return block_cost(left, device=self.device, workers=workers if self.device == "cpu" else 1)


@dataclass(frozen=True)
class Chosen:
    """A setting, and those of its tables that are already here."""

    setting: BlockSetting
    tables: dict[str, ndarray] = field(default_factory=dict)
