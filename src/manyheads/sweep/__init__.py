"""Many runs: a store that loses nothing, a runner for any executor."""

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from manyheads.sweep.executors import Workers, dask, processes, threads
    from manyheads.sweep.grids import grid
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

# Opened on demand: who only reads a store does not wait for the engines.
_HOMES = {
    "Ended": "record",
    "LayerTrainer": "trainer",
    "Progress": "runner",
    "Record": "record",
    "Store": "store",
    "Trainer": "trainer",
    "Workers": "executors",
    "dask": "executors",
    "grid": "grids",
    "processes": "executors",
    "sweep": "runner",
    "threads": "executors",
}


def __getattr__(name: str) -> object:
    if name not in _HOMES:
        raise AttributeError(f"module 'manyheads.sweep' has no attribute '{name}'")
    return getattr(import_module(f"manyheads.sweep.{_HOMES[name]}"), name)
