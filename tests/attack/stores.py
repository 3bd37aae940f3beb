"""The attack on stores: one flipped bit is noticed, harmless or refused; never a traceback, never another answer.

python -m attack.stores 20000         prints the counts as JSON; exit code 1 after any failure
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
from collections import Counter
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path

import numpy as np
from support.runs import changed
from support.sabotage import TINY

from manyheads import InputError
from manyheads.capacity import Goal, stored_problems
from manyheads.sweep import Record, Store
from manyheads.text import HOSTILE

OUTCOMES = ("equal", "noticed", "refused", "different", "traceback", "lost")
FAILURES = ("different", "traceback", "lost")
GOAL = Goal(micro_f1=0.7)


def make_store(path: Path, *, seeds: int = 3) -> list[Record]:
    """A small store of made-up results, and its records."""
    rng = np.random.default_rng(0)
    records = [
        Record.of(
            changed(TINY, heads=heads, key_width=width, seed=seed), "layer", "native", status="limit", steps=40,
            scores={"micro_f1": min(1.0, heads * width / 8 + rng.random() / 20), "exact_errors": 3, "margin": 0.25},
            seconds=0.5, curve=[(20, rng.random(), rng.random()), (40, rng.random(), None)],
        )
        for heads in (1, 2) for width in (2, 3, 4) for seed in range(seeds)
    ]  # fmt: skip
    with Store.write(path) as store:
        store.add(records)
        return store.records()


def answer(records: Sequence[Record]) -> list[dict[str, object]]:
    """The answer that a store gives: the thresholds of its problems."""
    return [asdict(problem.threshold) for problem in stored_problems(records, GOAL)]


def outcome(path: Path, good: Sequence[Record]) -> tuple[str, str]:
    """What reading, writing and verifying a damaged store says: one of OUTCOMES, and details of a failure."""
    try:
        with Store.read(path) as store:
            found, counts, state = store.records(), store.counts(), store.state
        with Store.read(path, thorough=True) as store:
            thorough = store.state
        with Store.write(path) as store:  # what `measure` does: damaged rows are set aside, the others are kept
            kept, aside = store.records(), store.set_aside()
    except InputError as error:
        said = str(error)
        plain = len(said) <= 2_100 and not HOSTILE.search(said)
        return ("refused" if plain else "traceback"), f"not one plain sentence: {said!r}"
    except Exception as error:
        return "traceback", f"{type(error).__name__}: {error}"
    if any(record not in good for record in [*found, *kept]):
        return "different", "a record has changed"
    if kept != found or len({record.id for record in found}) < len(found) or sum(counts.values()) != len(found):
        return "different", "records are doubled, or reading and writing differ"
    if aside != len(state.damaged):
        return "lost", f"{len(state.damaged)} damaged rows, but {aside} set aside"
    if list(found) == list(good):
        return ("noticed" if state.notes or thorough.notes else "equal"), ""
    if not state.notes:
        return "different", f"{len(good) - len(found)} rows are missing without a word"
    return ("noticed" if len(found) + len(state.damaged) >= len(good) else "lost"), "a row is gone"


def attack(count: int, directory: Path, *, first: int = 0, keep: Path | None = None) -> Counter[str]:
    """Flip one bit of a store, `count` times, each in a new copy. Returns how often each outcome was seen."""
    path = directory / "good.db"
    good = make_store(path)
    content, expected = path.read_bytes(), answer(good)
    counts: Counter[str] = Counter()
    for case in range(first, first + count):
        rng, damaged = np.random.default_rng(case), bytearray(content)
        place = int(rng.integers(8 * len(content)))
        damaged[place // 8] ^= 1 << place % 8
        copy = directory / "damaged.db"
        copy.write_bytes(damaged)
        result, detail = outcome(copy, good)
        if result == "noticed":
            with Store.write(copy) as store:  # the runs that are missing are trained again: here, added again
                store.add(good)
                if answer(store.records()) != expected:
                    result, detail = "different", "the answer differs after the missing runs were added"
        counts[result] += 1
        if result in FAILURES:
            print(f"case {case}, bit {place}: {result} {detail}", file=sys.stderr)
            if keep is not None:
                (keep / f"{case}.db").write_bytes(damaged)
        for left in directory.glob("damaged.db*"):
            left.unlink()
    return counts


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("count", type=int)
    parser.add_argument("--first", type=int, default=0, help="the number of the first case")
    parser.add_argument("--keep", type=Path, help="a directory for the stores that fail")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as directory:
        counts = attack(options.count, Path(directory), first=options.first, keep=options.keep)
    print(json.dumps({"stores": counts}))
    return int(any(counts[name] for name in FAILURES))


if __name__ == "__main__":
    sys.exit(main())
