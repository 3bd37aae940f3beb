"""The attack on processes: `measure` is killed at random moments and taken up again, until it has its answer.

python -m attack.kills 1000 --dask 100       prints the counts as JSON; exit code 1 after any failure

Each answer must be D_K* of a measurement that nobody disturbed, and each row must be equal bit for bit. The signals are
sent to `measure`, to its worker processes, and to the scheduler, the workers and the client of a real Dask cluster. A
measurement that is ended must say so in at most one line.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import random
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

from support.runs import make_run
from support.sabotage import outcome

from manyheads.capacity import Goal, measure
from manyheads.cli import main as manyheads
from manyheads.sweep import processes

SIGNALS = (signal.SIGKILL, signal.SIGTERM, signal.SIGINT, signal.SIGHUP)
WORKER_SHARE = 0.1  # of the kills hit worker processes
SECONDS = 120  # the longest time of one measurement
LIKE = make_run(
    items=16, d_model=8, heads=1, key_width=1, seed=0, context=8, steps=400, validate_every=100,
    validation_contexts=20, test_contexts=50, learning_rate=5e-3,
)  # fmt: skip
HEADS, SEEDS, TARGET = (1, 2), 2, 0.8
PROBLEM = "--graph permutation:16 --embedding gaussian:8 --context-length 8 --heads 1,2 --seeds 2 --goal 0.8"
PROTOCOL = "--steps 400 --validate-every 100 --validation-contexts 20 --test-contexts 50 --learning-rate 0.005"
COMMAND = ["measure", *PROBLEM.split(), *PROTOCOL.split(), "--json"]
CHILD_ENDS = {-int(one) for one in SIGNALS} | {0, 2, 130}
ROOT = Path(__file__).parents[2]
SINGLE = {"OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"}


@dataclass
class Attack:
    """The state of the attack: a directory, the undisturbed answer, and what was counted."""

    directory: Path
    rng: random.Random
    counts: Counter[str] = field(default_factory=Counter)
    failures: list[str] = field(default_factory=list)
    stores: int = 0

    def __post_init__(self) -> None:
        begun = time.monotonic()
        code, self.answer, said = self.ended(self.start([*COMMAND, "--store", str(self.store)]))
        assert code == 0, said
        self.duration = time.monotonic() - begun
        self.rows = outcome(self.store)
        self.stores += 1

    @property
    def store(self) -> Path:
        return self.directory / f"{self.stores}.db"

    def start(self, words: list[str]) -> int:
        """Fork a measurement. Its output goes to files."""
        return self.fork(lambda: manyheads(words))

    def fork(self, work: Callable[[], int]) -> int:
        sys.stdout.flush()
        child = os.fork()
        if not child:
            code = 99
            try:
                for one in SIGNALS[1:]:
                    signal.signal(one, signal.default_int_handler if one == signal.SIGINT else signal.SIG_DFL)
                for number, name in ((1, "out"), (2, "err")):
                    os.dup2(os.open(self.directory / name, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), number)
                code = work()
                sys.stdout.flush()
            except BaseException:
                import traceback

                traceback.print_exc()
            finally:
                os._exit(code)
        return child

    def ended(self, child: int, seconds: float = SECONDS) -> tuple[int, object, str]:
        """Wait for a measurement: exit code (negative: by a signal), D_K* and its like, and what it said."""
        until = time.monotonic() + seconds
        while True:
            done, status = os.waitpid(child, os.WNOHANG)
            if done:
                break
            if time.monotonic() > until:
                os.kill(child, signal.SIGKILL)
                os.waitpid(child, 0)
                return 98, None, f"not ended after {seconds:.0f} s"
            time.sleep(0.002)
        answer = None
        with contextlib.suppress(ValueError, OSError):
            facts = json.loads((self.directory / "out").read_text())
            answer = {name: facts[name] for name in ("key_budget", "low", "high", "heads", "curve", "complete")}
        said = (self.directory / "err").read_text() if (self.directory / "err").exists() else ""
        return os.waitstatus_to_exitcode(status), answer, said

    def has_ended(self, child: int) -> bool:
        """Whether a measurement has ended; `ended` still finds it."""
        return os.waitid(os.P_PID, child, os.WEXITED | os.WNOHANG | os.WNOWAIT) is not None

    def is_open(self, child: int) -> bool:
        """Whether a measurement has opened its store, or has ended."""
        with contextlib.suppress(OSError):  # a descriptor that was closed meanwhile
            return self.has_ended(child) or any(
                os.readlink(one) == str(self.store.resolve()) for one in Path(f"/proc/{child}/fd").iterdir()
            )
        return False

    def check(self, code: int, answer: object, said: str, what: str) -> None:
        """Check a measurement that ended. If it has an answer, that is the undisturbed one, and a new store begins."""
        if code not in CHILD_ENDS or "Traceback" in said or len(said.splitlines()) > 1:
            self.failures.append(f"{what}: exit code {code}, {said[-600:]!r}")
        if code != 0:
            return
        if answer != self.answer:
            self.failures.append(f"{what}: the answer is {answer}")
        elif outcome(self.store) != self.rows:
            self.failures.append(f"{what}: the rows differ")
        self.counts["measurements completed"] += 1
        self.store.unlink()
        self.stores += 1

    def disturb(self) -> None:
        """Start a measurement and send it one signal at a random moment."""
        child = self.start([*COMMAND, "--store", str(self.store), "--workers", "2"])
        time.sleep(self.rng.uniform(0, 0.8 * self.duration))
        one = self.rng.choice(SIGNALS)
        os.kill(child, one)
        code, answer, said = self.ended(child)
        if code in (-one, 130):
            self.counts[one.name] += 1
        self.check(code, answer, said, one.name)

    def kill_workers(self) -> None:
        """Start a measurement with worker processes and kill two of them; it must end with its answer all the same."""
        child = self.fork(lambda: _with_processes(self.store))
        for _ in range(2):  # a run that is hit three times would be quarantined
            until = time.monotonic() + self.rng.uniform(0.5, 1.0) * 10 * self.duration
            while time.monotonic() < until and not _workers(child):
                time.sleep(0.01)
            time.sleep(self.rng.uniform(0, 2 * self.duration))
            with contextlib.suppress(ProcessLookupError, IndexError):
                os.kill(self.rng.choice(_workers(child)), self.rng.choice((signal.SIGKILL, signal.SIGTERM)))
                self.counts["worker killed"] += 1
        code, answer, said = self.ended(child)
        if code != 0:
            self.failures.append(f"worker killed: exit code {code}")
        self.check(code, answer, said, "worker killed")


def _with_processes(store: Path) -> int:
    from manyheads.cli.render.capacity_table import capacity_facts

    with processes(2) as workers:
        capacity = measure(
            LIKE.task, store=store, heads=HEADS, seeds=SEEDS, protocol=LIKE.protocol, goal=Goal(micro_f1=TARGET),
            workers=workers,
        )  # fmt: skip
    print(json.dumps(capacity_facts(capacity)))
    return 0


def _workers(process: int) -> list[int]:
    """The worker processes of a measurement: its children, but for the one that counts shared resources."""
    with contextlib.suppress(OSError, ValueError):
        children = Path(f"/proc/{process}/task/{process}/children").read_text().split()
        return [int(one) for one in children if b"spawn_main" in Path(f"/proc/{one}/cmdline").read_bytes()]
    return []


class Cluster:
    """A Dask scheduler and two workers with a nanny each, in processes of their own."""

    def __init__(self, directory: Path) -> None:
        self.file, self.log = directory / "scheduler.json", directory / "cluster.log"
        self.file.unlink(missing_ok=True)
        self.scheduler = self._start("scheduler", "--port", "0", "--interface", "lo")
        while not self.file.exists():
            time.sleep(0.05)
            assert self.scheduler.poll() is None, self.log.read_text()[-2000:]
        self.nannies = [self._start("worker", "--nthreads", "1", "--death-timeout", "60") for _ in range(2)]
        self.address = json.loads(self.file.read_text())["address"]

    def _start(self, kind: str, *words: str) -> subprocess.Popen[bytes]:
        command = [sys.executable, "-m", f"distributed.cli.dask_{kind}", "--scheduler-file", str(self.file)]
        with self.log.open("ab") as log:
            return subprocess.Popen([*command, "--no-dashboard", *words], stdout=log, stderr=log)

    def wait(self) -> None:
        """Wait until both workers are there."""
        script = "import sys; from distributed import Client; Client(sys.argv[1]).wait_for_workers(2, timeout=60)"
        subprocess.run([sys.executable, "-c", script, self.address], check=True, capture_output=True)

    def worker(self) -> list[int]:
        """The process ids of the workers, which their nannies start again."""
        return [one for nanny in self.nannies for one in _workers(nanny.pid)]

    def close(self) -> None:
        for process in (*self.nannies, self.scheduler):
            process.terminate()
        for process in (*self.nannies, self.scheduler):
            try:
                process.wait(10)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()


@contextlib.contextmanager
def cluster_of(attack: Attack) -> Iterator[list[Cluster]]:
    """A cluster in a list, so that a new one can take its place."""
    clusters = [Cluster(attack.directory)]
    try:
        clusters[0].wait()
        yield clusters
    finally:
        clusters[0].close()


def disturb_dask(attack: Attack, clusters: list[Cluster], part: str) -> None:
    """Start a measurement on the cluster and kill one part of it at a random moment."""
    cluster = clusters[0]
    child = attack.start([*COMMAND, "--store", str(attack.store), "--dask", cluster.address])
    while not attack.is_open(child):  # a measurement opens its store once it has found the cluster
        time.sleep(0.005)
    time.sleep(attack.rng.uniform(0, attack.duration))
    attack.counts["dask faults after the end" if attack.has_ended(child) else f"dask {part}"] += 1
    if part == "worker":
        with contextlib.suppress(ProcessLookupError, IndexError):
            os.kill(attack.rng.choice(cluster.worker()), signal.SIGKILL)
    elif part == "scheduler":
        cluster.scheduler.kill()
    else:
        os.kill(child, signal.SIGKILL if part == "client" else signal.SIGINT)
    code, answer, said = attack.ended(child)
    if part == "worker" and code != 0:
        attack.failures.append(f"dask worker: exit code {code}")
    attack.check(code, answer, said, f"dask {part}")
    if part == "scheduler":
        cluster.close()
        clusters[0] = Cluster(attack.directory)
        clusters[0].wait()


DASK_PARTS = ("scheduler", "worker", "client", "scheduler", "interrupt", "worker", "client", "worker")


def run(kills: int, faults: int, directory: Path, *, seed: int = 0) -> tuple[dict[str, int], list[str]]:
    """Kill and disturb measurements until the counts are reached. Returns the counts and the failures."""
    attack = Attack(directory, random.Random(seed))
    wanted, done = round(WORKER_SHARE * kills), 0
    while attack.counts["worker killed"] < wanted:
        attack.kill_workers()
    while (done := sum(attack.counts[one.name] for one in SIGNALS)) < kills - wanted:
        attack.disturb()
    # the last store has its answer, too
    if done:
        attack.check(*attack.ended(attack.start([*COMMAND, "--store", str(attack.store)])), "the last measurement")
    if faults:
        with cluster_of(attack) as clusters:
            while (done := sum(attack.counts[f"dask {part}"] for part in set(DASK_PARTS))) < faults:
                disturb_dask(attack, clusters, DASK_PARTS[done % len(DASK_PARTS)])
            words = [*COMMAND, "--store", str(attack.store), "--dask", clusters[0].address]
            attack.check(*attack.ended(attack.start(words)), "the last measurement on Dask")
    return dict(attack.counts), attack.failures


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("kills", type=int, help="signals to measurements and to their worker processes")
    parser.add_argument("--dask", type=int, default=0, metavar="FAULTS", help="faults of a Dask cluster")
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args()
    if not set(SINGLE) <= set(os.environ):  # numpy has made its threads already, and a fork copies no threads
        # the processes of a cluster and the worker processes import the same packages
        search = os.pathsep.join([str(ROOT), str(ROOT / "tests"), os.environ.get("PYTHONPATH", "")])
        environment = os.environ | SINGLE | {"PYTHONPATH": search}
        os.execve(sys.executable, [sys.executable, "-m", "attack.kills", *sys.argv[1:]], environment)
    with tempfile.TemporaryDirectory() as directory:
        counts, failures = run(options.kills, options.dask, Path(directory), seed=options.seed)
    print("\n".join(failures), file=sys.stderr)
    print(json.dumps({"kills": counts | ({"failed": len(failures)} if failures else {})}))
    return int(bool(failures))


if __name__ == "__main__":
    sys.exit(main())
