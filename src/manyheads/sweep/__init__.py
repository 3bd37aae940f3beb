"""Many runs: a store that loses nothing, a runner for any executor."""

from typing import TYPE_CHECKING

from manyheads.executors import Workers, dask, processes, threads
from manyheads.lazy import on_demand

if TYPE_CHECKING:
    from manyheads.sweep.runner import SweepProgress, sweep
    from manyheads.sweep.store.record import Record
    from manyheads.sweep.store.store import Store
    from manyheads.sweep.trainers import BlockTrainer, GroupTrainer, LayerTrainer, RetrievalTrainer, Trainer

__all__ = [
    "BlockTrainer",
    "GroupTrainer",
    "LayerTrainer",
    "Record",
    "RetrievalTrainer",
    "Store",
    "SweepProgress",
    "Trainer",
    "Workers",
    "dask",
    "processes",
    "sweep",
    "threads",
]

# Imported on demand: to read a store, the engines are not needed.
__getattr__ = on_demand(
    __name__,
    {
        "store.record": ["Record"],
        "runner": ["SweepProgress", "sweep"],
        "store.store": ["Store"],
        "trainers": ["BlockTrainer", "GroupTrainer", "LayerTrainer", "RetrievalTrainer", "Trainer"],
    },
)
