"""Executors of sweeps and searches: threads of this process, processes of this machine, workers of a Dask cluster.

A task asks its `stop_signal` from time to time whether it should end. Threads read a flag, workers of Dask read their
state, and processes are terminated.
"""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Callable, Iterator
from concurrent.futures import Executor, ProcessPoolExecutor, ThreadPoolExecutor
from contextlib import contextmanager, suppress
from multiprocessing import get_context, parent_process
from threading import Event, Thread
from types import TracebackType
from typing import TYPE_CHECKING

from manyheads.errors import InputError
from manyheads.machine import cores

if TYPE_CHECKING:
    from distributed import Client

CONNECT_SECONDS = 5
ABSENT_SECONDS = 60.0  # seconds that a cluster may be without workers
DASK_LOGS = ("distributed", "distributed.client", "tornado", "tornado.application", "asyncio")

# The stop flags of the tasks of this process, by the token of a task or of a group of tasks.
_stops: dict[str, Event] = {}


@contextmanager
def stoppable(token: str) -> Iterator[Event]:
    """The flag that stops the threads whose tasks have this token."""
    _stops[token] = Event()
    try:
        yield _stops[token]
    finally:
        del _stops[token]


def stop_signal(token: str) -> Callable[[], bool]:
    """The function that a task of this token calls: it returns True when the task should end."""
    if token in _stops:
        return _stops[token].is_set
    if "distributed" in sys.modules:
        from distributed.worker import get_worker, thread_state

        try:
            tasks, key = get_worker().state.tasks, thread_state.key
        except (ValueError, AttributeError):  # this is not the thread of a Dask worker
            return lambda: False
        # Dask cannot interrupt a running task, but records on the worker that the task was cancelled
        return lambda: key not in tasks or tasks[key].state == "cancelled"
    return lambda: False


class Workers:
    """An executor. Several sweeps and searches use it; it is replaced after a task has killed one of its workers.

    Args:
        make: Makes the executor.
        slots: The number of tasks that it runs at once.
        together: Whether several short runs are sent in one unit, because a unit costs more than a function call.
        present: Whether there are workers at the moment.
        release: Called at the end.
    """

    def __init__(
        self,
        make: Callable[[], Executor],
        slots: int,
        *,
        together: bool,
        present: Callable[[], bool] = lambda: True,
        release: Callable[[], None] = lambda: None,
    ) -> None:
        self.slots, self.together, self.present = slots, together, present
        self._make, self._release = make, release
        self._executor: Executor | None = None

    @property
    def executor(self) -> Executor:
        """The executor, made at its first use."""
        if self._executor is None:
            self._executor = self._make()
        return self._executor

    def discard(self) -> None:
        """End worker processes now; threads stop by their flag. The next sweep finds a new executor."""
        executor, self._executor = self._executor, None
        processes = list((getattr(executor, "_processes", None) or {}).values())
        if executor is not None:
            with suppress(Exception):  # a Dask client that lost its scheduler cannot shut down
                executor.shutdown(wait=False)
        for process in processes:
            with suppress(OSError, ValueError):
                process.terminate()
        for process in processes:
            process.join(timeout=1)

    def close(self) -> None:
        """End the workers after their last run."""
        if self._executor is not None:
            with suppress(Exception):
                self._executor.shutdown()
            self._executor = None
        with suppress(Exception):
            self._release()

    def __enter__(self) -> Workers:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


class CallerExecutor(Workers):
    """An executor that the caller made and will end. If it breaks it is not replaced."""

    def __init__(self, executor: Executor) -> None:
        super().__init__(lambda: executor, cores(), together=not isinstance(executor, ThreadPoolExecutor))

    def discard(self) -> None:
        """Keep it, unless it is broken."""
        if getattr(self._executor, "_broken", False):
            raise InputError(
                "a task killed a worker of the given executor, which cannot be replaced: `processes()` can"
            )

    def close(self) -> None:
        """Leave it open."""


def threads(count: int | None = None) -> Workers:
    """Threads of this process. The native engine releases the interpreter's lock, so threads use all cores.

    Args:
        count: The number of threads; None: the number of usable cores.

    Returns:
        The workers.

    Raises:
        InputError: The number is below 1.
    """
    slots = _count(count)
    return Workers(lambda: ThreadPoolExecutor(slots), slots, together=False)


def processes(count: int | None = None) -> Workers:
    """Processes of this machine. A run that crashes ends its own process only.

    Args:
        count: The number of processes; None: the number of usable cores.

    Returns:
        The workers.

    Raises:
        InputError: The number is below 1.
    """
    slots = _count(count)
    # spawn: a forked child would inherit the locks of the parent's threads and its open store
    spawn = get_context("spawn")
    return Workers(lambda: ProcessPoolExecutor(slots, mp_context=spawn, initializer=_as_worker), slots, together=True)


def dask(address: str) -> Workers:
    """The workers of a Dask cluster.

    Args:
        address: The address of the scheduler, e.g. tcp://host:8786.

    Returns:
        The workers.

    Raises:
        InputError: Dask is not installed, no scheduler answers, or the scheduler has no workers.
    """
    try:
        _quieten_dask()
        from asyncio import run

        from distributed import Client
    except ImportError:
        raise InputError("Dask is not installed: pip install 'manyheads[cluster]'") from None
    try:
        with ThreadPoolExecutor(1) as thread:  # the thread of the caller may have an event loop, as in a notebook
            thread.submit(run, _ask_scheduler(address)).result()
        client = Client(address, timeout=CONNECT_SECONDS, set_as_default=False)
    except Exception as error:  # each protocol of Dask has errors of its own
        raise InputError(f"no Dask scheduler answers at {address} ({type(error).__name__})") from None
    slots = sum(client.nthreads().values())
    if not slots:
        client.close()
        raise InputError(f"the Dask scheduler at {address} has no workers")
    return Workers(
        lambda: client.get_executor(pure=False, retries=0),
        slots,
        together=True,
        present=lambda: _has_workers(client),
        release=client.close,
    )


async def _ask_scheduler(address: str) -> None:
    """Raise an error unless a scheduler answers.

    A client of Dask waits for ever where something else answers, and complains later where its address is wrong.
    """
    from asyncio import wait_for

    from distributed import Security
    from distributed.comm import connect
    from distributed.core import send_recv

    async def ask() -> None:
        comm = await connect(address, timeout=CONNECT_SECONDS, **Security().get_connection_args("client"))
        answer = await send_recv(comm, op="identity")
        comm.abort()
        if answer["type"] != "Scheduler":
            raise TypeError(f"a {answer['type']} answers")

    await wait_for(ask(), CONNECT_SECONDS + 1)


def _has_workers(client: Client) -> bool:
    try:
        return client.status == "running" and bool(client.nthreads())
    except Exception:  # the scheduler was lost at this moment
        return False


def _quieten_dask() -> None:
    """Keep Dask's log off the screen: a sweep or a search has its own message for a lost cluster.

    Nothing changes if the caller uses Dask already or has settings of its own (such as DASK_LOGGING__DISTRIBUTED=info).
    """
    import dask

    if "distributed" not in sys.modules and not dask.config.get("logging", None):
        dask.config.set({"logging": dict.fromkeys(DASK_LOGS, "critical")})


def _count(count: int | None) -> int:
    if count is not None and count < 1:
        raise InputError(f"at least one worker is needed, not {count}")
    return count or cores()


def _as_worker() -> None:
    """Ignore Ctrl-C, which the parent handles; end if the parent was killed."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    Thread(target=_end_with_parent, daemon=True).start()


def _end_with_parent() -> None:
    parent = parent_process()
    if parent is not None:
        parent.join()
        os._exit(1)  # a run in native code does not react to a weaker signal
