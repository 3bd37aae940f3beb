"""The page on constructions: its rows agree with each other, its picture shows every row, its rows can be measured."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.special import softmax as shares
from support.pictures import coordinates

from manyheads import construct, gaussian, permutation_graph
from manyheads.construct import RADEMACHER
from manyheads.problem.problem import Problem
from tools.pages.constructions import measurement
from tools.pages.constructions.noise import background, decompose
from tools.pages.constructions.pictures import draw_noise
from tools.pages.rows import read_rows


def test_a_key_budget_was_certified() -> None:
    for row in read_rows("constructions-smallest"):
        assert (row["key_budget"] is None) or (row["works"] and row["certified"] >= 19)


@pytest.mark.filterwarnings("ignore:d_model = 16 is below")
def test_rows_of_a_small_problem(monkeypatch: pytest.MonkeyPatch) -> None:
    """The measurement runs, and its rows have the columns of the stored ones."""
    monkeypatch.setattr(measurement, "NOISE", {"items": 24, "d_model": 16, "key_width": 8})
    monkeypatch.setattr(measurement, "NOISE_BLOCKS", [8])
    monkeypatch.setattr(measurement, "POINTS", [(24, 16)])
    monkeypatch.setattr(measurement, "LIMIT_BLOCKS", [1, 8])
    monkeypatch.setattr(measurement, "BACKGROUND_HEADS", 4)
    monkeypatch.setattr(measurement, "BACKGROUND_CONTEXTS", 2)
    monkeypatch.setattr(measurement, "CONTEXT_LENGTHS", [6])
    monkeypatch.setattr(measurement, "SOFTMAX_SCALES", [0.3])
    small = {"items": 12, "d_model": 64, "block_size": 4, "key_width": 32, "context_length": 6}
    monkeypatch.setattr(measurement, "SOFTMAX", small)
    for part in ("noise", "background", "softmax", "limit", "smallest"):
        rows = list(measurement.MEASUREMENTS[part]([]))
        assert list(rows[0]) == list(read_rows(f"constructions-{part}")[0])


def test_the_picture_shows_every_row() -> None:
    scores = dict.fromkeys(("signal", "n1", "n2", "n3_mean", "n3_fluctuation", "low", "limit_low"), 0.3)
    problem = {"items": 64, "d_model": 16, "key_width": 8, "high": 0.8, "limit_high": 0.9}
    terms = [{**problem, **scores, "block_size": size} for size in (8, 16, 64)]
    backgrounds = [
        {**problem, "heads": 4, "scale": scale, "context_length": length, "least": 0.1, "mean": 0.2, "most": 0.3}
        for scale in (1.0, 0.5)
        for length in (8, 16)
    ]
    left, middle, right = draw_noise(terms, backgrounds).axes
    assert {len(coordinates(line)[0]) for line in left.get_lines()[2:8]} == {3}
    assert [coordinates(line)[1][0] for line in middle.get_lines()[:2]] == [0.8, 0.3]
    assert {"mean, $(h-1)/ℓ$", "Eq. 13, $C_2 = 1$"} <= set(right.get_legend_handles_labels()[1])
    (mean,) = (line for line in right.get_lines() if line.get_label() == "mean, $(h-1)/ℓ$")
    assert coordinates(mean)[1] == [3 / 8, 3 / 16]


def test_the_terms_add_up_to_the_scores_of_every_head() -> None:
    graph, x = permutation_graph(100, seed=0), gaussian(100, 80, seed=0)
    layer = construct.compressive(Problem(graph, x), key_width=16, seed=3, matching_size=30)
    words = RADEMACHER.draw(100, 16, seed=3)
    scores = layer.head_scores(x)
    for head, (sources, targets) in enumerate(construct.split_sources(graph, size=30)):
        total = np.zeros((100, 100))
        for terms in decompose(x, (sources, targets), words):
            total[np.ix_(sources, targets)] += terms.signal
            total[sources] += terms.n1
            total[:, targets] += terms.n2
            total += terms.n3
        np.testing.assert_allclose(total, scores[head], atol=1e-4)


def test_the_terms_are_the_papers() -> None:
    graph, x = permutation_graph(20, seed=0), gaussian(20, 80, seed=0).astype(np.float64)
    words = RADEMACHER.draw(20, 5, seed=0)
    sources, targets = construct.split_sources(graph, size=7)[1]
    mean, fluctuation = decompose(x, (sources, targets), words)
    delta = x @ x.T - np.eye(20)
    i, j, pi = sources[2], 15, graph.targets
    leaked_query = sum(delta[i, s] * words[pi[s]] for s in sources)
    leaked_key = sum(delta[j, t] * words[t] for t in targets)
    assert (mean.n1 + fluctuation.n1)[2, j] == pytest.approx(words[pi[i]] @ leaked_key)
    assert (mean.n3 + fluctuation.n3)[i, j] == pytest.approx(leaked_query @ leaked_key)
    assert (mean.n2 + fluctuation.n2)[i, 3] == pytest.approx(leaked_query @ words[targets[3]])
    assert mean.n3[i, j] == pytest.approx(5 * sum(delta[i, s] * delta[j, pi[s]] for s in sources))
    assert mean.n1[2, j] == pytest.approx(5 * delta[j, pi[i]])  # not zero, as the paper's proof has it
    assert (mean.signal + fluctuation.signal)[2, 2] == 5


def test_background_is_the_attention_of_the_other_heads() -> None:
    graph, x = permutation_graph(60, seed=0), gaussian(60, 70, seed=0)
    layer = construct.softmax(Problem(graph, x), key_width=8, seed=0, matching_size=20)
    context = np.array([3, 50, 17, 42])
    owners = context // 20
    logits = layer.head_scores(x[context]) / np.sqrt(8)
    for p in range(4):
        others = [shares(logits[k, p]) for k in range(3) if k != owners[p]]
        np.testing.assert_allclose(background(layer, x[context], owners)[p], np.sum(others, axis=0))
    np.testing.assert_allclose(background(layer, x[context], owners).sum(axis=1), 2)  # h − 1 shared out
