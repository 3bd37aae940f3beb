"""The pass over all pairs against formulas written out, autograd and torch's Adam; hard contexts against the queue."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch
from numpy import ndarray
from support.runs import make_run

from manyheads import Graph, gaussian, permutation_graph, power_law_graph, random_graph, star_graph
from manyheads._native import Fitting32, Fitting64, HardTraining
from manyheads.training.data import Stream, initial_weights, training_data
from manyheads.training.native import kernel_settings

FLOORLESS = -math.inf
GRAPHS = {
    "permutation": permutation_graph(70, seed=0),
    "hubs": power_law_graph(60, 150, exponent=2.2, seed=1),
    "star": star_graph(50, direction="out"),
    "loops": Graph(20, np.arange(20), np.arange(20)),
    "dense": random_graph(17, 200, seed=2),
    "empty": Graph(30, np.empty(0, dtype=np.int64), np.empty(0, dtype=np.int64)),
}
SHAPES = [(1, 1), (3, 5), (2, 16), (5, 9)]  # (heads, key_width)
LEVELS = {"max": (FLOORLESS, 0.4, 2.1, 1.3, 3.0), "softmax": (-0.7, 0.7, 3.0, 1.5, 1.0)}


def weights(heads: int, d_model: int, key_width: int, seed: int = 0) -> tuple[ndarray, ndarray]:
    query, key = np.random.default_rng(seed).standard_normal((2, heads, d_model, key_width)) * 1.2
    return query, key


def engine(kind: type, graph: Graph, d_model: int, heads: int, key_width: int, threads: int = 1):  # type: ignore[no-untyped-def]
    rows = gaussian(graph.items, d_model, seed=3)
    fitting = kind(graph.row_starts, graph.targets, rows, heads, key_width, threads)
    fitting.set_weights(*weights(heads, d_model, key_width), 1.3)
    return fitting, rows


def loss_of(scores: torch.Tensor, related: torch.Tensor, levels: tuple[float, ...]) -> torch.Tensor:
    """native/survey.hpp's sentence, written out."""
    floor, ceiling, summit, _, weight = levels
    others = scores[:, ~related]
    lack = (summit - scores.amax(0)[related]).clamp(min=0)
    loss = (others - ceiling).clamp(min=0).square().sum() + weight * lack.square().sum()
    return loss if floor == FLOORLESS else loss + (floor - others).clamp(min=0).square().sum()


@pytest.mark.parametrize("name", GRAPHS)
@pytest.mark.parametrize(("heads", "key_width"), SHAPES)
@pytest.mark.parametrize("rule", LEVELS)
def test_a_look_is_the_loss_its_counts_and_its_gradient(name: str, heads: int, key_width: int, rule: str) -> None:
    graph, levels = GRAPHS[name], LEVELS[rule]
    fitting, rows = engine(Fitting64, graph, 11, heads, key_width)
    found = fitting.look(*levels)
    x = torch.tensor(rows, dtype=torch.float64)
    query, key = (torch.tensor(w, requires_grad=True) for w in weights(heads, 11, key_width))
    scores = (x @ query) @ (x @ key).transpose(1, 2)
    related = torch.tensor(graph.adjacency())
    loss = loss_of(scores, related, levels)
    loss.backward()
    assert found.loss == pytest.approx(loss.item(), rel=1e-12)
    for mine, theirs in zip(fitting.gradient(), (query.grad.numpy(), key.grad.numpy()), strict=True):
        np.testing.assert_allclose(mine, theirs, rtol=1e-9, atol=1e-9 * float(np.abs(theirs).max()))

    scores = scores.detach()
    best, threshold = scores.amax(0), levels[3]
    assert found.missed == int((best[related] <= threshold).sum())
    assert found.false_pairs == int((best[~related] > threshold).sum())
    assert found.high == pytest.approx(float(best[related].min()) if graph.relations else math.inf)
    assert found.low == pytest.approx(max(float(best[~related].max()), levels[1]))
    if rule == "softmax":
        assert found.lowest == pytest.approx(min(float(scores[:, ~related].min()), levels[0]))
    step = 1e-6
    for place, slope in ((1, found.by_ceiling), (2, found.by_summit)):
        ahead, behind = ([*levels], [*levels])
        ahead[place] += step
        behind[place] -= step
        with torch.no_grad():
            rise = loss_of(scores, related, tuple(ahead)) - loss_of(scores, related, tuple(behind))
        assert slope == pytest.approx(float(rise) / (2 * step), rel=1e-6, abs=1e-6)


def test_a_burst_is_torchs_adam_on_weights_and_threshold() -> None:
    graph = GRAPHS["hubs"]
    fitting, rows = engine(Fitting64, graph, 11, 3, 5)
    rates = [0.2, 0.1, 0.05, 0.3, 0.01]
    fitting.burst(rates, 0.9, 0.95, 3.0, 0.0, 1.0, math.inf, False)
    x, related = torch.tensor(rows, dtype=torch.float64), torch.tensor(graph.adjacency())
    query, key = (torch.tensor(w, requires_grad=True) for w in weights(3, 11, 5))
    threshold = torch.tensor(1.3, dtype=torch.float64, requires_grad=True)
    adam = torch.optim.Adam([query, key, threshold], betas=(0.9, 0.95), eps=1e-12)
    for rate in rates:
        adam.param_groups[0]["lr"] = rate
        adam.zero_grad()
        scores = (x @ query) @ (x @ key).transpose(1, 2)
        # both levels move with the threshold
        others, lack = scores[:, ~related] - (threshold - 1), threshold + 1 - scores.amax(0)[related]
        (others.clamp(min=0).square().sum() + 3 * lack.clamp(min=0).square().sum()).backward()
        adam.step()
    mine = fitting.weights()
    for got, wanted in zip(mine, (query, key, threshold), strict=True):
        np.testing.assert_allclose(got, wanted.detach().numpy(), rtol=1e-8, atol=1e-10)


@pytest.mark.parametrize("rule", LEVELS)
def test_threads_and_single_precision_find_the_same(rule: str) -> None:
    graph = permutation_graph(301, seed=4)
    exact, _ = engine(Fitting64, graph, 24, 4, 6)
    wanted = exact.look(*LEVELS[rule])
    for kind, threads, tolerance in ((Fitting64, 3, 1e-12), (Fitting32, 1, 1e-5), (Fitting32, 2, 1e-5)):
        fitting, _ = engine(kind, graph, 24, 4, 6, threads)
        found = fitting.look(*LEVELS[rule])
        assert found.loss == pytest.approx(wanted.loss, rel=tolerance)
        assert (found.missed, found.false_pairs) == (wanted.missed, wanted.false_pairs)
        for mine, theirs in zip(fitting.gradient(), exact.gradient(), strict=True):
            np.testing.assert_allclose(mine, theirs, atol=100 * tolerance * float(np.abs(theirs).max()))


def test_shares_of_the_sources_add_up_to_all_of_them() -> None:
    graph = permutation_graph(480, seed=5)  # ten groups of 48 sources
    fitting, _ = engine(Fitting64, graph, 16, 2, 4)
    whole = fitting.look(FLOORLESS, 0.3, 2.3, 1.3, 3.0)
    for _ in range(2):  # a second round goes through them in another order
        parts = [fitting.burst([0.0], 0.9, 0.9, 3.0, 0.0, 0.2, math.inf, False).finding for _ in range(5)]
        assert sum(part.loss for part in parts) == pytest.approx(whole.loss)
        assert sum(part.missed for part in parts) == whole.missed
        assert sum(part.costly for part in parts) == whole.costly
        assert max(part.low for part in parts) == whole.low


def test_a_burst_stops_where_a_threshold_separates() -> None:
    graph = permutation_graph(40, seed=0)
    fitting, rows = engine(Fitting32, graph, 32, 2, 16)
    burst = fitting.burst([0.1] * 2_000, 0.95, 0.95, 3.0, 0.0, 1.0, math.inf, True)
    assert 0 < burst.steps < 2_000
    assert burst.finding.low < burst.finding.high
    query, key, _ = fitting.weights()
    best = ((rows @ query) @ (rows @ key).swapaxes(1, 2)).max(0)
    assert best[graph.adjacency()].min() > best[~graph.adjacency()].max()


def test_hard_contexts_are_drawn_around_the_worst_pairs() -> None:
    run = make_run(items=64, d_model=16, heads=2, key_width=4, seed=0)
    problem = training_data(run)
    hard = HardTraining(kernel_settings(run, problem), problem.graph.row_starts, problem.graph.targets, problem.rows, 6)
    hard.set_weights(*initial_weights(run), 0.05)
    # before any look there is no queue: contexts are the protocol's own
    ordinary = problem.contexts(Stream.TRAIN, 0, 3)
    for wanted in ordinary:
        assert sorted(hard.context(1.0)) == sorted(wanted)
    finding = hard.burst([], 0.5, 0.2, 10, math.inf).finding
    query, key, threshold = hard.weights()
    x = problem.rows.astype(np.float64)
    scores = ((x @ query) @ (x @ key).swapaxes(1, 2)).max(0)
    related = problem.graph.adjacency()
    costs = np.where(related, threshold + 0.2 - scores, scores - (threshold - 0.2))
    worst = {tuple(map(int, np.unravel_index(at, costs.shape))) for at in np.argsort(-costs, axis=None)[:6]}
    assert finding.missed == int((scores[related] <= threshold).sum())
    seen = set()
    for _ in range(200):
        context = hard.context(1.0)
        assert len(set(context.tolist())) == 16
        inside = {pair for pair in worst if set(pair) <= set(context.tolist())}
        assert inside, "a hard context holds a hard pair"
        seen |= inside
    assert seen == worst
    assert sum(bool({p for p in worst if set(p) <= set(hard.context(0.0).tolist())}) for _ in range(50)) < 40


def test_training_on_hard_contexts_reaches_no_errors() -> None:
    run = make_run(items=64, d_model=16, heads=4, key_width=6, seed=0)
    problem = training_data(run)
    hard = HardTraining(
        kernel_settings(run, problem), problem.graph.row_starts, problem.graph.targets, problem.rows, 256
    )
    hard.set_weights(*initial_weights(run), 0.0)
    rates = list(1e-3 * np.clip(np.linspace(2, 0, 40_000, endpoint=False), 0, 1))
    burst = hard.burst(rates, 0.5, 0.2, 500, math.inf)
    assert burst.finding.low < burst.finding.high
    assert burst.steps < 40_000


def test_bad_shapes_are_refused() -> None:
    graph, rows = permutation_graph(20, seed=0), gaussian(20, 4, seed=0)
    with pytest.raises(ValueError, match="another number of rows"):
        Fitting32(graph.row_starts, graph.targets, rows[:-1], 1, 2, 1)
    with pytest.raises(ValueError, match="at least 1"):
        Fitting32(graph.row_starts, graph.targets, rows, 0, 2, 1)
    fitting = Fitting32(graph.row_starts, graph.targets, rows, 1, 2, 1)
    with pytest.raises(ValueError, match="another shape"):
        fitting.set_weights(*weights(1, 4, 3), 0.0)
    run = make_run(items=20, d_model=4, heads=1, key_width=2, seed=0, graph=graph, context=8)
    with pytest.raises(ValueError, match="16 items"):
        HardTraining(kernel_settings(run, training_data(run)), graph.row_starts, graph.targets, rows, 6)
