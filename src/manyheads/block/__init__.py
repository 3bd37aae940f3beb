"""The full Transformer block on a frozen embedding (Sec. 7.3): its task, its runs, and how they are trained.

Training needs torch (an extra); naming runs and drawing examples does not.
"""

from typing import TYPE_CHECKING

from manyheads.on_demand import on_demand

if TYPE_CHECKING:
    from manyheads.block.heads import HeadWork, head_work
    from manyheads.block.outcome import Answers, BlockCheck, BlockOutcome
    from manyheads.block.problem import frozen_table, table_of, task_of
    from manyheads.block.run import BlockRun
    from manyheads.block.task import Examples, Task, retrieval_task
    from manyheads.block.train import train_blocks

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
        "heads": ["HeadWork", "head_work"],
        "outcome": ["Answers", "BlockCheck", "BlockOutcome"],
        "problem": ["frozen_table", "table_of", "task_of"],
        "run": ["BlockRun"],
        "task": ["Examples", "Task", "retrieval_task"],
        "train": ["train_blocks"],
    },
)
