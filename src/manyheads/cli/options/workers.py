"""Workers of a command: threads of this machine, or a Dask cluster."""

from __future__ import annotations

from typing import TYPE_CHECKING

from manyheads.errors import InputError

if TYPE_CHECKING:
    from manyheads.sweep import Workers


def asked_workers(workers: int | None, dask_address: str | None, *, apart: bool = False) -> Workers:
    """What --workers and --dask ask for; not both. `apart` wants processes where threads would wait for each other."""
    from manyheads.sweep import dask, processes, threads

    if dask_address is None:
        return processes(workers) if apart else threads(workers)
    if workers is not None:
        raise InputError("--workers does not apply: the Dask cluster has its own")
    return dask(dask_address)
