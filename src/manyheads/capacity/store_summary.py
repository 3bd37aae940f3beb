"""What a store knows of capacities: every problem it has runs of, with its threshold."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass

from manyheads.capacity.goal import Goal
from manyheads.capacity.measured_laws import Measured
from manyheads.capacity.point import points
from manyheads.capacity.search import PROBE
from manyheads.capacity.thresholds import Threshold, threshold
from manyheads.sweep import Record

# the graph, what follows from its kind or from d_model, and how long is trained at which size (Table 2)
SIZES = ("items", "d_model", "graph", "degree", "positive_weight", "message_width", "initial_scale", "steps")


@dataclass(frozen=True)
class Problem:
    """Runs that differ in nothing but heads, key width and seed, and where they begin to work."""

    fields: dict[str, object]
    threshold: Threshold
    seeds: int
    runs: int

    @property
    def experiment(self) -> dict[str, object]:
        """What two problems must have in common for one law to go through both: all but the graph and the sizes."""
        return {name: value for name, value in self.fields.items() if name not in SIZES}

    @property
    def measured(self) -> Measured | None:
        """What a law can be fitted to; None where nothing works, or the graph is known by its fingerprint only."""
        items, degree, d_model = (self.fields[name] for name in ("items", "degree", "d_model"))
        found, drawn = self.threshold, self.fields["graph"] in ("permutation", "regular")
        if found.key_budget is None or found.heads is None or not drawn:
            return None
        assert isinstance(items, int)
        assert isinstance(degree, int)
        assert isinstance(d_model, int)
        return Measured(items, items * degree, d_model, found.key_budget, found.heads)


def problems(records: Sequence[Record], goal: Goal) -> list[Problem]:
    """The problems among the records, each judged by its points that have more than the probing seeds."""
    grouped: dict[str, list[tuple[int, int, int, float]]] = {}
    for record in records:
        score = goal.score(record)
        if record.kind == "layer" and score is not None:
            run = json.loads(record.run)
            heads, width, seed = (run.pop(name) for name in ("heads", "key_width", "seed"))
            if run["problem_seed"] == seed:
                del run["problem_seed"]
            grouped.setdefault(json.dumps(run | {"engine": record.engine}), []).append((heads, width, seed, score))
    return [_problem(json.loads(run), scores, goal) for run, scores in grouped.items()]


def _problem(fields: dict[str, object], scores: list[tuple[int, int, int, float]], goal: Goal) -> Problem:
    made = points(scores)
    seeds = max(len(point.scores) for point in made)
    # a point that a measurement gave up after its probing seeds has no interval to speak of
    full = [point for point in made if len(point.scores) > PROBE or len(point.scores) == seeds]
    return Problem(fields, threshold(full, target=goal.target), seeds, len(scores))
