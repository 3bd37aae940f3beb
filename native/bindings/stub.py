"""Write src/manyheads/_native.pyi, the types of the compiled module, from the bindings.

usage: python native/bindings/stub.py [FILE]    (needs nanobind and the compiled module)
"""

from __future__ import annotations

import importlib
import sys
from pathlib import Path

from nanobind.stubgen import StubGen

HEADER = """# Written by native/bindings/stub.py ("make stub"). Change the bindings in native/bindings, not this file.
"""
DIFFERENT = ("isa", "compiler")  # names whose values differ between builds: the stub has only their type


def stub() -> str:
    """The text of the stub, the same for every level."""
    from manyheads import _native

    generator = StubGen(importlib.import_module(f"manyheads._kernels_{_native.isa}"), quiet=True)
    generator.put(generator.module)
    lines = generator.get().splitlines()
    for name in DIFFERENT:
        at = next(n for n, line in enumerate(lines) if line.startswith(f"{name}: str"))
        lines[at] = f"{name}: str"
    return HEADER + "\n".join(lines) + "\n"


if __name__ == "__main__":
    root = Path(__file__).parents[2]
    target = Path(sys.argv[1]) if len(sys.argv) > 1 else root / "src" / "manyheads" / "_native.pyi"
    target.write_text(stub(), encoding="utf-8")
