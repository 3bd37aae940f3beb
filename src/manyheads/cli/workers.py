"""Workers of a command: threads of this machine, or a Dask cluster."""

from __future__ import annotations

from typing import TYPE_CHECKING

from manyheads.errors import InputError

if TYPE_CHECKING:
    from manyheads.sweep import Workers


def asked_workers(workers: int | None, dask_address: str | None) -> Workers:
    """What --workers and --dask ask for; not both."""
    from manyheads.sweep import dask, threads

    if dask_address is None:
        return threads(workers)
    if workers is not None:
        raise InputError("--workers does not apply: the Dask cluster has its own")
    return dask(dask_address)
