"""A trainer that misbehaves on purpose, and a process that forks sweeps and kills them."""

from __future__ import annotations

import json
import os
import random
import resource
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from manyheads.sweep import LayerTrainer, Record, Store, sweep, threads
from manyheads.sweep import worker as sweep_worker
from manyheads.training import Run
from support.runs import changed, make_run

HERE = Path(__file__).parents[1]
TINY = make_run(
    items=8, d_model=4, heads=1, key_width=2, seed=0, context=4, steps=40, validate_every=20, validation_contexts=10,
    test_contexts=20,
)  # fmt: skip


def tiny(seeds: Sequence[int], key_widths: Sequence[int] = (2,)) -> list[Run]:
    return [changed(TINY, seed=seed, key_width=width) for seed in seeds for width in key_widths]


def essence(record: Record) -> dict[str, object]:
    """What of a record may not depend on when, where and how often it ran."""
    return {name: value for name, value in asdict(record).items() if name not in ("seconds", "recorded", "attempts")}


def outcome(path: Path) -> list[dict[str, object]]:
    with Store.read(path) as store:
        return [essence(record) for record in store.records()]


@dataclass(frozen=True, eq=False)
class Sabotaged(LayerTrainer):
    """Seeds from 13 on harm their worker, each in its own way; all others are trained as usual."""

    def train(self, run: Any, *, time_limit: float | None, keep_going: Callable[[], bool]) -> Record:
        match run.seed:
            case 13:
                os.kill(os.getpid(), signal.SIGSEGV)
            case 14:
                os._exit(3)
            case 15:
                os.kill(os.getpid(), signal.SIGKILL)  # what the kernel does to a process that takes all memory
            case 16:
                time.sleep(600)  # deaf to its time limit
            case 17:
                raise ArithmeticError("seventeen")
            case 18:
                limits = resource.getrlimit(resource.RLIMIT_AS)
                resource.setrlimit(resource.RLIMIT_AS, (2**36, limits[1]))
                try:
                    bytearray(2**40)
                finally:
                    resource.setrlimit(resource.RLIMIT_AS, limits)
        return super().train(run, time_limit=time_limit, keep_going=keep_going)


def impatient() -> None:
    """A worker that ends a deaf run soon after its limit."""
    sweep_worker.GRACE = 0.3


class Killer:
    """A process of its own that has imported everything and, for each command, forks a sweep and kills it."""

    def __init__(self) -> None:
        paths = os.pathsep.join([str(HERE), os.environ.get("PYTHONPATH", "")])
        threads_off = {"OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"}  # a fork copies no threads
        environment = {**os.environ, "PYTHONPATH": paths, **threads_off}
        command = [sys.executable, __file__]
        self.process = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=environment
        )

    def sweep(self, path: Path, seeds: Sequence[int], workers: int, delay: float) -> bool:
        """Whether the sweep was killed; otherwise it was done before."""
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        print(json.dumps([str(path), list(seeds), workers, delay]), file=self.process.stdin, flush=True)
        return bool(json.loads(self.process.stdout.readline()))

    def close(self) -> None:
        self.process.communicate()


def obey() -> None:
    for line in sys.stdin:
        path, seeds, workers, delay = json.loads(line)
        child = os.fork()
        if not child:
            with Store.write(Path(path)) as store:
                sweep(tiny(seeds), store, workers=threads(workers))
            os._exit(0)
        time.sleep(delay)
        os.kill(child, signal.SIGKILL)
        print(json.dumps(os.WIFSIGNALED(os.waitpid(child, 0)[1])), flush=True)


def delays(seed: int) -> Callable[[], float]:
    rng = random.Random(seed)
    return lambda: rng.uniform(0.0, 0.04)


if __name__ == "__main__":
    obey()
