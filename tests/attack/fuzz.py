"""Coverage-guided fuzzing of the readers, with atheris (pip install atheris; it is not part of the dev extra).

python -m attack.fuzz 60                prints counts as JSON: each target for 60 s; exit code 1 after any finding
python -m attack.fuzz 60 --target gguf  one target

libFuzzer changes the bytes of good files and keeps the changes that reach new lines of manyheads. JSON is changed as
JSON in every second turn, so that it stays JSON. A finding is an error
that is no InputError, a message that is not one plain sentence, a guarded file that is read as another value, more than
5 s of CPU time, or more than 500 MB above the start. The input of a finding is kept in the directory of --keep.
"""

from __future__ import annotations

import argparse
import contextlib
import gzip
import json
import os
import re
import sqlite3
import subprocess
import sys
import tempfile
import time
import warnings
from collections import Counter
from collections.abc import Callable
from importlib import import_module
from importlib.util import find_spec, spec_from_file_location
from pathlib import Path
from typing import Any

SECONDS = 5
MEMORY = 500  # megabytes above the start
LENGTH = 4096  # the longest input, in bytes
ROOT = Path(__file__).parents[2]
TARGETS = ("graph", "npy", "safetensors", "layer", "gguf", "config", "labels", "rows", "store")
JSON = ("safetensors", "layer", "config", "labels", "store")
Read = Callable[[bytes], object]


def raw(title: str) -> tuple[bytes, Read]:
    """A kind of the attack on files, as it is: a good file, and its reading. A guarded file must be read equal."""
    from attack.kinds import KINDS, fingerprint

    kind = next(one for one in KINDS if one.title == title)
    path = Path(kind.name)
    path.unlink(missing_ok=True)
    kind.write(path)
    good, before = path.read_bytes(), fingerprint(kind.read(path))

    def read(content: bytes) -> None:
        path.write_bytes(content)
        if fingerprint(kind.read(path)) != before and kind.guarded(content):
            raise AssertionError("a guarded file is read as another value")

    return good, read


def in_header() -> tuple[bytes, Read]:
    """The header of a safetensors file, with its right length."""
    content, read = raw("model.safetensors")
    stop = 8 + int.from_bytes(content[:8], "little")
    return content[8:stop], lambda header: read(len(header).to_bytes(8, "little") + header + content[stop:])


def in_metadata() -> tuple[bytes, Read]:
    """The metadata of a layer with labels and a certificate, with a right checksum."""
    from attack.kinds import _show_layer, write_certified_file

    from manyheads.files import read_layer
    from manyheads.files.safetensors_files import CHECKSUM, pack_tensors

    path = Path("layer.safetensors")
    path.unlink(missing_ok=True)
    write_certified_file(path)
    layer = read_layer(path)
    content = path.read_bytes()
    metadata = json.loads(content[8 : 8 + int.from_bytes(content[:8], "little")])["__metadata__"]
    metadata.pop(CHECKSUM)

    def read(text: bytes) -> None:
        try:
            fields = json.loads(text)
            path.write_bytes(
                pack_tensors(
                    {"query": layer.query, "key": layer.key}, {str(name): str(fields[name]) for name in fields}
                )
            )
        except (ValueError, TypeError, IndexError, RecursionError):
            return  # this text is no metadata: nothing is read
        _show_layer(path)

    return json.dumps(metadata).encode(), read


def in_gzip() -> tuple[bytes, Read]:
    """The text of a file of rows."""
    content, read = raw("rows.jsonl.gz, in the gzip")
    return gzip.decompress(content), lambda text: read(gzip.compress(text, 1, mtime=0))


def in_row() -> tuple[bytes, Read]:
    """A row of a store with a right checksum, and with the right id unless the input has the field `id`."""
    import hashlib

    from attack.stores import answer, make_store

    from manyheads.sweep import Store
    from manyheads.sweep.store.integrity import row_checksum
    from manyheads.sweep.store.record import COLUMNS
    from manyheads.sweep.store.table_export import _csv, as_row

    path = Path("store.db")
    record = make_store(path, seeds=1)[0]
    content = path.read_bytes()
    row = dict(zip(COLUMNS, record.columns(), strict=True)) | {"run": record.run, "scores": record.scores}
    row.pop("id")

    def read(text: bytes) -> None:
        path.write_bytes(content)
        try:
            fields = json.loads(text)
            for name in ("run", "scores"):
                if not isinstance(fields[name], str):
                    fields[name] = json.dumps(fields[name])
            fields = {"id": hashlib.sha256(fields["run"].encode()).hexdigest()[:16]} | fields
            values = [fields[name] for name in COLUMNS]
            connection = sqlite3.connect(path, isolation_level=None)
            try:
                connection.execute("PRAGMA synchronous = OFF")
                connection.execute("PRAGMA journal_mode = MEMORY")
                names = ", ".join(f"{name} = ?" for name in (*COLUMNS, "checksum"))
                where = "WHERE rowid = (SELECT min(rowid) FROM results)"
                connection.execute(f"UPDATE results SET {names} {where}", (*values, row_checksum(values)))
            finally:
                connection.close()
        except (ValueError, TypeError, KeyError, AttributeError, OverflowError, RecursionError, sqlite3.Error):
            return  # SQLite or the types of its columns refuse this row
        with Store.read(path) as store:
            records = store.records()
        answer(records)
        _csv([as_row(one) for one in records])

    return json.dumps(row).encode(), read


MAKERS: dict[str, Callable[[], tuple[bytes, Read]]] = {
    "graph": lambda: raw("named.csv"),
    "npy": lambda: raw("rows.npy"),
    "safetensors": in_header,
    "layer": in_metadata,
    "gguf": lambda: raw("model.gguf"),
    "config": lambda: raw("config.json"),
    "labels": lambda: raw("vocabulary.json"),
    "rows": in_gzip,
    "store": in_row,
}


class PlainLoader:
    """Finds the modules of an editable installation with Python's own loader: atheris instruments no other."""

    def find_spec(self, name: str, path: Any = None, target: Any = None) -> Any:
        specs = (one.find_spec(name, path, target) for one in sys.meta_path if one is not self and is_editable(one))
        spec = next((one for one in specs if one is not None), None)
        if spec is None or not str(spec.origin).endswith(".py"):
            return None
        return spec_from_file_location(name, spec.origin, submodule_search_locations=spec.submodule_search_locations)


def is_editable(finder: Any) -> bool:
    """Whether this finder of modules was made by an editable installation."""
    return "editable" in type(finder).__module__


def fuzz(target: str, seconds: int, directory: Path) -> None:
    """Fuzz one target in this process, which libFuzzer ends."""
    atheris: Any = import_module("atheris")  # optional, and without types
    sys.meta_path.insert(0, PlainLoader())
    sys.path[:0] = [str(ROOT), str(ROOT / "tests")]
    with atheris.instrument_imports(include=["manyheads"]):
        import numpy as np
        from attack.kinds import prepare
        from attack.mutators import mutate_json

        from manyheads import InputError
        from manyheads.text import HOSTILE

        os.chdir(directory)
        warnings.simplefilter("ignore")
        prepare(directory)
        good, read = MAKERS[target]()
        read(good)

    def one(content: bytes) -> None:
        begun = time.process_time()
        try:
            read(content)
        except InputError as error:
            if isinstance(error.__cause__, MemoryError) or len(str(error)) > 2_100 or HOSTILE.search(str(error)):
                raise AssertionError(f"not one plain sentence: {str(error)[:200]!r}") from error
        if (used := time.process_time() - begun) > SECONDS:
            raise AssertionError(f"{used:.1f} s of CPU time")

    (directory / "corpus").mkdir()
    (directory / "corpus" / "good").write_bytes(good)
    _write_words(directory / "words")
    used = int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE") // 2**20
    options = {
        "max_total_time": seconds, "max_len": max(LENGTH, 2 * len(good)), "timeout": 20 * SECONDS, "dict": "words",
        "rss_limit_mb": used + MEMORY, "artifact_prefix": "finding-", "seed": 1, "verbosity": 1, "print_final_stats": 1,
    }  # fmt: skip

    def change(content: bytes, most: int, seed: int) -> bytes:
        if seed % 2:
            with contextlib.suppress(ValueError, RecursionError):
                return mutate_json(content, np.random.default_rng(seed))[:most]
        return bytes(atheris.Mutate(content, most))

    words = [sys.argv[0], *(f"-{name}={value}" for name, value in options.items()), "corpus"]
    atheris.Setup(words, one, **({"custom_mutator": change} if target in JSON else {}))
    atheris.Fuzz()


def _write_words(path: Path) -> None:
    """The hostile words of the mutators, in the form of libFuzzer's dictionaries."""
    from attack.mutators import WORDS

    escaped = ["".join(f"\\x{byte:02x}" for byte in word) for word in WORDS if len(word) <= 64]
    path.write_text("".join(f'"{word}"\n' for word in escaped))


def run_child(target: str, seconds: int, keep: Path | None = None) -> tuple[Counter[str], str]:
    """Fuzz one target in a child. Returns its executions and findings, and the text of a finding."""
    search = os.pathsep.join([str(ROOT), str(ROOT / "tests"), os.environ.get("PYTHONPATH", "")])
    with tempfile.TemporaryDirectory() as directory:
        done = subprocess.run(
            [sys.executable, "-m", "attack.fuzz", str(seconds), "--target", target, "--child", directory],
            capture_output=True,
            text=True,
            errors="replace",
            cwd=ROOT,
            env=os.environ | {"PYTHONPATH": search},
        )
        runs = re.search(r"stat::number_of_executed_units:\s*(\d+)", done.stderr)
        kept = [path for path in Path(directory).glob("finding-*") if not path.name.startswith("finding-slow-unit")]
        if keep is not None:
            for path in kept:
                (keep / f"{target}-{path.name}").write_bytes(path.read_bytes())
    counts = Counter({"executions": int(runs[1]) if runs else 0})
    is_guided = "no interesting inputs were found" not in done.stderr  # else no line of manyheads was instrumented
    if done.returncode or kept or not runs or not is_guided:
        counts["failed"] += 1
        return counts, f"{target}: exit code {done.returncode}\n{done.stderr[-3000:]}"
    return counts, ""


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("seconds", type=int, help="the time of each target")
    parser.add_argument("--target", choices=TARGETS, help="only this reader; without it, all")
    parser.add_argument("--number", type=int, help="only the reader of this number")
    parser.add_argument("--keep", type=Path, help="a directory for the inputs of findings")
    parser.add_argument("--child", type=Path, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if find_spec("atheris") is None:
        print("atheris is not installed: pip install atheris", file=sys.stderr)
        return 2
    if options.child is not None:
        fuzz(options.target, options.seconds, options.child)
        return 0
    found, errors = {}, []
    targets = [options.target] if options.target else TARGETS
    for target in targets if options.number is None else targets[options.number : options.number + 1]:
        found[target], error = run_child(target, options.seconds, options.keep)
        errors += [error] if error else []
    print("\n".join(errors), file=sys.stderr, end="")
    print(json.dumps(found))
    return int(bool(errors))


if __name__ == "__main__":
    sys.exit(main())
