"""The machine and the software a timing was taken on, and the memory that is free."""

from __future__ import annotations

import importlib.metadata
import os
import platform
import sys
from pathlib import Path

PACKAGES = ("manyheads", "numpy", "torch", "jax")


def machine() -> dict[str, str]:
    """CPU, cores, system, compiler of the native engine and versions."""
    from manyheads._native import compiler

    facts = {
        "cpu": processor(),
        "cores": str(cores()),
        "system": f"{platform.system()} {platform.release()}",
        "compiler": str(compiler),
        "python": platform.python_version(),
    }
    return facts | {name: found for name in PACKAGES if (found := version(name))}


def cores() -> int:
    """The number of cores that this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def free_memory() -> int:
    """Bytes that this process can still allocate: the free memory, and no more than a limit of its own leaves.

    Returns:
        Bytes, at least 0. A system that does not say counts as one with 8 GiB.
    """
    free = [_listed(Path("/proc/meminfo"), "MemAvailable:") * 1024 or 2**33]
    limit = Path("/sys/fs/cgroup/memory.max")
    if limit.is_file() and (most := limit.read_text().strip()).isdigit():
        cached = _listed(limit.parent / "memory.stat", "inactive_file ")
        free.append(int(most) - int((limit.parent / "memory.current").read_text()) + cached)
    if sys.platform != "win32":
        import resource

        soft, _ = resource.getrlimit(resource.RLIMIT_AS)
        if soft != resource.RLIM_INFINITY:
            free.append(soft - _listed(Path("/proc/self/status"), "VmSize:") * 1024)
    return max(0, min(free))


def _listed(path: Path, name: str) -> int:
    """The number after a name in a file of the system, or 0."""
    lines = path.read_text().splitlines() if path.is_file() else []
    return next((int(line.split()[1]) for line in lines if line.startswith(name)), 0)


def processor() -> str:
    """The CPU's name."""
    listed = Path("/proc/cpuinfo")
    names = (
        [line for line in listed.read_text().splitlines() if line.startswith("model name")] if listed.is_file() else []
    )
    return names[0].partition(":")[2].strip() if names else platform.processor() or platform.machine()


def version(package: str) -> str | None:
    """The installed version, or None."""
    try:
        return importlib.metadata.version(package)
    except importlib.metadata.PackageNotFoundError:
        return None
