"""core_map: apply a function to many arguments on all cores. While numpy computes, other threads of Python run."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextvars import copy_context
from typing import TypeVar

from manyheads.certificate.projection import require_subnormals
from manyheads.machine import cores

Part = TypeVar("Part")
Result = TypeVar("Result")


def core_map(work: Callable[[Part], Result], parts: Sequence[Part]) -> Iterator[Result]:
    """Apply `work` to each part. The results and their order do not depend on the number of cores.

    Args:
        work: A function that may run on several threads at a time.
        parts: Its arguments. Results are computed ahead: at most one for each core, and one more.

    Yields:
        The result of each part.

    Raises:
        InputError: A thread replaces subnormal numbers by zero.
    """
    count = min(cores(), len(parts))
    if count <= 1:
        yield from map(work, parts)
        return

    def checked(part: Part) -> Result:
        require_subnormals()  # each thread has its own mode
        return work(part)

    waiting: deque[Future[Result]] = deque()
    threads = ThreadPoolExecutor(count)
    try:
        for part in parts:
            if len(waiting) > count:
                yield waiting.popleft().result()
            waiting.append(threads.submit(copy_context().run, checked, part))
        while waiting:
            yield waiting.popleft().result()
    finally:
        threads.shutdown(cancel_futures=True)
