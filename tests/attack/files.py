"""The attack on files: damaged files are read equal or refused with a sentence, in seconds and in 500 MB.

python -m attack.files 20000          prints a table of counts; exit code 1 after any failure

A child reads the files under a limit of memory. A file that fails is kept in the directory that --keep names.
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from attack.kinds import Kind

MEMORY = 500 * 2**20
SECONDS = 5
OUTCOMES = ("equal", "other", "refused", "unseen", "traceback", "slow", "memory", "crash")
FAILURES = ("unseen", "traceback", "slow", "memory", "crash")


TRIES = 3  # a case that takes longer than SECONDS is repeated: a busy machine makes each case slow at some time


class TooSlow(BaseException):
    pass


def _stop(number: int, frame: object) -> None:
    raise TooSlow


def attack(count: int, directory: Path, *, first: int = 0, keep: Path | None = None) -> dict[str, Counter[str]]:
    """Damage `count` files and read them. Returns how often each kind had each outcome.

    `other` is a file without a checksum that is read as other content; `unseen` is the same of a file with one.
    """
    import numpy as np
    from attack.kinds import KINDS, fingerprint, prepare

    prepare(directory)
    good = []
    for kind in KINDS:
        path = directory / kind.name
        path.unlink(missing_ok=True)
        kind.write(path)
        good.append((path.read_bytes(), fingerprint(kind.read(path))))
        path.unlink()
    (directory / "config.json").unlink(missing_ok=True)
    used = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
    resource.setrlimit(resource.RLIMIT_AS, (used + MEMORY, resource.RLIM_INFINITY))
    for kind, (content, before) in zip(KINDS, good, strict=True):  # the limit alone must not refuse a good file
        (directory / kind.name).write_bytes(content)
        assert fingerprint(kind.read(directory / kind.name)) == before, kind.title
        (directory / kind.name).unlink()
    signal.signal(signal.SIGALRM, _stop)
    counts: dict[str, Counter[str]] = {kind.title: Counter() for kind in KINDS}
    for case in range(first, first + count):
        kind, (content, before) = KINDS[case % len(KINDS)], good[case % len(KINDS)]
        damaged = kind.damage(content, np.random.default_rng(case))
        path = directory / kind.name
        path.write_bytes(damaged)
        (directory / "case").write_text(f"{case} {kind.title}")
        for _ in range(TRIES):
            begun = time.monotonic()
            outcome, detail = _judge(kind, path, damaged, before)
            if (seconds := time.monotonic() - begun) <= SECONDS:
                break
            outcome, detail = "slow", f"{seconds:.1f} s in the last of {TRIES} tries"
        counts[kind.title][outcome] += 1
        if outcome in FAILURES:
            print(f"case {case}, {kind.title}: {outcome} {detail}", file=sys.stderr)
            if keep is not None:
                (keep / f"{case}-{kind.name}").write_bytes(damaged)
        path.unlink()
    return counts


def _judge(kind: Kind, path: Path, damaged: bytes, before: object) -> tuple[str, str]:
    """Read a damaged file once: the outcome and its details."""
    from attack.kinds import fingerprint

    from manyheads import InputError
    from manyheads.text import HOSTILE

    signal.setitimer(signal.ITIMER_REAL, 4 * SECONDS)
    try:
        after = fingerprint(kind.read(path))
        same = "unseen" if kind.guarded(damaged) else "other"
        return ("equal" if after == before else same), ""
    except InputError as error:
        if len(str(error)) > 2_100 or HOSTILE.search(str(error)):
            return "traceback", f"not one plain sentence: {str(error)[:200]!r}"
        return ("memory" if isinstance(error.__cause__, MemoryError) else "refused"), ""
    except TooSlow:
        return "slow", ""
    except MemoryError:
        return "memory", ""
    except BaseException as error:
        return "traceback", f"{type(error).__name__}: {str(error)[:200]}"
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)


def run_child(count: int, *, first: int = 0, keep: Path | None = None) -> tuple[dict[str, dict[str, int]], str]:
    """Run the attack in a child. Returns the counts and the text of its errors."""
    root = Path(__file__).parents[2]
    search = os.pathsep.join([str(root), str(root / "tests"), os.environ.get("PYTHONPATH", "")])
    with tempfile.TemporaryDirectory() as directory:
        words = [str(count), "--first", str(first), "--child", directory, *(["--keep", str(keep)] if keep else [])]
        done = subprocess.run(
            [sys.executable, "-m", "attack.files", *words],
            capture_output=True,
            text=True,
            cwd=root,
            env=os.environ | {"PYTHONPATH": search},
        )
        if done.returncode == 0:
            return json.loads(done.stdout), done.stderr
        case = Path(directory) / "case"
        number, _, title = (case.read_text() if case.exists() else "0 start").partition(" ")
        return {title: {"crash": 1}}, f"case {number}, {title}: exit code {done.returncode}\n{done.stderr[-2000:]}"


def table(counts: dict[str, dict[str, int]]) -> str:
    """The counts as a table of Markdown."""
    lines = [f"| file | {' | '.join(OUTCOMES)} |", "|---" * (1 + len(OUTCOMES)) + "|"]
    total: Counter[str] = Counter()
    for title, row in counts.items():
        total.update(row)
        lines.append(f"| {title} | {' | '.join(str(row.get(outcome, 0)) for outcome in OUTCOMES)} |")
    return "\n".join([*lines, f"| all | {' | '.join(str(total[outcome]) for outcome in OUTCOMES)} |"])


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("count", type=int)
    parser.add_argument("--first", type=int, default=0, help="the number of the first case")
    parser.add_argument("--keep", type=Path, help="a directory for the files that fail")
    parser.add_argument("--json", action="store_true", help="print JSON instead of a table")
    parser.add_argument("--child", type=Path, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.child is not None:
        print(json.dumps(attack(options.count, options.child, first=options.first, keep=options.keep)))
        return 0
    counts, errors = run_child(options.count, first=options.first, keep=options.keep)
    print(errors, file=sys.stderr, end="")
    total: Counter[str] = sum(map(Counter, counts.values()), Counter())
    print(json.dumps({"files": total}) if options.json else table(counts))
    return int(any(row.get(outcome) for row in counts.values() for outcome in FAILURES))


if __name__ == "__main__":
    sys.exit(main())
