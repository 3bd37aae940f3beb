"""Decide one head around its transition, for several families; each row is stored as soon as it is decided.

Parts: permutation, regular:2, regular:4 (64 to 512 items, Gaussian rows), 1024, 2048, 4096 (permutations of that many
items), wordnet, which needs `--data FOLDER` with the files named in REAL, and missed (the relations that every head
misses). A second call continues where the first one stopped, and searches again what was undecided. Several parts may
be decided at the same time.
"""

from __future__ import annotations

import fcntl
import subprocess
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from manyheads.certificate.exclusion import exclude
from manyheads.certificate.exclusion_proof import check_exclusion
from manyheads.certificate.few_pairs import one_item
from manyheads.problem.graph import Graph
from manyheads.problem.problem import Problem
from manyheads.training import Task
from tools.pages.catalogue import Settings
from tools.pages.one_head.several_heads import missed_row
from tools.pages.one_head.text import law
from tools.pages.rows import DATA, Row, machine_rows, matching, read_rows, write_rows

NAME = "one-head"
WIDER = 2
SEEDS = 5
REAL = "smollm2_top6144_f16.npy", "smollm2_top6144_wordnet_triples.npz"
HYPERNYM = "@"


@dataclass(frozen=True)
class Place:
    """A family at one size, decided in every dimension around the transition, or only in those listed."""

    part: str
    family: str
    items: int
    seeds: int = SEEDS
    wider: int = WIDER
    """Dimensions that are decided beyond the last excluded and the first held one, on either side."""
    dimensions: tuple[int, ...] = ()
    """If given, only these are decided."""


SIZES = (64, 128, 256, 512)
FAMILIES = ("permutation", "regular:2", "regular:4")
PLACES = (
    *(Place(family, family, items) for items in SIZES for family in FAMILIES),
    Place("1024", "permutation", 1024),
    Place("2048", "permutation", 2048, seeds=1, dimensions=(128, 148, 136, 144)),
    Place("2048", "permutation", 2048, seeds=1, wider=0),
    Place("4096", "permutation", 4096, seeds=1, dimensions=(192, 224, 216, 200)),
    *(Place("wordnet", "wordnet", items, seeds=1) for items in (128, 256, 512)),
)
MISSED = ((16, 4), (32, 4), (32, 8), (64, 4), (64, 8))  # (items, d_model) of the bound for several heads
PARTS = (*dict.fromkeys(place.part for place in PLACES), "missed")


def gaussian_problem(family: str, items: int) -> Callable[[int, int], Problem]:
    """The graph and embedding that `manyheads measure` would train on, by d_model and seed."""
    name, _, degree = family.partition(":")
    graph = f"{name}:{items}:{degree}" if degree else f"{name}:{items}"
    return lambda d_model, seed: Task(graph, f"gaussian:{d_model}").draw(seed)


def wordnet_problem(folder: Path, items: int) -> Callable[[int, int], Problem]:
    """The hypernyms among the most frequent tokens that have one, over the leading directions of SmolLM2's rows."""
    rows = np.load(folder / REAL[0], allow_pickle=False).astype(np.float64)
    with np.load(folder / REAL[1], allow_pickle=False) as file:
        triples, names = file["triples"], [str(name) for name in file["relations"]]
    pairs = triples[triples[:, 1] == names.index(HYPERNYM)][:, [0, 2]]
    # the tokens in the order of their frequency, each followed by the tokens that its relations need
    chosen = list(dict.fromkeys(pairs[np.argsort(pairs.max(axis=1), kind="stable")].ravel().tolist()))[:items]
    place = {token: n for n, token in enumerate(chosen)}
    relations = [(place[a], place[b]) for a, b in pairs.tolist() if a in place and b in place]
    sources, targets = (np.array(side) for side in zip(*sorted(set(relations)), strict=True))
    own = rows[chosen] - rows[chosen].mean(axis=0)
    left, strengths, _ = np.linalg.svd(own, full_matrices=False)

    def problem(d_model: int, _seed: int) -> Problem:
        leading = left[:, :d_model] * strengths[:d_model]
        return Problem(Graph(items, sources, targets), leading / np.linalg.norm(leading, axis=1, keepdims=True))

    return problem


def around(start: float, decide: Callable[[int], str], wider: int) -> Iterator[int]:
    """The dimensions to decide: from the law down to one excluded, up to one held, and `wider` more on either side."""
    low = high = max(2, round(start))
    yield low
    while low > 2 and decide(low) != "excluded":
        low -= 1
        yield low
    while decide(high) != "held":
        high += 1
        yield high
    verdicts = {d: decide(d) for d in range(low, high + 1)}
    first = min(d for d, verdict in verdicts.items() if verdict != "excluded")
    last = max(d for d, verdict in verdicts.items() if verdict != "held")
    for further in range(1, wider + 1):
        yield max(2, first - 1 - further)
        yield last + 1 + further


def commit() -> str:
    """The commit whose code decides, short."""
    told = subprocess.run(["git", "rev-parse", "--short=12", "HEAD"], capture_output=True, text=True, cwd=DATA)
    return told.stdout.strip()


def store(row: Row) -> None:
    """Add one row; it replaces an undecided row of the same problem, which stays until then."""
    problem = {column: row[column] for column in ("family", "items", "d_model", "seed")}
    with Path(__file__).open() as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)  # another part may store a row at the same time
        kept = read_rows(NAME)
        for old in matching(kept, **problem):
            kept.remove(old)
        write_rows(NAME, [*kept, row])


def decide_place(place: Place, draw: Callable[[int, int], Problem], seed: int, code: str) -> Iterator[Row]:
    """The rows of one place and seed that are missing, each decided when it is asked for."""
    key = {"family": place.family, "items": place.items, "seed": seed}
    stored = matching(read_rows(NAME), **key)
    verdicts = {row["d_model"]: row["verdict"] for row in stored if row["verdict"] != "undecided"}
    relations = draw(2, seed).relations

    order = around(law(place.items, relations), lambda d: verdicts[d], place.wider)
    for d_model in place.dimensions or order:
        if d_model in verdicts:
            continue
        answer = exclude(draw(d_model, seed), workers=1)
        verdicts[d_model] = answer.verdict
        yield {
            "family": place.family,
            "items": place.items,
            "relations": relations,
            "d_model": d_model,
            "seed": seed,
            "verdict": answer.verdict,
            "steps": answer.steps,
            "seconds": answer.seconds,
            "share": answer.share,
            "margin": answer.certificate and answer.certificate.normalised_margin,
            "commit": code,
        }


def hub_row(draw: Callable[[int, int], Problem], items: int) -> Row:
    """The largest d_model at which the pairs of one token alone exclude the graph, and how many relations they have."""
    held = matching(read_rows(NAME), family="wordnet", items=items, verdict="held")
    for d_model in range(min(row["d_model"] for row in held) - 1, 1, -1):
        problem = draw(d_model, 0)
        matrix = one_item(problem)
        if matrix is not None and (check := check_exclusion(problem, matrix)).proved:
            relations = int((matrix > 0).sum())
            return {"items": items, "d_model": d_model, "token_relations": relations, "share": check.share}
    raise ValueError("no token excludes the graph alone at any width")


def measure(settings: Settings) -> None:
    """Decide every place that has no row, or only one part; WordNet's rows are kept if no folder is given."""
    code = commit()
    for place in PLACES:
        if settings.only not in (None, place.part) or (place.part == "wordnet" and settings.data is None):
            continue
        if place.part == "wordnet":
            assert settings.data is not None
            draw = wordnet_problem(settings.data, place.items)
        else:
            draw = gaussian_problem(place.family, place.items)
        for seed in range(place.seeds):
            for row in decide_place(place, draw, seed, code):
                store(row)
                print(row, flush=True)
    if settings.only in (None, "wordnet") and settings.data is not None:
        sizes = [place.items for place in PLACES if place.part == "wordnet"]
        write_rows(f"{NAME}-hubs", [hub_row(wordnet_problem(settings.data, items), items) for items in sizes])
    if settings.only in (None, "missed"):
        draws = (gaussian_problem("permutation", items)(d_model, 0) for items, d_model in MISSED)
        write_rows(f"{NAME}-missed", [missed_row(problem) for problem in draws])
    write_rows(f"{NAME}-machine", machine_rows())
