"""Measure D_K* of the calibration problems of `plan`, and check its advice on other problems.

Parts: calibration; heads, the smallest key width at each head count; check, the 60 problems of the present advice.
Every run is kept in a store, so that an interrupted measurement continues where it stopped. The problems of a check
come from a seed that was fixed before any of them was trained; the calibration problems come from other seeds. The
problems of earlier checks joined the calibration, and the last check has 60 problems of its own.

`python -m tools.pages.plan_check.measurement` prints the constants of planning/prediction.py, fitted to the rows.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from manyheads import InputError, Protocol, Run, Task
from manyheads.bounds import freedom_key_width
from manyheads.capacity import Budget, measure_protocol
from manyheads.capacity import measure as measure_capacity
from manyheads.layer.rules import rule_named
from manyheads.planning import Plan, plan, prediction
from manyheads.sweep import Store, Workers, sweep, threads
from tools.pages.catalogue import Settings
from tools.pages.plan_check.regression import paper_thresholds, regression, thresholds
from tools.pages.plan_check.text import (
    CHECK_COUNT,
    CHECKS,
    COLUMNS,
    HEADS,
    LARGEST_RATIO,
    LAW_LIMIT,
    SECONDS,
    SEEDS,
    TARGET_F1,
)
from tools.pages.rows import Row, machine_rows, matching, read_rows, write_rows

PARTS = ("calibration", "heads", "check")
CALIBRATION: tuple[tuple[int, int, str, Callable[[CheckProblem], bool]], ...] = (
    # seed, count, rule, and a condition that selects from the problems of the seed
    (101, 80, "max", lambda p: p.items <= 16 * p.d_model),
    (202, 120, "max", lambda p: 16 * p.d_model < p.items <= 50 * p.d_model and p.relations <= 700),
    (303, 60, "softmax", lambda p: p.items <= 12 * p.d_model and p.relations <= 220),
    (404, 150, "max", lambda p: p.items > 11 * p.d_model and p.work <= 2e10),  # crowded rows, where two checks missed
)
EARLIER = sorted(CHECKS)[:-1]  # checks whose problems joined the calibration
HEADS_OF = {1: 2, 2: 2, 3: 1}  # measured at each head count: every second problem of checks 1 and 2, all of check 3
MOST_WORK = 1.6e9  # of these problems; the paper's runs have larger ones
ITEMS, D_MODELS, DEGREES = (32, 512), (12, 96), (1, 4)


@dataclass(frozen=True)
class CheckProblem:
    """A regular graph (a permutation for degree 1) on Gaussian rows."""

    items: int
    d_model: int
    degree: int
    rule: str = "max"

    @property
    def relations(self) -> int:
        """m' = m · degree."""
        return self.items * self.degree

    @property
    def work(self) -> int:
        """A number roughly proportional to the training time, by which problems are ordered."""
        return self.protocol.steps * self.items * self.relations

    @property
    def task(self) -> Task:
        """The family of problems from which each seed draws one."""
        graph = f"permutation:{self.items}" if self.degree == 1 else f"regular:{self.items}:{self.degree}"
        return Task(graph, f"gaussian:{self.d_model}")

    @property
    def protocol(self) -> Protocol:
        """The paper's protocol, with its step limit for the size."""
        return measure_protocol(self.task, rule=rule_named(self.rule))

    def run(self, heads: int, key_width: int, seed: int) -> Run:
        """A run by the paper's protocol."""
        rule = rule_named(self.rule)
        return Run(self.task, heads=heads, key_width=key_width, seed=seed, rule=rule, protocol=self.protocol)


def problems(seed: int, count: int, *, rule: str = "max") -> list[CheckProblem]:
    """`count` random problems: sizes uniform in their logarithms, degrees uniform."""
    rng = np.random.default_rng(seed)
    found = []
    for _ in range(count):
        items, d_model = (
            round(math.exp(rng.uniform(math.log(low), math.log(high)))) for low, high in (ITEMS, D_MODELS)
        )
        found.append(CheckProblem(items, d_model, int(rng.integers(*DEGREES, endpoint=True)), rule))
    return found


def measured(problem: CheckProblem, store: Store, workers: Workers, *, also: Sequence[int] = ()) -> Row:
    """D_K* over the head counts near the law's best, and over the head counts `also`."""
    widths = {
        h: freedom_key_width(items=problem.items, relations=problem.relations, d_model=problem.d_model, heads=h)
        for h in (*HEADS, *also)
    }
    budgets = {h: h * width for h, width in widths.items() if width is not None}
    least = min(budgets.values(), default=0)
    heads = [h for h, budget in budgets.items() if budget <= LAW_LIMIT * least or h in also]
    capacity = measure_capacity(
        problem.task,
        heads=heads,
        seeds=SEEDS,
        store=store,
        rule=rule_named(problem.rule),
        protocol=problem.protocol,
        budget=Budget(seconds=SECONDS),
        workers=workers,
    )
    return {
        "seeds": len(SEEDS),
        "measured": capacity.key_budget,
        "measured_heads": capacity.heads,
        "complete": capacity.complete,
        "runs": capacity.runs,
    }


def calibrate(store: Store, workers: Workers) -> None:
    """D_K* of the calibration problems without a row, those with little work first."""
    rows = read_rows("plan-calibration")
    for seed, count, rule, wanted in CALIBRATION:
        for problem in sorted(filter(wanted, problems(seed, count, rule=rule)), key=lambda p: p.work):
            key = {"items": problem.items, "d_model": problem.d_model, "degree": problem.degree, "rule": problem.rule}
            if matching(rows, **key):
                continue
            advice = advised(problem)  # its head count is measured as well: HEADS may contain no sufficient one
            also = [advice.recommended.heads] if advice else []
            rows.append(key | measured(problem, store, workers, also=also))
            write_rows("plan-calibration", rows)
            print(rows[-1], flush=True)


def measure_heads(store: Store, workers: Workers) -> None:
    """The smallest key width at each head count, for problems of earlier checks without a row, by their work."""
    rows = read_rows("plan-heads") or paper_thresholds()
    known = [problem for number in HEADS_OF for problem in problems(CHECKS[number], CHECK_COUNT)[:: HEADS_OF[number]]]
    for problem in sorted(known, key=lambda p: p.work):
        key = {"items": problem.items, "d_model": problem.d_model, "degree": problem.degree}
        if problem.work > MOST_WORK or matching(rows, **key, source="heads"):
            continue
        for heads in head_counts(problem):
            width = smallest_width(problem, heads, store, workers)
            low = problem.d_model if width is None else width - 1
            rows.append(key | {"heads": heads, "too_narrow": low, "key_width": width, "source": "heads"})
        write_rows("plan-heads", rows)
        print(*matching(rows, **key, source="heads"), sep="\n", flush=True)


def head_counts(problem: CheckProblem) -> list[int]:
    """The head counts for which the law asks for at most LAW_LIMIT times its least key budget."""
    sizes = {"items": problem.items, "relations": problem.relations, "d_model": problem.d_model}
    widths = {heads: freedom_key_width(**sizes, heads=heads) for heads in HEADS}
    budgets = {heads: heads * width for heads, width in widths.items() if width is not None}
    return [heads for heads, budget in budgets.items() if budget <= LAW_LIMIT * min(budgets.values())]


def smallest_width(problem: CheckProblem, heads: int, store: Store, workers: Workers) -> int | None:
    """The smallest key width whose mean F1 reaches the target, found by halving; None if d_model is too narrow."""

    def reached(width: int) -> bool:
        total = 0.0
        for done, seed in enumerate(SEEDS, 1):
            (record,) = sweep([problem.run(heads, width, seed)], store, workers=workers)
            total += record.score("micro_f1") or 0.0
            if total + len(SEEDS) - done < TARGET_F1 * len(SEEDS):  # not even an F1 of 1 in the other seeds is enough
                return False
        return True

    start = prediction.predict(items=problem.items, relations=problem.relations, d_model=problem.d_model).key_budget
    low, high, width = 0, problem.d_model + 1, min(problem.d_model, max(1, round(start / heads)))
    while high - low > 1:
        if reached(width):
            high = width
            width = max((low + high) // 2, int(0.8 * high))
        else:
            low = width
            width = min((low + high) // 2, math.ceil(1.25 * low))
    return None if high > problem.d_model else high


def advised(problem: CheckProblem) -> Plan | None:
    """The present advice, or None if the rows are too narrow for any advice."""
    try:
        return plan(items=problem.items, relations=problem.relations, d_model=problem.d_model)
    except InputError:
        return None


def constants() -> dict[str, list[float]]:
    """The constants of planning/prediction.py, from the stored rows."""
    rows = [row for row in calibration() if row["measured"] is not None and row["complete"]]
    hard, soft = (matching(rows, rule=rule) for rule in ("max", "softmax"))
    found = regression(thresholds(hard, [row for number in EARLIER for row in read_rows(f"plan-check-{number}")]))
    ratios = _ratios(hard)
    found["BUDGET"] = [float(np.exp(ratios.mean())), float(ratios.std(ddof=1))]
    ratios = _ratios(soft) - ratios.mean()
    found["SOFTMAX, its spread"] = [float(np.exp(ratios.mean())), float(ratios.std(ddof=1))]
    return found


def calibration() -> list[Row]:
    """The rows of D_K* that the constants are fitted to: calibration problems, and problems of the earlier checks."""
    earlier = [row for number in EARLIER for row in read_rows(f"plan-check-{number}")]
    return read_rows("plan-calibration") + [row | {"rule": "max"} for row in earlier]


def _ratios(rows: Sequence[Row]) -> np.ndarray:
    """ln of the measured D_K* over the least predicted h·d_k of the rule max."""
    found = []
    for row in rows:
        sizes = {"items": row["items"], "relations": row["items"] * row["degree"], "d_model": row["d_model"]}
        widths = prediction.key_widths(**sizes)
        found.append(math.log(row["measured"] / (widths.heads * widths.likely).min()))
    return np.array(found)


def check(store: Store, workers: Workers) -> None:
    """The problems of the last check without a row, those with little work first."""
    last = max(CHECKS)
    rows = read_rows(f"plan-check-{last}")
    for number, problem in sorted(enumerate(problems(CHECKS[last], CHECK_COUNT)), key=lambda one: one[1].work):
        if matching(rows, number=number):
            continue
        row: Row = {"number": number, "items": problem.items, "d_model": problem.d_model, "degree": problem.degree}
        rows = sorted([*rows, row | checked(problem, store, workers)], key=lambda row: row["number"])
        write_rows(f"plan-check-{last}", rows)
        print(f"{len(rows)} of {CHECK_COUNT}:", *matching(rows, number=number), flush=True)
    write_rows("plan-check-machine", machine_rows())


def checked(problem: CheckProblem, store: Store, workers: Workers) -> Row:
    """The advice, the F1 that it reaches, and the measured D_K*."""
    advice = advised(problem)
    if advice is None:  # counts as a miss
        return dict.fromkeys(COLUMNS)
    heads, width = advice.recommended.heads, advice.recommended.key_width
    records = sweep([problem.run(heads, width, seed) for seed in SEEDS], store, workers=workers)
    finished = [score for record in records if (score := record.score("micro_f1")) is not None]
    f1 = float(np.mean(finished)) if len(finished) == len(SEEDS) else None
    found = measured(problem, store, workers, also=[heads])
    budget, star = heads * width, found["measured"]
    return {
        "predicted": advice.predicted.key_budget,
        "heads": heads,
        "key_width": width,
        "key_budget": budget,
        "f1": f1,
        **found,
        "ratio": None if star is None else budget / star,
        "held": f1 is not None and f1 >= TARGET_F1 and star is not None and budget <= LARGEST_RATIO * star,
    }


def measure(settings: Settings) -> None:
    """Measure the calibration problems and the problems of the last check that have no row."""
    path = settings.store or Path("plan-check.db")
    with Store.write(path) as store, threads(settings.workers) as workers:
        if settings.only in (None, "calibration"):
            calibrate(store, workers)
        if settings.only in (None, "heads"):
            measure_heads(store, workers)
        if settings.only in (None, "check"):
            check(store, workers)


if __name__ == "__main__":
    for name, values in constants().items():
        print(name, "=", ", ".join(f"{value:.4g}" for value in values))
