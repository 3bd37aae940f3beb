"""grid: a run repeated over the values of some of its fields."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from itertools import product

from manyheads.errors import InputError
from manyheads.training import Run


def grid(like: Run, axes: Mapping[str, Sequence[int | float | str]]) -> list[Run]:
    """Runs like this one at every combination of the values; impossible ones are named, all of them, in one sentence.

    >>> from manyheads.training import Task
    >>> like = Run(Task("permutation:64", "gaussian:16"), heads=1, key_width=1, seed=0)
    >>> [(run.heads, run.key_width) for run in grid(like, {"heads": (1, 2), "key_width": (4, 8)})]
    [(1, 4), (1, 8), (2, 4), (2, 8)]
    """
    runs, refused = [], []
    for values in product(*axes.values()):
        setting = dict(zip(axes, values, strict=True))
        try:
            runs.append(replace(like, **setting))  # type: ignore[arg-type]
        except (InputError, TypeError) as error:
            refused.append(f"{', '.join(f'{name} {value}' for name, value in setting.items())} ({error})")
    if refused:
        raise InputError(f"{len(refused)} of {len(refused) + len(runs)} runs are impossible: {'; '.join(refused)}")
    return runs
