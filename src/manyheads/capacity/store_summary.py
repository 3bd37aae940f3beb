"""Capacities in a store: its problems with their thresholds, and the experiments whose problems share a law."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from manyheads.bounds import BitsPerWeight, bits_per_weight
from manyheads.capacity.regression import MeasuredLaw, MeasuredProblem, law_regressions
from manyheads.capacity.search import PROBE, Search, search_threshold
from manyheads.capacity.thresholds import Goal, Point, Threshold, points
from manyheads.problem.embedding import GIVEN
from manyheads.problem.graph_kinds import GRAPH_KINDS, GraphFamily, graph_family
from manyheads.sweep import Record, Store

# the graph, the fields that follow from its kind or from d_model, and the step limit of a size (Table 2)
SIZES = ("items", "d_model", "graph", "degree", "positive_weight", "message_width", "initial_scale", "steps")

OWN_FIELDS = (
    "heads",
    "key_heads",
    "key_width",
    "seed",
    "problem_seed",
)  # the fields in which the runs of a measurement differ


@dataclass(frozen=True)
class StoredProblem:
    """Runs that are equal except for heads, key width and seed, and the smallest shape that works.

    Attributes:
        fields: The fields that the runs share.
        threshold: D_K* and h* of these runs.
        seeds: The number of seeds at a point: that of most points which have more than the probing seeds.
        runs: The number of runs with a score.
    """

    fields: dict[str, Any]
    threshold: Threshold
    seeds: int
    runs: int

    @property
    def experiment(self) -> dict[str, object]:
        """The fields that must be equal in two problems of one law: all fields except the graph and the sizes."""
        return {name: value for name, value in self.fields.items() if name not in SIZES}

    @property
    def measured(self) -> MeasuredProblem | None:
        """The point for a law; None if no shape works, or if the graph is known by its fingerprint only."""
        found, family = self.threshold, self._family
        if found.key_budget is None or found.heads is None or family is None:
            return None
        return MeasuredProblem(family.items, family.relations, self.fields["d_model"], found.key_budget, found.heads)

    @property
    def bits_per_weight(self) -> BitsPerWeight | None:
        """Bits per weight at D_K*; None where nothing works, or the graph is known by its fingerprint only."""
        found, family = self.threshold, self._family
        if found.heads is None or found.key_width is None or family is None:
            return None
        rows = found.heads + (found.key_heads or found.heads)
        return bits_per_weight(family, weights=self.fields["d_model"] * rows * found.key_width)

    @property
    def _family(self) -> GraphFamily | None:
        return stored_family(self.fields)


def stored_family(fields: Mapping[str, Any]) -> GraphFamily | None:
    """The family of a stored run's graph; None if the graph is known by its fingerprint only, or there is none.

    Args:
        fields: The fields of a run.
    """
    graph, items = str(fields.get("graph", GIVEN)), fields.get("items")
    if graph.startswith(GIVEN):
        return None
    # kinds other than these two are stored with their sizes
    sizes = {"permutation": f":{items}", "regular": f":{items}:{fields.get('degree')}"}
    return graph_family(graph + sizes.get(graph, ""))


def run_bits(fields: Mapping[str, Any]) -> BitsPerWeight | None:
    """Bits that a run asks of each weight: log2 of the number of graphs over the weights of W_Q and W_K.

    Args:
        fields: The fields of a run.

    Returns:
        The bits per weight; None if the graph is known by its fingerprint only, the run has no graph, or its kind
        of graph is not registered.
    """
    if str(fields.get("graph")).split(":")[0] not in GRAPH_KINDS:
        return None
    family = stored_family(fields)
    if family is None:
        return None
    rows = fields["heads"] + fields.get("key_heads", fields["heads"])
    return bits_per_weight(family, weights=fields["d_model"] * rows * fields["key_width"])


def stored_problems(records: Sequence[Record], goal: Goal) -> list[StoredProblem]:
    """The problems among the records.

    Args:
        records: Of any kinds; only layers that have a score for the goal count.
        goal: When a point counts as working.

    Returns:
        Each problem with its threshold, by its points that have all seeds.
    """
    grouped: dict[tuple[tuple[str, Any], ...], list[tuple[int, int, int, float]]] = {}
    for record in records:
        score = goal.score(record)
        if record.kind == "layer" and score is not None:
            run: dict[str, Any] = dict(record.run)
            heads, width, seed = (run.pop(name) for name in ("heads", "key_width", "seed"))
            if run["problem_seed"] == seed:
                del run["problem_seed"]
            shared = (*sorted(run.items()), ("engine", record.engine))
            grouped.setdefault(shared, []).append((heads, width, seed, score))
    return [_problem(dict(shared), scores, goal) for shared, scores in grouped.items()]


def known_points(store: Store, search: Search, like: Mapping[str, Any], engine: str, goal: Goal) -> list[Point]:
    """The points of a search, and those of the same problem, head counts and seeds that the store has besides.

    A curve that an earlier measurement filled is known to every later one, and to `results --capacity`.

    Args:
        store: The store of the search.
        search: The search.
        like: The fields of one of its runs.
        engine: The engine of its runs.
        goal: Gives the score of a record.

    Returns:
        The points.
    """
    same = {name: value for name, value in like.items() if name not in OWN_FIELDS}
    scores: dict[tuple[int, int, int], float | None] = {}
    for record in store.records({"items": like["items"], "d_model": like["d_model"], "kind": "layer"}):
        run: dict[str, Any] = dict(record.run)
        is_asked = run["heads"] in search.starts and run["seed"] in search.seeds
        is_drawn = run["problem_seed"] == run["seed"] and record.engine == engine
        is_shared_alike = is_asked and run.get("key_heads") == search.key_heads(run["heads"])
        if is_shared_alike and is_drawn and all(run.get(name) == value for name, value in same.items()):
            scores[run["heads"], run["key_width"], run["seed"]] = goal.score(record)
    for (heads, width), by_seed in search.scores.items():
        scores |= {(heads, width, seed): score for seed, score in by_seed.items()}
    known = ((*at, score) for at, score in scores.items() if score is not None)
    return points(known, key_heads=search.key_heads)


def _problem(fields: dict[str, Any], scores: list[tuple[int, int, int, float]], goal: Goal) -> StoredProblem:
    made = points(scores, key_heads=lambda heads: fields.get("key_heads"))
    # a measurement may stop a point after its probing seeds: the interval of such a point is too wide to use
    counts = Counter(len(point.scores) for point in made)
    probed = Counter({seeds: count for seeds, count in counts.items() if seeds > PROBE}) or counts
    seeds = max(probed, key=lambda one: (probed[one], one))
    full = [point for point in made if len(point.scores) >= seeds]
    return StoredProblem(fields, search_threshold(full, goal), seeds, len(scores))


@dataclass(frozen=True)
class Experiment:
    """Problems that differ only in their graphs and sizes, and the laws through them.

    Attributes:
        differs: The fields, with their values, in which it differs from the store's other experiments.
        problems: Its problems.
        laws: The laws through the capacities of its problems.
    """

    differs: dict[str, object]
    problems: tuple[StoredProblem, ...]
    laws: tuple[MeasuredLaw, ...]

    @property
    def words(self) -> str:
        """The differences in words."""
        keys: dict[object, str] = {None: "every head has its own keys", 1: "all heads share 1 key head"}
        keyed = (keys.get(value, f"heads share {value} key heads") if name == "key_heads" else f"{name} {value}"
                 for name, value in self.differs.items())  # fmt: skip
        return ", ".join(keyed)


def experiments(found: Sequence[StoredProblem]) -> list[Experiment]:
    """Group problems by experiment. One law holds for one rule and one context length, not for several together.

    Args:
        found: The problems of a store.

    Returns:
        The experiments, each with the laws through its problems.
    """
    grouped: dict[str, list[StoredProblem]] = {}
    for problem in found:
        grouped.setdefault(json.dumps(problem.experiment, sort_keys=True), []).append(problem)
    fields = [dict(problems[0].experiment) for problems in grouped.values()]
    names = sorted({name for one in fields for name in one if len({repr(other.get(name)) for other in fields}) > 1})
    return [
        Experiment(
            {name: one.get(name) for name in names},
            tuple(problems),
            tuple(law_regressions([measured for problem in problems if (measured := problem.measured) is not None])),
        )
        for one, problems in zip(fields, grouped.values(), strict=True)
    ]
