"""RetrievalRun: its id, its widths, and the sentence for each impossible run."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from support.tiny_retrieval import TINY

from manyheads import InputError
from manyheads.retrieval import RetrievalRun


def test_widths_are_settled() -> None:
    by_head, by_all = (RetrievalRun(4, 8, 2, 0, head_width=n, embedding_width=E) for n, E in ((8, None), (None, 16)))
    assert by_head.id == by_all.id
    assert (by_all.width, by_head.embedding) == (8, 16)
    assert replace(by_head, problem_seed=0).id == by_head.id != replace(by_head, problem_seed=1).id


@pytest.mark.parametrize(
    ("changes", "says"),
    [
        ({"dimension": 0}, "dimension is a whole number from 1"),
        ({"embedding_width": 7}, "2 heads of width 3 make up 6 dimensions, not E = 7"),
        ({"head_width": None, "embedding_width": 7}, "E = 7 cannot be divided into 2 heads"),
        ({"head_width": None}, "give head_width or embedding_width"),
        ({"heads": 0}, "heads is a whole number from 1"),
        ({"length": 0}, "length is a whole number from 1"),
        ({"task": "minima"}, "unknown task 'minima'"),
        ({"task": "max_and_min"}, "D = 2 and d = 1, not D = 2 and d = 2"),
        ({"task": "digits"}, "digits have D = 4 and d = 4"),
        ({"task": "digits", "dimension": 4, "input_width": 4}, "a digit has 16 patches"),
        ({"batch": 61}, "larger than the 60 training examples"),
        ({"validation_examples": 1}, "at least 2 validation examples"),
        ({"learning_rate": -1.0}, "learning_rate is a number from 0"),
        ({"steps": 0}, "steps is a whole number from 1"),
    ],
)
def test_impossible_runs_are_one_sentence(changes: dict[str, Any], says: str) -> None:
    with pytest.raises(InputError, match=says):
        replace(TINY, **changes)
