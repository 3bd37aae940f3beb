"""Measure the constructions: smallest key budgets, limits, noise, softmax certificates, block sizes, WN18RR.

Parts: noise, background, softmax, incoherent, limit, smallest; wordnet, which needs `--data FOLDER` with WN18RR.
Rows that are stored are kept: delete a file of docs/data to measure it again.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from itertools import product
from pathlib import Path

import numpy as np

from manyheads import Graph, construct, gaussian, permutation_graph, sparse_binary
from manyheads.certificate import certify
from manyheads.construct import RADEMACHER, MatchingChoice, WidthLimit, WidthTrial
from manyheads.construct.matchings import equitable_matchings, lemma_matchings
from manyheads.construct.smallest_construction import default_matching_sizes
from manyheads.construct.width_limit import Threshold
from manyheads.problem.problem import Problem
from tools.pages.catalogue import Settings
from tools.pages.constructions.noise import background, decompose
from tools.pages.rows import Row, machine_rows, matching, read_rows, write_rows

THRESHOLDS: tuple[Threshold, ...] = ("paper", "best")
SEED = 0  # of the graph, of the embedding and of the first draw
POINTS = [(256, 32), (256, 128), (512, 256), (1024, 256), (1024, 512), (2048, 512)]
BUDGET_PER_ITEM = 4  # a search ends at 4·m; one head of width 1 for each relation needs m
LIMIT_BLOCKS = [1, 8, 16, 32, 64, 128, 256, 512, 1024, 2048]
NOISE = {"items": 1024, "d_model": 256, "key_width": 512}
NOISE_BLOCKS = [8, 16, 32, 64, 128, 256, 512, 1024]
BACKGROUND_HEADS, BACKGROUND_CONTEXTS = 16, 20
CONTEXT_LENGTHS = [16, 32, 64, 128, 256, 512]
SOFTMAX = {"items": 512, "d_model": 256, "block_size": 32, "key_width": 512, "context_length": 64}
SOFTMAX_SCALES = [0.15, 0.2, 0.25, 0.3, 0.35, 0.5, 1.0]
WN18RR = "wn18rr.npz"  # arrays entities, relations, and train, valid, test of (head, relation, tail)
WORDNET_D_MODEL = 576
WORDNET_CERTIFIED = ["_similar_to", "_verb_group", "_also_see"]


def random_problem(items: int, d_model: int) -> Problem:
    """A permutation over a Gaussian embedding."""
    return Problem(permutation_graph(items, seed=SEED), gaussian(items, d_model, seed=SEED))


def smallest_rows(known: list[Row]) -> Iterator[Row]:
    """The smallest key budget of heads with several relations, at both thresholds, at every point."""
    for (items, d_model), threshold in product(POINTS, THRESHOLDS):
        if matching(known, items=items, d_model=d_model, threshold=threshold):
            continue
        problem = random_problem(items, d_model)
        sizes = [size for size in default_matching_sizes(problem.graph, d_model) if size > 1]
        found = construct.smallest(
            problem, threshold=threshold, seed=SEED, matching_sizes=sizes,
            max_budget=BUDGET_PER_ITEM * items, progress=say,
        )  # fmt: skip
        best = found.best
        yield {
            "items": items, "d_model": d_model, "threshold": threshold, "max_budget": found.max_budget,
            "works": any(limit.separates(threshold) for limit in found.limits),
            "heads": best and best.heads, "block_size": best and best.matching_size,
            "key_width": best and best.key_width, "key_budget": best and best.key_budget, "certified": found.certified,
            "normalised_margin": found.certificate and found.certificate.normalised_margin,
        }  # fmt: skip


def limit_rows(known: list[Row]) -> Iterator[Row]:
    """The limit d_k → ∞ at every point and block size."""
    for (items, d_model), size in product(POINTS, LIMIT_BLOCKS):
        if size > items or matching(known, items=items, d_model=d_model, block_size=size):
            continue
        problem = random_problem(items, d_model)
        limit = construct.limit(problem, construct.split_sources(problem.graph, size=size))
        say(limit)
        yield {
            "items": items, "d_model": d_model, "block_size": size,
            "low": limit.window.low, "high": limit.window.high,
            "paper": limit.separates("paper"), "best": limit.separates("best"),
        }  # fmt: skip


def noise_rows(known: list[Row]) -> Iterator[Row]:
    """The terms of Sec. 5 at each block size, the largest over all pairs and heads, and the window of the scores."""
    problem = random_problem(NOISE["items"], NOISE["d_model"])
    width = NOISE["key_width"]
    signatures = RADEMACHER.draw(problem.items, width, seed=SEED)
    for size in NOISE_BLOCKS:
        if matching(known, block_size=size):
            continue
        blocks = construct.split_sources(problem.graph, size=size)
        largest = dict.fromkeys(("signal", "n1", "n2", "n1_mean", "n2_mean", "n3_mean", "n3_fluctuation"), 0.0)
        for block in blocks:
            mean, fluctuation = decompose(problem.rows, block, signatures)
            for name, term in {
                "signal": fluctuation.signal, "n1": mean.n1 + fluctuation.n1, "n2": mean.n2 + fluctuation.n2,
                "n1_mean": mean.n1, "n2_mean": mean.n2, "n3_mean": mean.n3, "n3_fluctuation": fluctuation.n3,
            }.items():  # fmt: skip
                largest[name] = max(largest[name], float(np.abs(term).max()) / width)
        layer = construct.compressive(problem, key_width=width, seed=SEED, matching_size=size)
        low, high = certify(layer, problem).window
        limit = construct.limit(problem, blocks)
        yield {
            **NOISE, "block_size": size, "heads": len(blocks), **largest, "low": low / width, "high": high / width,
            "limit_low": limit.window.low, "limit_high": limit.window.high,
        }  # fmt: skip


def background_rows(known: list[Row]) -> Iterator[Row]:
    """The attention of heads that do not own a source in random contexts, at two scales of the logits."""
    items, width = NOISE["items"], NOISE["key_width"]
    problem = random_problem(items, NOISE["d_model"])
    rows = problem.rows
    size = items // BACKGROUND_HEADS
    for scale, length in product((1.0, 0.25), CONTEXT_LENGTHS):
        if matching(known, scale=scale, context_length=length):
            continue
        layer = construct.softmax(problem, key_width=width, seed=SEED, matching_size=size, scale=scale)
        rng = np.random.default_rng(SEED)
        contexts = [rng.choice(items, size=length, replace=False) for _ in range(BACKGROUND_CONTEXTS)]
        shares = np.stack([background(layer, rows[context], context // size) for context in contexts])
        yield {
            **NOISE, "heads": layer.heads, "scale": scale, "context_length": length, "contexts": len(contexts),
            "least": float(shares.min()), "mean": float(shares.mean()), "most": float(shares.max()),
        }  # fmt: skip


def softmax_rows(known: list[Row]) -> Iterator[Row]:
    """Algorithm 2 with blocks of d_model as published, and with smaller blocks at several scales."""
    problem = random_problem(SOFTMAX["items"], SOFTMAX["d_model"])
    length = SOFTMAX["context_length"]
    for block_size, scale in [(SOFTMAX["d_model"], 1.0), *((SOFTMAX["block_size"], scale) for scale in SOFTMAX_SCALES)]:
        if matching(known, block_size=block_size, scale=scale):
            continue
        layer = construct.softmax(
            problem, key_width=SOFTMAX["key_width"], seed=SEED, matching_size=block_size, scale=scale
        )
        published = certify(layer, problem, context_length=length)
        moved = certify(construct.calibrate(layer, published), problem, context_length=length)
        low, high = published.window
        yield {
            **SOFTMAX, "block_size": block_size, "heads": layer.heads, "scale": scale,
            "low": low, "high": high, "at_half": published.verdict, "in_window": moved.verdict,
        }  # fmt: skip


def incoherent_rows(known: list[Row]) -> Iterator[Row]:
    """Block sizes of construction III: by the profile on the blocks, and the largest that certifies."""
    items, width = 512, 1024
    graph = permutation_graph(items, seed=SEED)
    families = {
        "Gaussian, d_model = 256": gaussian(items, 256, seed=SEED),
        "Gaussian, d_model = 1024": gaussian(items, 1024, seed=SEED),
        "sparse binary, d_model = 4096, 128 ones": sparse_binary(items, 4096, seed=SEED, density=128 / 4096),
    }
    for family, embedding in families.items():
        if matching(known, family=family):
            continue
        by_profile = construct.matchings_by_profile(Problem(graph, embedding))
        by_certificate = construct.matchings_by_certificate(Problem(graph, embedding), key_width=width, seed=SEED)
        yield {
            "family": family, "items": items, "key_width": width,
            **choice_columns("profile", by_profile), **choice_columns("certificate", by_certificate),
        }  # fmt: skip


def choice_columns(how: str, choice: MatchingChoice) -> Row:
    """A block size and its evidence; the names of the columns begin with the way it was found."""
    profile, log = choice.profile, math.log(choice.profile.items)
    columns = {
        "block_size": choice.matching_size, "epsilon": profile.epsilon, "rho_log": profile.rho * log,
        "gamma_log": profile.gamma * log, "theorem_applies": choice.theorem_applies,
        "verdict": choice.certificate and choice.certificate.verdict,
    }  # fmt: skip
    return {f"{how}_{name}": value for name, value in columns.items()}


def wordnet_rows(file: Path) -> Iterator[Row]:
    """WN18RR: heads by both packings, for each relation over its own items and for all relations together."""
    with np.load(file, allow_pickle=False) as arrays:
        names = [str(name) for name in arrays["relations"]]
        triples = np.concatenate([arrays[part] for part in ("train", "valid", "test")])
    for name in [*names, "all"]:
        edges = triples if name == "all" else triples[triples[:, 1] == names.index(name)]
        edges = np.unique(edges[:, [0, 2]], axis=0)
        touched, ends = np.unique(edges, return_inverse=True)
        graph = Graph(len(touched), *ends.reshape(edges.shape).T)
        size = WORDNET_D_MODEL
        row = {
            "relation": name, "d_model": WORDNET_D_MODEL, "items": graph.items,
            "relations": graph.relations, "max_degree": graph.max_degree,
            "equitable": int(equitable_matchings(graph, matching_size=size).max()) + 1,
            "lemma": int(lemma_matchings(graph, matching_size=size).max()) + 1,
            "lemma_bound": -(-graph.relations // size) + graph.max_degree,
        }  # fmt: skip
        yield row | (wordnet_budget(graph) if name in WORDNET_CERTIFIED else dict.fromkeys(BUDGET))


BUDGET = ("limit_low", "limit_high", "paper_budget", "paper_width", "best_budget", "best_width", "max_budget")


def wordnet_budget(graph: Graph) -> Row:
    """The smallest key budget at the fewest heads, at both thresholds, over Gaussian rows; draws are certified."""
    embedding = gaussian(graph.items, WORDNET_D_MODEL, seed=SEED)
    paper, best = (
        construct.smallest(
            Problem(graph, embedding), threshold=threshold, seed=SEED, matching_sizes=[WORDNET_D_MODEL],
            max_budget=BUDGET_PER_ITEM * graph.items, progress=say,
        )
        for threshold in ("paper", "best")
    )  # fmt: skip
    values = (
        best.limits[0].window.low, best.limits[0].window.high,
        paper.best and paper.best.key_budget, paper.best and paper.best.key_width,
        best.best and best.best.key_budget, best.best and best.best.key_width, best.max_budget,
    )  # fmt: skip
    return dict(zip(BUDGET, values, strict=True))


def say(event: WidthLimit | WidthTrial) -> None:
    """Print a line for each limit and each attempt."""
    print(event, flush=True)


MEASUREMENTS: dict[str, Callable[[list[Row]], Iterator[Row]]] = {
    "noise": noise_rows,
    "background": background_rows,
    "softmax": softmax_rows,
    "incoherent": incoherent_rows,
    "limit": limit_rows,
    "smallest": smallest_rows,
}


PARTS = (*MEASUREMENTS, "wordnet")


def measure(settings: Settings) -> None:
    """Measure the rows that are not stored; each row is stored as soon as it is measured."""
    for part, rows_of in MEASUREMENTS.items():
        if settings.only not in (None, part):
            continue
        table = f"constructions-{part}"
        rows = read_rows(table)
        for row in rows_of(list(rows)):
            rows.append(row)
            write_rows(table, rows)
    if settings.data is not None and settings.only in (None, "wordnet"):
        write_rows("constructions-wordnet", list(wordnet_rows(settings.data / WN18RR)))
    write_rows("constructions-machine", machine_rows())
