"""The machine and the software a timing was taken on."""

from __future__ import annotations

import importlib.metadata
import os
import platform
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
