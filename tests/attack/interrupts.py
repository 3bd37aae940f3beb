"""Signals at random moments of 15 commands: one sentence or silence, the right exit code, files complete or absent.

python -m attack.interrupts 500          prints JSON counts; exit code 1 after any failure

Two of three signals are SIGINT; the others are SIGTERM and SIGHUP. A signal can arrive while Python itself starts,
before the first line of manyheads: this is counted as `python` and is no failure.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path

import manyheads

SOURCE = str(Path(manyheads.__file__).parents[1])
SECONDS = 5  # of CPU time until an interrupted command must have ended
WAIT = 200  # seconds of the clock, for a command that waits without using the CPU
FAILURES = ("traceback", "hang", "exit code", "several lines", "files")
SMALL = ["--graph", "permutation:32", "--embedding", "gaussian:16"]
READ = ["--graph", "../graph.csv", "--embedding", "../rows.npy"]
TRIO = ["-o", "layer.safetensors", "--save-graph", "graph.csv", "--save-embedding", "rows.npy"]
BLOCK = ["block", "--embedding", "gaussian:8", "--items", "16", "--context-length", "4"]


@dataclass(frozen=True)
class Case:
    """A command, and the files that it writes together."""

    words: Sequence[str]
    files: frozenset[str] = frozenset()


def files(*names: str) -> frozenset[str]:
    return frozenset(names)


WRITTEN = files("layer.safetensors", "graph.csv", "rows.npy")
CASES: Mapping[str, Case] = {
    "plan": Case(
        ["plan", "budget", "--items", "64", "--relations", "64", "--d-model", "16", "--picture", "p"],
        files("p-heads.png", "p-heads.svg", "p-map.png", "p-map.svg"),
    ),
    "compile": Case(
        ["compile", "--graph", "permutation:32", "--embedding", "one-hot", "--construction", "one-hot", *TRIO], WRITTEN
    ),
    "certify": Case(["certify", "../layer.safetensors", *READ]),
    "exclude": Case(["exclude", *READ, "-o", "layer.safetensors"], files("layer.safetensors")),
    "explore": Case(["explore"], files("explore.html")),
    "results": Case(["results", "--store", "../results.db", "-o", "all.csv"], files("all.csv")),
    "fit": Case(["fit", *SMALL, "--smallest", "--time-limit", "1", *TRIO], WRITTEN),
    "attend": Case(["attend", "../layer.safetensors", "--embedding", "../rows.npy", "0", "1", "2"]),
    "audit": Case(["audit", "gpt2", "--json"]),
    "export": Case(
        ["export", "../layer.safetensors", "out", "--to", "torch"], files("out/attention.py", "out/layer.safetensors")
    ),
    "train": Case(["train", *SMALL, "--heads", "2", "--key-width", "6", "--steps", "2000", *TRIO], WRITTEN),
    "measure": Case(
        ["measure", *SMALL, "--heads", "1,2", "--seeds", "2", "--steps", "300", "--picture", "p"],
        files("p.png", "p.svg"),
    ),
    "paper": Case(
        ["paper", "split_cost", "--from-rows", "../rows.jsonl.gz", "-o", ".", "--save-rows", "r.jsonl.gz"],
        files("paper.md", "r.jsonl.gz"),
    ),
    "block": Case(
        [*BLOCK, "--heads", "1", "--key-width", "4", "--steps", "50", "-o", "block.safetensors"],
        files("block.safetensors"),
    ),
    "retrieve": Case(["retrieve", "--error", "0.1", "--sequences", "200"]),
}
OTHERS = ("results.db", "manyheads.db")  # stores, with their own tests of signals


def prepare(directory: Path) -> None:
    """Write the files that the commands read."""
    import numpy as np
    from support.sabotage import tiny

    from manyheads import gaussian, permutation_graph
    from manyheads.files import write_embedding, write_graph, write_layer
    from manyheads.layer.layer import Layer
    from manyheads.papers.rows import Rows, write_rows
    from manyheads.sweep import Store, sweep

    weights = np.zeros((1, 16, 2), np.float32)
    write_layer(directory / "layer.safetensors", Layer(weights, weights, threshold=-1.0))
    write_graph(directory / "graph.csv", permutation_graph(32, seed=0))
    write_embedding(directory / "rows.npy", gaussian(32, 16, seed=0))
    write_rows(directory / "rows.jsonl.gz", Rows([]), [])
    with Store.write(directory / "results.db") as store:
        sweep(tiny([0]), store)


def start(name: str, directory: Path) -> subprocess.Popen[str]:
    """Start a command in a new directory, in a session of its own, as a terminal would signal it."""
    directory.mkdir()
    return subprocess.Popen(
        [sys.executable, "-m", "manyheads", *CASES[name].words],
        cwd=directory,
        env=os.environ | {"PYTHONPATH": SOURCE},
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
        preexec_fn=_heed_ctrl_c,
    )


def _heed_ctrl_c() -> None:
    """End the ignoring of SIGINT: a shell starts background work with it, and manyheads leaves it so."""
    signal.signal(signal.SIGINT, signal.SIG_DFL)


def outcome(name: str, directory: Path, number: int, code: int, said: str) -> tuple[str, str]:
    """The outcome of a command that ended after a signal, and a detail of a failure."""
    found = {str(path.relative_to(directory)) for path in directory.rglob("*") if path.is_file()}
    found = {file for file in found if not file.startswith(OTHERS)}
    if found not in (set(), CASES[name].files):
        return "files", str(sorted(found))
    if number == signal.SIGINT and code in (130, -signal.SIGINT):
        kind = "interrupted"
    elif code in (0, 1):
        kind = "finished"
    else:
        kind = "ended" if code == -number else "exit code"
    if "Traceback" in said or "Error" in said:
        in_python = "manyheads/cli" not in said and "manyheads/__main__.py" not in said
        return ("python" if in_python else "traceback"), said
    if kind == "exit code":
        return kind, f"{code}: {said}"
    return ("several lines", said) if said.count("\n") > 1 else (kind, "")


def cpu_time(process: int) -> float:
    """The CPU time of a process in seconds; 0 if it has ended."""
    try:
        fields = Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()
    except OSError:
        return 0.0
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def interrupt(name: str, directory: Path, number: int, delay: float) -> tuple[str, str]:
    """Start a command, send a signal after some seconds, and tell the outcome."""
    process = start(name, directory)
    try:
        time.sleep(delay)
        begun = cpu_time(process.pid)
        if process.poll() is None:
            os.killpg(process.pid, number)
        until = time.monotonic() + WAIT
        while True:
            try:
                _, said = process.communicate(timeout=SECONDS)
                break
            except subprocess.TimeoutExpired:  # a busy machine, or a hang
                if cpu_time(process.pid) - begun > SECONDS or time.monotonic() > until:
                    return "hang", name
        return outcome(name, directory, number, process.returncode, said)
    finally:
        if process.poll() is None:
            os.killpg(process.pid, signal.SIGKILL)
            process.communicate()


def attack(count: int, names: Sequence[str], *, seed: int = 0, span: float | None = None) -> dict[str, Counter[str]]:
    """Interrupt commands `count` times. Returns how often each command had each outcome.

    The moment lies between the start and `span` seconds, or the time that the whole command took.
    """
    rng, counts = random.Random(seed), {name: Counter[str]() for name in names}
    with tempfile.TemporaryDirectory() as folder:
        place, spans = Path(folder), dict.fromkeys(names, span or 0.0)
        prepare(place)
        for name in names if span is None else ():
            begun = time.monotonic()
            whole = start(name, place / name)
            _, said = whole.communicate(timeout=2 * WAIT)
            spans[name] = time.monotonic() - begun
            assert whole.returncode in (0, 1), f"{name}: {said}"
            assert outcome(name, place / name, 0, whole.returncode, "")[0] == "finished", name
        for case in range(count):
            name = names[case % len(names)]
            number = rng.choice([signal.SIGINT] * 4 + [signal.SIGTERM, signal.SIGHUP])
            kind, detail = interrupt(name, place / f"case{case}", number, rng.uniform(0, 1.1 * spans[name]))
            counts[name][kind] += 1
            if kind in (*FAILURES, "python"):
                print(f"case {case}, {name}, signal {number}: {kind}\n{detail}", file=sys.stderr)
    return counts


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("count", type=int)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--commands", nargs="+", choices=list(CASES), default=list(CASES))
    options = parser.parse_args()
    names = [name for name in options.commands if find_spec("torch") or name not in ("block", "retrieve")]
    counts = attack(options.count, names, seed=options.seed)
    total: Counter[str] = sum(counts.values(), Counter())
    print(json.dumps({"signals": total}))
    return int(any(total[failure] for failure in FAILURES))


if __name__ == "__main__":
    sys.exit(main())
