"""Many runs: a store that loses nothing, a runner for any executor."""

from manyheads.sweep.executors import Workers, dask, processes, threads
from manyheads.sweep.grid import grid
from manyheads.sweep.record import Ended, Record
from manyheads.sweep.runner import Progress, sweep
from manyheads.sweep.store import Store
from manyheads.sweep.trainer import LayerTrainer, Trainer

__all__ = [
    "Ended",
    "LayerTrainer",
    "Progress",
    "Record",
    "Store",
    "Trainer",
    "Workers",
    "dask",
    "grid",
    "processes",
    "sweep",
    "threads",
]
