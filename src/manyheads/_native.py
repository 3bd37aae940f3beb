"""The compiled kernels, for the newest instruction set that this build has and this CPU can run.

`native/CMakeLists.txt` builds one extension module `_kernels_LEVEL` for each instruction set (level): `native` in a
build for one machine; `v2`, `v3` and `v4` in a wheel for x86-64; `baseline` in a wheel for another kind of CPU. This
module loads one of them and takes over its names. `isa` is the loaded level. The environment variable MANYHEADS_ISA
selects another level. The types of the names are in `_native.pyi`.
"""

from __future__ import annotations

import importlib
import os

_cpu = importlib.import_module("manyheads._cpu")


def _level() -> str:
    """The level to load.

    Raises:
        ImportError: this CPU can run no level of this build, or not the one in MANYHEADS_ISA.
    """
    wanted = os.environ.get("MANYHEADS_ISA")
    if not _cpu.supported:
        raise ImportError(f"This build of manyheads is for newer CPUs ({', '.join(_cpu.built)}): build it from source.")
    if not wanted:
        return str(_cpu.supported[-1])
    if wanted in _cpu.supported:
        return wanted
    why = "this CPU cannot run it" if wanted in _cpu.built else "this build does not have it"
    raise ImportError(f"MANYHEADS_ISA is {wanted!r}, but {why}: use one of {', '.join(_cpu.supported)}.")


_kernels = importlib.import_module(f"manyheads._kernels_{_level()}")
globals().update({name: value for name, value in vars(_kernels).items() if not name.startswith("_")})
