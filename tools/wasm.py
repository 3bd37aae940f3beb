"""The engine for browsers: `python -m tools.wasm` compiles it, and `--check` sees that it is what the sources give.

The compiler is zig's clang, from the package ziglang. Its WebAssembly is committed, because ziglang is larger than
80 MB and a user who installs manyheads needs no compiler for browsers. Beside it, engine.json has the hash of the
sources, so that a test finds a change of the sources without a new build on every machine.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import subprocess
import sys
import tempfile
from importlib.metadata import version
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
ENGINE = ROOT / "src/manyheads/page/engine.wasm"
RECORD = ENGINE.with_suffix(".json")
COMPILED = ("page/page.cpp", "engine/train_float.cpp", "engine/product.cpp", "fitting/fitting_float.cpp")
OPTIONS = (
    "-target", "wasm32-wasi", "-mcpu=generic+simd128+bulk_memory", "-mexec-model=reactor", "-std=gnu++20", "-O3",
    "-ffp-contract=off", "-fno-exceptions", "-fno-rtti", "-DNDEBUG", "-I.", "-s",
)  # fmt: skip


def sources() -> list[Path]:
    """The files that the engine for browsers is compiled from: those of page/, all headers of engine/, fitting/."""
    native = ROOT / "native"
    return sorted(
        {
            *native.glob("page/*.*pp"),
            *native.glob("engine/*.hpp"),
            *native.glob("fitting/*.hpp"),
            *(native / name for name in COMPILED),
        }
    )


def fingerprint() -> str:
    """The SHA-256 of the sources and of the compiler's options."""
    digest = hashlib.sha256(json.dumps(OPTIONS).encode())
    for path in sources():
        digest.update(path.relative_to(ROOT).as_posix().encode() + b"\0" + path.read_bytes())
    return digest.hexdigest()


def compile_engine(target: Path) -> None:
    """Compile the engine. The first time, zig compiles its C++ library too: some minutes."""
    subprocess.run(
        [sys.executable, "-m", "ziglang", "c++", *OPTIONS, *COMPILED, "-o", str(target)],
        cwd=ROOT / "native",
        check=True,
    )


def record(engine: bytes) -> dict[str, str]:
    """What is known of an engine: its sources, its compiler and its own hash."""
    return {"sources": fingerprint(), "ziglang": version("ziglang"), "engine": hashlib.sha256(engine).hexdigest()}


def main() -> int:
    """Compile, and write or compare. Returns 1 if the committed engine is another one."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--check", action="store_true", help="compare with the committed engine, write nothing")
    only_check = parser.parse_args().check
    with tempfile.TemporaryDirectory() as folder:
        built = Path(folder) / "engine.wasm"
        compile_engine(built)
        engine = built.read_bytes()
    known = json.loads(RECORD.read_text()) if RECORD.exists() else {}
    if only_check and known.get("ziglang") != version("ziglang"):
        print(f"the engine was built by ziglang {known.get('ziglang')}, not {version('ziglang')}: run `make page`")
        return 1
    if only_check:
        same = engine == ENGINE.read_bytes()
        print("the engine for browsers is what its sources give" if same else "the engine is old: run `make page`")
        return 0 if same else 1
    ENGINE.write_bytes(engine)
    RECORD.write_text(json.dumps(record(engine), indent=2) + "\n")
    print(f"{ENGINE.relative_to(ROOT)}: {len(engine):,} bytes")
    return 0


if __name__ == "__main__":
    sys.exit(main())
