"""Many runs: a store that loses nothing, a runner for any executor."""

from typing import TYPE_CHECKING

from manyheads.lazy import on_demand

if TYPE_CHECKING:
    from manyheads.sweep.block_trainer import BlockTrainer
    from manyheads.sweep.executors import Workers, dask, processes, threads
    from manyheads.sweep.grids import grid
    from manyheads.sweep.retrieval_trainer import RetrievalTrainer
    from manyheads.sweep.runner import SweepProgress, sweep
    from manyheads.sweep.store.record import Ended, Record
    from manyheads.sweep.store.store import Store
    from manyheads.sweep.trainer import GroupTrainer, LayerTrainer, Trainer

__all__ = [
    "BlockTrainer",
    "Ended",
    "GroupTrainer",
    "LayerTrainer",
    "Record",
    "RetrievalTrainer",
    "Store",
    "SweepProgress",
    "Trainer",
    "Workers",
    "dask",
    "grid",
    "processes",
    "sweep",
    "threads",
]

# Opened on demand: who only reads a store does not wait for the engines.
__getattr__ = on_demand(
    __name__,
    {
        "block_trainer": ["BlockTrainer"],
        "executors": ["Workers", "dask", "processes", "threads"],
        "grids": ["grid"],
        "store.record": ["Ended", "Record"],
        "runner": ["SweepProgress", "sweep"],
        "retrieval_trainer": ["RetrievalTrainer"],
        "store.store": ["Store"],
        "trainer": ["GroupTrainer", "LayerTrainer", "Trainer"],
    },
)
