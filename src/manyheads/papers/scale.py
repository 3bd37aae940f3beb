"""Scale: how much of the paper's own effort a reproduction makes."""

from __future__ import annotations

from dataclasses import dataclass

from manyheads.errors import InputError
from manyheads.papers.exhibits.block_setting import LAPTOP, BlockSetting

LARGEST = ((2048, 256), (4096, 512))  # "3 seeds for the largest points" (Sec. 6.1), read as these two


@dataclass(frozen=True)
class Scale:
    """Seeds, sizes and step limits; the defaults are the paper's own, `quick` is a sketch of it in minutes."""

    seeds: int | None = None  # None: as many as the paper has at each point
    up_to: int | None = None  # the most items of a panel; larger ones are left out, and named
    steps: int | None = None  # None: Table 2's limits
    quick: bool = False
    block: BlockSetting = LAPTOP  # of Figure 7

    def __post_init__(self) -> None:
        for name, least in (("seeds", 2), ("up_to", 64), ("steps", 1)):
            value = getattr(self, name)
            if value is not None and value < least:
                raise InputError(f"{name.replace('_', '-')} must be at least {least}, not {value}")

    @property
    def most_items(self) -> int:
        """Panels with more items are not run."""
        return self.up_to or (512 if self.quick else 4096)

    def seeds_at(self, items: int, d_model: int, *, paper: int = 10) -> range:
        """The seeds of one panel, where the paper has `paper` of them but for its largest points."""
        if self.seeds is not None:
            return range(self.seeds)
        return range(3 if self.quick or (items, d_model) in LARGEST else paper)

    def limit(self, paper: int) -> int:
        """The step limit, where the paper's is this."""
        return self.steps or (min(paper, 20_000) if self.quick else paper)
