"""The full Transformer block on a frozen embedding (Sec. 7.3): its task, its runs, and how they are trained.

Training needs torch (an extra); naming runs and drawing examples does not.
"""

from typing import TYPE_CHECKING

from manyheads.lazy import on_demand

if TYPE_CHECKING:
    from manyheads.block.block_data import frozen_table, table_of, task_of
    from manyheads.block.block_outcome import Answers, BlockCheck, BlockOutcome
    from manyheads.block.block_run import BlockRun
    from manyheads.block.block_training import train_blocks
    from manyheads.block.head_roles import HeadWork, head_work
    from manyheads.block.matching_task import Examples, Task, retrieval_task

__all__ = [
    "Answers",
    "BlockCheck",
    "BlockOutcome",
    "BlockRun",
    "Examples",
    "HeadWork",
    "Task",
    "frozen_table",
    "head_work",
    "retrieval_task",
    "table_of",
    "task_of",
    "train_blocks",
]

__getattr__ = on_demand(
    __name__,
    {
        "head_roles": ["HeadWork", "head_work"],
        "block_outcome": ["Answers", "BlockCheck", "BlockOutcome"],
        "block_data": ["frozen_table", "table_of", "task_of"],
        "block_run": ["BlockRun"],
        "matching_task": ["Examples", "Task", "retrieval_task"],
        "block_training": ["train_blocks"],
    },
)
