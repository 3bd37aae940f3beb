"""The attack on numbers: hostile numbers through every option of every command and through the library.

python -m attack.numbers 5000         prints counts as JSON; exit code 1 after any failure

A child tries the numbers under a limit of memory. A number is refused with one sentence (InputError, exit code 2), or
it is valid and the command is not run further: its work is another test's.
"""

from __future__ import annotations

import argparse
import contextlib
import io
import json
import os
import random
import resource
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

MEMORY = 500 * 2**20
SECONDS = 5
WORK = 1.5  # seconds of work that a valid number may begin, before the case is ended
FAILURES = ("traceback", "slow", "memory", "crash")
WORDS = (
    "0", "-1", "1", "2", "3", "2147483647", "2147483648", "-2147483649", "4294967296", "9223372036854775807",
    "9223372036854775808", "1000000000000000000000000", "1" + "0" * 399, "1" + "0" * 4999, "nan", "inf", "-inf",
    "1e400", "1e-400", "1e30", "0.5", "-0.0", "１２", " 5", "0x10", "", "1_000", "+7", "1e9", "true", "None", "١",
)  # fmt: skip
VALUES: tuple[object, ...] = (
    0, -1, 1, 2, 2**31, 2**63, 10**24, 10**400, 10**5000, float("nan"), float("inf"), -float("inf"), 0.5, 1e300, 3.0,
    True, "12", "", [3], b"3", 1 + 2j,
)  # fmt: skip
BASES = {
    "plan budget": "--items 64 --relations 64 --d-model 16",
    "plan relations": "--items 64 --d-model 16 --heads 2 --key-width 4",
    "plan width": "--items 64 --relations 64 --key-budget 16",
    "plan retrieval": "--retrieve 3 --context-length 64",
    "fit": "--graph permutation:8 --embedding gaussian:4 --heads 2 --key-width 2 --time-limit 0.2",
    "compile": "--graph permutation:8 --embedding gaussian:4 --key-width 2 --construction compressive",
    "exclude": "--graph permutation:8 --embedding gaussian:4",
    "certify": "layer.safetensors --graph permutation:8 --embedding gaussian:4",
    "attend": "layer.safetensors --embedding rows.npy 1 2",
    "audit": "gpt2",
    "export": "layer.safetensors out --to torch --force",
    "train": "--graph permutation:16 --embedding gaussian:4 --heads 1 --key-width 2 --context-length 4 --steps 2"
    " --validation-contexts 2 --test-contexts 2",
    "measure": "--graph permutation:16 --embedding gaussian:4 --context-length 4 --steps 2 --seeds 1 --heads 1"
    " --max-runs 1 --workers 1 --store STORE",
    "results": "STORE",
    "paper": "list --quick",
    "block": "--embedding gaussian:8 --items 40 --heads 1 --key-width 2 --steps 1",
    "heads": "layer.safetensors",
    "explore": "",
    "retrieve": "--error 1 --context-length 8 --sequences 10",
}
WITH_TORCH = ("paper", "block", "heads", "retrieve")
EXTRA = {  # words that hold numbers
    "fit": ("--graph=permutation:{}", "--graph=regular:{}:2", "--graph=regular:8:{}", "--graph=random:{}:8",
            "--graph=random:8:{}", "--graph=star-out:{}", "--graph=power-law:16:{}:3", "--graph=power-law:16:8:{}",
            "--embedding=gaussian:{}", "--embedding=sparse-binary:{}", "--context-length={}", "--context-length=2:{}"),
    "compile": ("--matching-size={}", "--logit-scale={}", "--threshold={}", "--signatures=bernoulli:{}"),
    "measure": ("--heads={}", "--heads=all:{}", "--heads=powers:{}", "--heads=1,{}", "--goal={}",
                "--graph=permutation:{}", "--embedding=gaussian:{}"),
    "exclude": ("--graph=permutation:{}", "--embedding=gaussian:{}"),
    "attend": ("{}",),
    "train": ("--graph=permutation:{}", "--embedding=gaussian:{}", "--embedding=one-hot --graph=permutation:{}"),
    "plan budget": ("--graph=permutation:{}",),
}  # fmt: skip


class TooSlow(BaseException):
    """A case has taken too long."""


def _stop(number: int, frame: object) -> None:
    raise TooSlow


def command_cases(directory: Path) -> list[tuple[str, list[str]]]:
    """Every hostile word in every numeric option of every command: the option, and the words of the command."""
    from manyheads.cli.commands import command_class, command_names
    from manyheads.cli.option_errors import command_options

    found = []
    for name in command_names():
        base = BASES[name].replace("STORE", str(directory / "store"))
        numeric = [
            f"{option.names[0]}={{}}"
            for option in command_options(command_class(name))
            if not option.placed
            and option.count == 1
            and {int, float} & set(option.types)
            # the library of threads that torch uses ends the process where the limit of memory stops a thread
            and (name, option.names[0]) != ("block", "--threads")
        ]
        for form in (*numeric, *EXTRA.get(name, ())):
            found += [(f"{name} {form}", [*name.split(), *base.split(), *_filled(form, word)]) for word in WORDS]
    return found


def _filled(form: str, word: str) -> list[str]:
    return [part.format(word) for part in form.split(" ")]


def library_cases() -> Iterator[tuple[str, Callable[[], object]]]:
    """Every hostile value in every numeric argument of the library's constructors and functions."""
    import numpy as np

    import manyheads as mh
    from manyheads import bounds, planning
    from manyheads.block.block_run import BlockRun
    from manyheads.capacity import Budget
    from manyheads.fitting.options import Descent, FitOptions
    from manyheads.problem import graph_generators as graphs
    from manyheads.problem.embedding_kinds import gaussian, one_hot, sparse_binary
    from manyheads.retrieval.retrieval_run import RetrievalRun
    from manyheads.training import Protocol, Run, Task

    task = Task("permutation:16", "gaussian:4", context=4)
    problem, brief = mh.draw_problem("permutation:8", "gaussian:4"), FitOptions(restarts=1, time_limit=0.1, workers=1)
    hot = mh.draw_problem("permutation:8", "one-hot")
    softmax = mh.Layer(np.ones((1, 4, 2)), np.ones((1, 4, 2)), threshold=0.5, rule="softmax")
    shape: dict[str, Any] = {"d_model": 16, "heads": 2, "key_width": 4}
    sizes: dict[str, Any] = {"items": 64, "relations": 64, "d_model": 16}
    calls: list[tuple[Callable[..., object], dict[str, Any]]] = [
        (Protocol, {name: getattr(Protocol, name) for name in Protocol.__dataclass_fields__ if name != "precision"}),
        (lambda **given: Run(task, **given), {"heads": 1, "key_width": 2, "seed": 0, "problem_seed": 0}),
        (
            lambda **given: Task("permutation:16", "gaussian:4", **given),
            {"context": 4, "target_rate": 0.5, "message_width": 4},
        ),
        (FitOptions, {"seed": 0, "restarts": 2, "time_limit": 1.0, "workers": 1}),
        (Descent, {"steps": 10, "rate": 0.1, "hold": 0.3, "beta1": 0.9, "beta2": 0.9, "widen": 2, "share": 1.0}),
        (Budget, {"runs": 1, "seconds": 1.0}),
        (BlockRun, {"items": 40, "d_model": 8, "heads": 1, "key_width": 2, "seed": 0, "batch": 4, "steps": 1}),
        (RetrievalRun, {"dimension": 2, "length": 8, "heads": 2, "head_width": 2, "seed": 0, "steps": 1}),
        (bounds.Shape, shape | {"key_heads": 2}),
        (planning.plan, sizes | {"context_length": 16, "bits": 16.0, "multiple": 2, "key_heads": 1, "max_degree": 1}),
        (planning.d_model_needed, {"items": 64, "relations": 64, "key_budget": 16, "bits": 16.0}),
        (lambda **given: planning.relations_that_fit(bounds.Shape(**shape), **given), {"items": 64, "bits": 16.0}),
        (lambda **given: planning.audit("gpt2", **given), {"items": 64, "context_length": 16}),
        (bounds.paper_key_budget, sizes | {"slope": 1.0}),
        (bounds.freedom_key_width, sizes | {"heads": 2}),
        (bounds.graph_bit_key_budget, sizes | {"bits": 16.0}),
        (graphs.permutation_graph, {"items": 8, "seed": 0}),
        (graphs.regular_graph, {"items": 8, "degree": 2, "seed": 0}),
        (graphs.random_graph, {"items": 8, "relations": 8, "seed": 0}),
        (graphs.power_law_graph, {"items": 16, "relations": 8, "exponent": 3.0, "seed": 0}),
        (lambda **given: graphs.star_graph(**given, direction="out"), {"items": 8}),
        (gaussian, {"items": 8, "d_model": 4, "seed": 0}),
        (sparse_binary, {"items": 8, "d_model": 4, "seed": 0, "density": 0.5}),
        (one_hot, {"items": 8}),
        (lambda **given: mh.certify(softmax, problem, **given), {"context_length": 2}),
        (lambda **given: mh.exclude(problem, **given), {"time_limit": 1.0, "workers": 1}),
        (lambda **given: mh.fit(problem, options=brief, **given), {"heads": 2, "key_width": 2, "key_heads": 1}),
        (
            lambda **given: mh.smallest(problem, options=brief, **given),
            {"time_limit": 0.1, "max_budget": 4, "heads": 2},
        ),
        (
            lambda **given: mh.measure(task, protocol=Protocol(steps=2), budget=Budget(runs=1), **given),
            {"heads": 1, "seeds": 1},
        ),
        (lambda **given: mh.construct.compressive(problem, **given), {"key_width": 2, "seed": 0, "matching_size": 2}),
        (lambda **given: mh.construct.general(problem, **given), {"key_width": 2, "seed": 0, "matching_size": 2}),
        (lambda **given: mh.construct.incoherent(problem, **given), {"key_width": 2, "seed": 0, "matching_size": 2}),
        (lambda **given: mh.construct.one_hot(hot, **given), {"key_width": 2, "seed": 0}),
        (
            lambda **given: mh.construct.softmax(problem, **given),
            {"key_width": 2, "seed": 0, "matching_size": 2, "scale": 1.0, "threshold": 0.5},
        ),
        (
            lambda **given: mh.construct.smallest(problem, threshold="best", **given),
            {"seed": 0, "max_budget": 4},
        ),
        (
            lambda **given: mh.construct.mended_softmax(problem, **given),
            {"key_width": 2, "seed": 0, "matching_size": 2, "context_length": 4},
        ),
        (lambda **given: mh.draw_problem("permutation:8", "gaussian:4", **given), {"seed": 0}),
        (lambda **given: mh.Graph(**given, sources=np.array([0]), targets=np.array([0])), {"items": 8}),
    ]
    for call, given in calls:
        title = getattr(call, "__qualname__", str(call))
        for name in given:
            for value in VALUES:
                changed = given | {name: value}
                yield f"{title} {name}={type(value).__name__}", partial(_without_value, call, changed)


def _without_value(call: Callable[..., object], given: dict[str, Any]) -> None:
    """Call a function: its value is no exit code."""
    call(**given)


def judge(call: Callable[[], object]) -> tuple[str, str]:
    """The outcome of one case and its details."""
    from manyheads.errors import InputError
    from manyheads.text import HOSTILE

    begun, detail = time.thread_time(), ""
    signal.setitimer(signal.ITIMER_REAL, WORK)
    out, err = io.StringIO(), io.StringIO()
    try:
        with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
            code = call()
        outcome = "refused" if isinstance(code, int) and code == 2 else "valid"
        text = err.getvalue()
        if outcome == "refused" and (len(text.splitlines()) != 1 or len(text) > 2_100 or HOSTILE.search(text[:-1])):
            outcome, detail = "traceback", f"not one sentence: {text[:300]!r}"
        if "memory of this machine" in text:  # a MemoryError: it was allocated before it was refused
            outcome, detail = "memory", text
    except InputError:
        outcome = "refused"
    except TooSlow:
        outcome = "valid"  # its work has begun
    except MemoryError as error:
        outcome, detail = "memory", str(error)
    except BaseException as error:
        outcome, detail = "traceback", f"{type(error).__name__}: {str(error)[:300]}"
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
    if (seconds := time.thread_time() - begun) > SECONDS:
        outcome, detail = "slow", f"{seconds:.1f} s"
    return outcome, detail


def attack(count: int, directory: Path, *, seed: int, torch: bool, first: int = 0) -> Counter[str]:
    """Try `count` cases from the `first` on, in an order chosen by a seed. Returns how often each outcome came.

    Without `torch`, the commands that import it are left out: the import takes longer than a short attack.
    """
    import numpy as np

    from manyheads import Layer, numbers, write_layer
    from manyheads.cli import main

    cases: list[tuple[str, Callable[[], object]]] = [
        (f"{title} {words[-1][:60]}", partial(main, words))
        for title, words in command_cases(directory)
        if torch or words[0] not in WITH_TORCH
    ]
    cases += library_cases()
    random.Random(seed).shuffle(cases)
    os.chdir(directory)
    np.save("rows.npy", np.zeros((8, 4), np.float32))
    weights = np.zeros((1, 4, 2))
    write_layer("layer.safetensors", Layer(weights, weights, threshold=-1.0))
    vars(numbers)["free_memory"] = lambda: MEMORY // 2  # so that the test does not depend on the machine
    for name, words in BASES.items():  # an import that is ended in its middle leaves damage
        if not torch and name in WITH_TORCH:
            continue
        with (
            contextlib.suppress(SystemExit),
            contextlib.redirect_stdout(io.StringIO()),
            contextlib.redirect_stderr(io.StringIO()),
        ):
            main([*name.split(), *words.split()])
    used = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
    resource.setrlimit(resource.RLIMIT_AS, (used + MEMORY, resource.RLIM_INFINITY))
    signal.signal(signal.SIGALRM, _stop)
    counts: Counter[str] = Counter()
    for title, call in cases[first : first + count]:
        (directory / "case").write_text(title)
        outcome, detail = judge(call)
        counts[outcome] += 1
        if outcome in FAILURES:
            print(f"{outcome}: {title}: {detail}", file=sys.stderr)
    return counts


def run_child(count: int, *, seed: int = 0, torch: bool = False, first: int = 0) -> tuple[dict[str, int], str]:
    """Run the attack in a child. Returns the counts and the text of its errors."""
    root = Path(__file__).parents[2]
    search = os.pathsep.join([str(root / "src"), str(root / "tests"), os.environ.get("PYTHONPATH", "")])
    with tempfile.TemporaryDirectory() as directory:
        done = subprocess.run(
            [
                sys.executable,
                "-m",
                "attack.numbers",
                str(count),
                "--seed",
                str(seed),
                "--first",
                str(first),
                "--child",
                directory,
                *(["--torch"] * torch),
            ],
            capture_output=True,
            text=True,
            cwd=root,
            env=os.environ | {"PYTHONPATH": search},
        )
        if done.returncode == 0:
            return json.loads(done.stdout.splitlines()[-1]), done.stderr
        case = Path(directory) / "case"
        if not case.exists():  # a command fails with its ordinary words: no case was tried
            raise RuntimeError(f"the attack does not start:\n{done.stderr[-3000:]}")
        return {"crash": 1}, f"{case.read_text()}\n{done.stderr[-3000:]}"


def main_script() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("count", type=int)
    parser.add_argument("--seed", type=int, default=0, help="decides which cases are tried")
    parser.add_argument("--first", type=int, default=0, help="the number of the first case")
    parser.add_argument("--torch", action="store_true", help="try the commands that need torch to their end")
    parser.add_argument("--child", type=Path, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.child is not None:
        counts = attack(options.count, options.child, seed=options.seed, torch=options.torch, first=options.first)
        print(json.dumps(counts), flush=True)
        os._exit(0)  # a thread of an ended case may still work
    found, errors = run_child(options.count, seed=options.seed, torch=options.torch, first=options.first)
    print(errors, file=sys.stderr, end="")
    print(json.dumps({"numbers": found}))
    return int(any(found.get(outcome) for outcome in FAILURES))


if __name__ == "__main__":
    sys.exit(main_script())
