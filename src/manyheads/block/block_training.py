"""train_blocks: blocks of one shape to their end, several seeds in one call."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from jaxtyping import Float
from numpy import ndarray

from manyheads.block.block_data import table_of
from manyheads.block.block_outcome import Answers, BlockCheck, BlockOutcome
from manyheads.block.block_run import BlockRun
from manyheads.errors import InputError
from manyheads.training.course import Course, cut
from manyheads.training.data import Stream

STRIDE = 8
"""Steps between two looks at the clock: at the paper's size under a second on two cores."""


@dataclass
class BlockCourse(Course):
    """How one block goes: also its validation checks, and the best of them."""

    curve: list[BlockCheck] = field(default_factory=list)
    best: BlockCheck | None = None
    seconds: float = 0.0

    def check(self, answers: Answers) -> bool:
        """Note a validation check, and say whether it is the best so far."""
        self.curve.append(BlockCheck(self.steps, answers.accuracy, self.mean_loss()))
        if self.best is not None and answers.accuracy <= self.best.accuracy:
            return False
        self.best = self.curve[-1]
        return True


def train_blocks(
    runs: Sequence[BlockRun],
    *,
    table: Float[ndarray, "rows d_model"] | None = None,
    device: str = "cpu",
    time_limit: float | None = None,
    keep_going: Callable[[], bool] = lambda: True,
    progress: Callable[[Sequence[BlockCheck]], None] = lambda _: None,
) -> list[BlockOutcome]:
    """Train runs that differ in their seeds only, each as if alone, for the fixed number of updates they name.

    `table` is for runs that name one by its fingerprint. A run ends before its last step when its loss is no number
    (diverged), at the `time_limit` (seconds), or when it shall not keep going. `progress` hears of every validation, by
    the latest check of each run that is still sound.
    """
    begun = time.perf_counter()
    tables = [table_of(run, table) for run in runs]
    try:
        from manyheads.block.block_batch import Batch  # torch is an optional extra
    except ModuleNotFoundError:
        raise InputError("a block needs torch: install manyheads[torch]") from None
    batch = Batch(runs, tables, device=device)
    limit, every = batch.run.steps, batch.run.validate_every
    courses = [BlockCourse() for _ in runs]
    while batch.step < limit and (going := [n for n, course in enumerate(courses) if course.stopped is None]):
        losses = batch.advance(min(STRIDE, every - batch.step % every, limit - batch.step))
        for n in going:
            courses[n].advance(losses[:, n])
        if batch.step % every == 0 or batch.step == limit:
            answers = batch.evaluate(batch.weights, Stream.VALIDATION, batch.run.validation_examples)
            sound = batch.sound()
            for n in going:
                if not sound[n]:
                    courses[n].stopped = "diverged"
                elif courses[n].stopped is None and courses[n].check(answers[n]):
                    batch.keep(n)
            progress([courses[n].curve[-1] for n in going if courses[n].stopped is None])
        seconds = time.perf_counter() - begun
        ended = cut(seconds, time_limit, keep_going) if batch.step < limit else None
        for n in going:
            courses[n].seconds = seconds
            courses[n].stopped = courses[n].stopped or ended
    trained = time.perf_counter()
    whole = [course.stopped is None for course in courses]
    tests = batch.evaluate(batch.best, Stream.TEST, batch.run.test_examples) if any(whole) else []
    tested = time.perf_counter() - trained
    return [
        BlockOutcome(
            run=run,
            stopped=course.stopped or "limit",
            steps=course.steps,
            best=course.best,
            test=tests[n] if whole[n] else None,
            weights=batch.best_of(n) if course.best is not None else None,
            curve=tuple(course.curve),
            seconds=course.seconds + (tested if whole[n] else 0.0),
        )
        for n, (run, course) in enumerate(zip(runs, courses, strict=True))
    ]
