"""What a seed is for, its first word; other words than those of `training.problem` and `block.task`."""

from __future__ import annotations

from enum import IntEnum


class Purpose(IntEnum):
    """One word for each thing that is drawn."""

    DIRECTIONS = 21
    EXAMPLES = 22
    ORDER = 23
    WEIGHTS = 24
