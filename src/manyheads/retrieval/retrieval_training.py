"""train_retrievals: networks of several seeds and head counts to their end, in one call."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from manyheads.errors import InputError
from manyheads.retrieval.examples import Examples, examples_of
from manyheads.retrieval.retrieval_outcome import RetrievalCheck, RetrievalOutcome
from manyheads.retrieval.retrieval_run import RetrievalRun
from manyheads.training.course import Course, cut

STRIDE = 20
"""Steps between two looks at the clock."""


@dataclass
class RetrievalCourse(Course):
    """How one network goes: also its validation checks."""

    curve: list[RetrievalCheck] = field(default_factory=list)

    def check(self, nmse: float) -> None:
        """Note a look at the validation set."""
        self.curve.append(RetrievalCheck(self.steps, nmse, self.mean_loss()))


def train_retrievals(
    runs: Sequence[RetrievalRun],
    *,
    examples: Examples | None = None,
    device: str = "cpu",
    time_limit: float | None = None,
    keep_going: Callable[[], bool] = lambda: True,
) -> list[RetrievalOutcome]:
    """Train runs that differ in their seeds and heads only, each as if alone, for the number of steps they name.

    `examples` is for runs that name them by their fingerprint. A run ends before its last step when its loss is no
    number (diverged), at the `time_limit` (seconds), or when it shall not keep going.
    """
    begun = time.perf_counter()
    drawn: dict[tuple[int, str], Examples] = {}
    for run in runs:
        if (run.problem, run.task) not in drawn:
            drawn[run.problem, run.task] = examples_of(run, examples)
    try:
        from manyheads.retrieval.retrieval_batch import Batch  # torch is an optional extra
    except ModuleNotFoundError:
        raise InputError("a retrieval network needs torch: install manyheads[torch]") from None
    batch = Batch(runs, [drawn[run.problem, run.task] for run in runs], device=device)
    limit, every, trained = batch.run.steps, batch.run.validate_every, batch.run.training_examples
    validation, training = slice(trained, trained + batch.run.validation_examples), slice(trained)
    courses = [RetrievalCourse() for _ in runs]
    while batch.step < limit and (going := [course for course in courses if course.stopped is None]):
        losses = batch.advance(min(STRIDE, every - batch.step % every, limit - batch.step))
        for course, own in zip(courses, losses.T, strict=True):
            if course.stopped is None:
                course.advance(own)
        if batch.step % every == 0 or batch.step == limit:
            for course, nmse, sound in zip(courses, batch.nmse(validation), batch.sound(), strict=True):
                if course.stopped is None and not sound:
                    course.stopped = "diverged"
                elif course.stopped is None:
                    course.check(float(nmse))
        ended = cut(time.perf_counter() - begun, time_limit, keep_going) if batch.step < limit else None
        for course in going:
            course.stopped = course.stopped or ended
    fitted = batch.nmse(training)
    seconds = (time.perf_counter() - begun) / len(runs)
    return [
        RetrievalOutcome(
            run=run,
            stopped=course.stopped or "limit",
            steps=course.steps,
            nmse=course.curve[-1].nmse if course.stopped is None else None,
            training_nmse=float(fitted[place]) if course.stopped is None else None,
            weights=batch.weights_of(place) if course.stopped is None else None,
            curve=tuple(course.curve),
            seconds=seconds,
        )
        for place, (run, course) in enumerate(zip(runs, courses, strict=True))
    ]
