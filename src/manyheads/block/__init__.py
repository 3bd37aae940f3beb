"""The full Transformer block on a frozen embedding (Sec. 7.3): its task, its runs, and their training.

Training needs torch, an optional extra. Runs, tasks and tables do not need it.
"""

from typing import TYPE_CHECKING

from manyheads.lazy import on_demand

if TYPE_CHECKING:
    from manyheads.block.block_data import (
        MatchingExamples,
        MatchingTask,
        draw_matching_task,
        frozen_table,
        table_of,
        task_of,
    )
    from manyheads.block.block_run import Answers, BlockCheck, BlockOutcome, BlockRun
    from manyheads.block.block_training import train_blocks
    from manyheads.block.head_roles import HeadWork, head_work

__all__ = [
    "Answers",
    "BlockCheck",
    "BlockOutcome",
    "BlockRun",
    "HeadWork",
    "MatchingExamples",
    "MatchingTask",
    "draw_matching_task",
    "frozen_table",
    "head_work",
    "table_of",
    "task_of",
    "train_blocks",
]

__getattr__ = on_demand(
    __name__,
    {
        "block_data": [
            "MatchingExamples",
            "MatchingTask",
            "draw_matching_task",
            "frozen_table",
            "table_of",
            "task_of",
        ],
        "block_run": ["Answers", "BlockCheck", "BlockOutcome", "BlockRun"],
        "block_training": ["train_blocks"],
        "head_roles": ["HeadWork", "head_work"],
    },
)
