"""Install a wheel in an environment of its own, without torch, outside this repository, and run every command.

usage: python tests/project/installed_wheel.py INTERPRETER WHEEL    (run by tools/wheels.sh)

A command that needs an extra must name that extra, end with exit code 2 and write nothing.
"""

import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

MAKE_LAYER = (
    "fit --graph permutation:24 --embedding gaussian:12 --heads 2 --key-width 5"
    " --save-graph g.csv --save-embedding e.npy -o l.safetensors"
)
# (words, exit code, a part of the output)
CASES = [
    ("--version", 0, "manyheads "),
    ("--help", 0, "certify"),
    (MAKE_LAYER, 0, "holds"),
    ("compile --graph permutation:16 --embedding one-hot --construction one-hot -o c.safetensors", 0, "holds"),
    ("certify l.safetensors --graph g.csv --embedding e.npy", 0, "holds"),
    ("exclude --graph permutation:24 --embedding gaussian:6", 0, "impossible"),
    ("attend l.safetensors 0 1 2 --embedding e.npy", None, "0"),
    ("export l.safetensors exported --to torch", 0, "exported"),
    ("train --graph permutation:16 --embedding gaussian:8 --heads 2 --key-width 4 --seed 0 --steps 200", None, "F1"),
    (
        "measure --graph permutation:24 --embedding gaussian:12 --heads 1,2 --seeds 1 --steps 2000 --store s.db",
        None,
        "D_K",
    ),
    ("results --store s.db", 0, "24"),
    ("plan budget --items 64 --relations 64 --d-model 16", 0, "heads"),
    ("plan relations --items 64 --d-model 16 --heads 2 --key-width 8", 0, "relations"),
    ("audit gpt2", 0, "heads"),
    ("paper list", 0, "fig3"),
    ("heads l.safetensors", 2, "is not a block that manyheads wrote"),
    ("explore -o page.html", 0, "page.html"),
]
# (words, the extra that the command must name)
EXTRAS = [
    ("block --items 40 --heads 2 --key-width 4 --embedding gaussian:16 -o b.safetensors", "torch"),
    ("retrieve --error 0.1 --sequences 50", "torch"),
    ("paper fig7 --embedding gaussian -o p7", "torch"),
    ("paper retrieval -o pr", "torch"),
    (
        "train --graph permutation:16 --embedding gaussian:8 --heads 2 --key-width 4 --seed 0 --engine reference",
        "torch",
    ),
    ("certify l.safetensors --graph g.csv --embedding e.gguf", "gguf"),
    ("results --store s.db -o rows.parquet", "parquet"),
    (
        "measure --graph permutation:24 --embedding gaussian:8 --seeds 1 --store d.db --dask tcp://127.0.0.1:9",
        "cluster",
    ),
]


def run(python: Path, words: list[str], folder: Path) -> subprocess.CompletedProcess[str]:
    """One command in the folder; nothing of this repository can be imported there."""
    environment = {name: value for name, value in os.environ.items() if name not in ("PYTHONPATH", "MANYHEADS_ISA")}
    return subprocess.run(
        [str(python.parent / "manyheads"), *words],
        cwd=folder,
        env=environment,
        capture_output=True,
        text=True,
        timeout=300,
    )


def check(wheel: Path, interpreter: str) -> list[str]:
    """The cases that failed, a sentence each."""
    wrong = []
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name) / "work"
        folder.mkdir()
        subprocess.run([interpreter, "-m", "venv", f"{name}/environment"], check=True)
        python = Path(name) / "environment" / "bin" / "python"
        start = time.monotonic()
        subprocess.run([python, "-m", "pip", "install", "--quiet", str(wheel.resolve())], check=True)
        print(f"{wheel.name} with {interpreter}: installed in {time.monotonic() - start:.0f} s")
        covered = set()
        for line, code, part in CASES:
            words = line.split()
            covered.add(words[0])
            ended = run(python, words, folder)
            if (code is not None and ended.returncode != code) or ended.returncode not in (0, 1, 2):
                wrong.append(f"manyheads {line}: exit code {ended.returncode}: {(ended.stdout + ended.stderr)[-300:]}")
            elif part not in ended.stdout + ended.stderr:
                wrong.append(f"manyheads {line}: no {part!r} in its output")
            if line == MAKE_LAYER:
                print(
                    f"{wheel.name}: a certified layer {time.monotonic() - start:.0f} s after the start of pip install"
                )
        (folder / "e.gguf").write_bytes(b"GGUF" + bytes(60))
        for line, extra in EXTRAS:
            covered.add(line.split()[0])
            before = sorted(folder.rglob("*"))
            ended = run(python, line.split(), folder)
            said = ended.stdout + ended.stderr
            if ended.returncode != 2 or f"manyheads[{extra}]" not in said or "Traceback" in said:
                wrong.append(
                    f"manyheads {line}: exit code {ended.returncode}, must name manyheads[{extra}]: {said[-300:]}"
                )
            if sorted(folder.rglob("*")) != before:
                wrong.append(f"manyheads {line}: left files behind")
        shown = subprocess.run(
            [python, "-c", "from manyheads.cli.commands import COMMANDS; print(*COMMANDS)"],
            capture_output=True,
            text=True,
            check=True,
            cwd=folder,
        )
        missing = set(shown.stdout.split()) - covered
        if missing:
            wrong.append(f"no case for the commands {', '.join(sorted(missing))}")
    return wrong


if __name__ == "__main__":
    sentences = check(Path(sys.argv[2]), sys.argv[1])
    print(*sentences, sep="\n", end="")
    sys.exit(bool(sentences))
