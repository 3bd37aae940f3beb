"""certify: its verdicts against every context tried one by one, its witnesses, its words and its refusals."""

from __future__ import annotations

import json
import math
from dataclasses import dataclass, replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from support.oracles import Range, try_every_context

from manyheads import Graph, InputError, Layer, gaussian, one_hot, permutation_graph
from manyheads.certificate import Certificate, certify, projection
from manyheads.layer.rules import RULES
from manyheads.problem.problem import Problem

PAIRWISE: tuple[str, ...] = ("max", "sum", "logsumexp")


def signature_layer(graph: Graph, key_width: int, *, seed: int) -> Layer:
    """Construction I by hand: the query of i is the signature of its target, the key of j its own."""
    signatures = np.random.default_rng(seed).choice([-1.0, 1.0], (graph.items, key_width))
    return Layer(signatures[graph.targets][None], signatures[None], threshold=key_width / 2)


def score_layer(scores: np.ndarray, rule: str, threshold: float = 0.5) -> Layer:
    """A layer on one-hot items with the given head scores (heads, items, items); softmax logits under softmax."""
    scale = np.sqrt(scores.shape[1]) if rule == "softmax" else 1.0
    return Layer(scores * scale, np.tile(np.eye(scores.shape[1]), (len(scores), 1, 1)), threshold, rule)


def graph_of(adjacency: np.ndarray) -> Graph:
    sources, targets = np.nonzero(adjacency)
    return Graph(len(adjacency), sources, targets)


def lengths_of(rule: str, lengths: Range) -> Range | None:
    return lengths if rule == "softmax" else None


@dataclass(frozen=True)
class Example:
    layer: Layer
    embedding: np.ndarray
    graph: Graph
    lengths: Range  # of the contexts that the oracle tries
    block: int  # numbers in a block of sources


@dataclass(frozen=True)
class Recipe:
    """What an example is made of; the library is called outside hypothesis's strategies, as it wants."""

    rule: str
    items: int
    d_model: int
    heads: int
    key_width: int
    seed: int
    scale: float
    single: bool  # float32 embedding
    shortest: int
    longest: int
    separable: bool  # the graph is what some threshold makes of the scores, so that the layer often holds
    place: int  # the threshold: between the ends of the window, or at one of them …
    spread: float  # … give or take
    block: int

    def example(self) -> Example:
        rng = np.random.default_rng(self.seed)
        embedding = rng.standard_normal((self.items, self.d_model)).astype(np.float32 if self.single else np.float64)
        query, key = rng.standard_normal((2, self.heads, self.d_model, self.key_width)) * self.scale
        lengths = (min(self.shortest, self.items), min(max(self.shortest, self.longest), self.items))
        lengths = lengths if self.rule == "softmax" else (1, self.items)
        nothing = graph_of(np.zeros((self.items, self.items), bool))
        tried = try_every_context(Layer(query, key, 0.0, self.rule), embedding, nothing, lengths)
        middle = (tried.smallest + tried.largest) / 2
        adjacency = rng.random(middle.shape) < rng.random()
        if self.separable:
            adjacency = middle > np.quantile(middle, rng.random())
        ends = np.array([tried.largest[~adjacency].max(initial=-np.inf), tried.smallest[adjacency].min(initial=np.inf)])
        ends = ends[np.isfinite(ends)]
        threshold = [ends.mean(), ends[0], ends[-1]][self.place] + self.spread * rng.standard_normal()
        layer = Layer(query, key, float(threshold), self.rule)
        return Example(layer, embedding, graph_of(adjacency), lengths, self.block)


recipes = st.builds(
    Recipe,
    rule=st.sampled_from(list(RULES)),
    items=st.integers(2, 7),
    d_model=st.integers(1, 5),
    heads=st.integers(1, 4),
    key_width=st.integers(1, 3),
    seed=st.integers(0, 2**32 - 1),
    scale=st.sampled_from([0.3, 1.0, 3.0]),
    single=st.booleans(),
    shortest=st.integers(2, 7),
    longest=st.integers(2, 7),
    separable=st.booleans(),
    place=st.integers(0, 2),
    spread=st.sampled_from([0.0, 1e-15, 1e-6, 1e-2]),
    block=st.sampled_from([1, 14, 1 << 18]),
)


def check_against_every_context(example: Example) -> Certificate:
    layer, graph = example.layer, example.graph
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(projection, "BLOCK", example.block)
        certificate = certify(
            layer, Problem(graph, example.embedding), context_length=lengths_of(layer.rule.name, example.lengths)
        )
    tried, relation = try_every_context(layer, example.embedding, graph, example.lengths), graph.adjacency()
    wrong = tried.wrong
    low, high = tried.largest[~relation].max(initial=-np.inf), tried.smallest[relation].min(initial=np.inf)
    if certificate.verdict == "holds":
        assert not wrong.any()
        assert certificate.witness is None
    if certificate.verdict == "refuted":
        witness = certificate.witness
        assert witness is not None
        assert wrong[witness.source, witness.target]
        assert witness.is_relation == relation[witness.source, witness.target]
        context = list(witness.context or {witness.source: 0, witness.target: 0})
        assert context[0] == witness.source
        assert len(set(context)) == len(context)
        assert example.lengths[0] <= len(context) <= example.lengths[1]
        score = layer.scores(example.embedding[context])[0, context.index(witness.target)]
        assert witness.score == score
        assert (score > layer.threshold) != witness.is_relation
    if certificate.verdict == "not proved":  # tiny cases are decided but for rounding
        assert min(abs(layer.threshold - low), abs(layer.threshold - high)) <= 4 * certificate.rounding
        assert certificate.open_pairs
    # the window is proved: it lies inside the true one, and fills it where the context does not matter
    reach = 4 * certificate.rounding
    assert certificate.window[0] >= low - reach
    assert certificate.window[1] <= high + reach
    if layer.rule.name != "softmax":
        np.testing.assert_allclose(certificate.window, (low, high), rtol=0, atol=reach)
    assert certificate.missed <= np.count_nonzero(wrong & relation) <= certificate.missed + certificate.open_pairs
    assert certificate.false_pairs <= np.count_nonzero(wrong & ~relation)
    assert np.count_nonzero(wrong) <= certificate.missed + certificate.false_pairs + certificate.open_pairs
    return certificate


@given(recipes)
@settings(max_examples=150, deadline=None)
def test_agrees_with_every_context(recipe: Recipe) -> None:
    check_against_every_context(recipe.example())


@given(recipes, st.integers(0, 2**32 - 1), st.sampled_from([1e-3, 0.1, 1.0]))
@settings(max_examples=40, deadline=None)
def test_agrees_with_every_context_after_one_weight_moved(recipe: Recipe, seed: int, size: float) -> None:
    example, rng = recipe.example(), np.random.default_rng(seed)
    weights = {"query": example.layer.query.copy(), "key": example.layer.key.copy()}
    chosen = weights[rng.choice(["query", "key"])]
    chosen[tuple(rng.integers(chosen.shape))] += size * rng.standard_normal()
    moved = Layer(weights["query"], weights["key"], threshold=example.layer.threshold, rule=example.layer.rule)
    check_against_every_context(replace(example, layer=moved))


def test_signatures_hold_in_every_context(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(projection, "BLOCK", 1 << 10)  # tiles of 32 × 32 pairs, so that many meet
    graph = permutation_graph(200, seed=0)
    certificate = certify(signature_layer(graph, 120, seed=1), Problem(graph, one_hot(200)))
    scores = signature_layer(graph, 120, seed=1).scores(one_hot(200))
    assert certificate.verdict == "holds"
    assert certificate.holds
    assert certificate.window == (scores[~graph.adjacency()].max(), 120.0)
    assert certificate.margin == 60 - max(0, certificate.window[0])
    assert (certificate.missed, certificate.false_pairs, certificate.open_pairs) == (0, 0, 0)
    # ‖W_Q‖ = ‖W_K‖ = √(200·120) and ‖x‖ = 1
    assert certificate.normalised_margin == pytest.approx(certificate.margin / (200 * 120))


@pytest.mark.parametrize("rule", list(RULES))
@pytest.mark.parametrize("block", [2 * 7, 1 << 18])
def test_every_single_error_is_found(rule: str, block: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """The verifier verified: whichever of the 49 pairs the graph disputes, that very pair is the witness."""
    monkeypatch.setattr(projection, "BLOCK", block)
    adjacency = permutation_graph(7, seed=3).adjacency()
    assert adjacency.diagonal().any()
    strong = np.stack([np.where(adjacency, 8.0, 0.0), np.zeros_like(adjacency, dtype=float)])
    # logsumexp of (0, 0) is ln 2; two softmax heads give a relation at least 1, others at most about 2/3
    layer = score_layer(strong, rule, threshold={"max": 4.0, "sum": 4.0, "logsumexp": 4.0, "softmax": 0.9}[rule])
    length = lengths_of(rule, (3, 3))
    assert certify(layer, Problem(graph_of(adjacency), one_hot(7)), context_length=length).holds
    for source, target in np.ndindex(7, 7):
        disputed = adjacency.copy()
        disputed[source, target] ^= True
        certificate = certify(layer, Problem(graph_of(disputed), one_hot(7)), context_length=length)
        assert certificate.verdict == "refuted"
        witness = certificate.witness
        assert witness is not None
        assert (witness.source, witness.target, witness.is_relation) == (source, target, bool(disputed[source, target]))
        assert (certificate.missed, certificate.false_pairs) == (int(witness.is_relation), int(not witness.is_relation))
        assert certificate.open_pairs == 0


def test_a_certificate_shows_bits_per_weight() -> None:
    """Of the family of the graph, over the numbers in the layer's arrays; the same for people and for programs."""
    graph = permutation_graph(24, seed=0)
    layer = signature_layer(graph, 200, seed=1)
    certificate = certify(layer, Problem(graph, one_hot(24)))
    bits = certificate.bits_per_weight
    assert (bits.family, bits.weights) == ("permutations of 24 items", layer.query.size + layer.key.size)
    assert bits.value == pytest.approx(math.log2(math.factorial(24)) / layer.weights)
    assert ("bits per weight", str(bits)) in certificate.rows()
    assert certificate.to_json()["bits_per_weight"]["value"] == bits.value


def test_one_weight_disturbed_past_its_margin_is_refused() -> None:
    graph = permutation_graph(64, seed=0)
    layer = signature_layer(graph, 80, seed=1)
    margin = certify(layer, Problem(graph, one_hot(64))).margin
    scores = layer.scores(one_hot(64))
    source, target = np.argwhere(~graph.adjacency() & (scores == 40 - margin))[0]  # the pair that has only the margin
    for part, holds in ((0.999, True), (1.001, False)):
        # every query is ±1 there, so that no score moves by more than the disturbance, and this one does, upwards
        key = layer.key.copy()
        key[0, target, 5] += part * margin * layer.query[0, source, 5]
        certificate = certify(Layer(layer.query, key, layer.threshold), Problem(graph, one_hot(64)))
        assert certificate.holds == holds
        assert certificate.verdict == ("holds" if holds else "refuted")


@pytest.mark.parametrize("rule", PAIRWISE)
def test_the_window_holds_all_thresholds_that_work(rule: str) -> None:
    graph = permutation_graph(40, seed=0)
    base = signature_layer(graph, 60, seed=1)
    low, high = certify(Layer(base.query, base.key, 0.0, rule), Problem(graph, one_hot(40))).window
    verdicts = [
        certify(Layer(base.query, base.key, threshold, rule), Problem(graph, one_hot(40))).verdict
        for threshold in (low - 1e-6, low + 1e-6, (low + high) / 2, high - 1e-6, high + 1e-6)
    ]
    assert verdicts == ["refuted", "holds", "holds", "holds", "refuted"]


def test_a_margin_below_its_rounding_error_says_so() -> None:
    graph = permutation_graph(5, seed=0)
    layer = signature_layer(graph, 7, seed=1)
    certificate = certify(Layer(layer.query, layer.key, threshold=7.0), Problem(graph, one_hot(5)))
    assert certificate.verdict == "not proved"
    assert certificate.margin == 0
    assert 0 < certificate.rounding < 1e-12
    assert "rounding" in certificate.reason
    assert certificate.witness is None
    assert certificate.open_pairs == 5


def test_one_overgrown_key_does_not_blur_the_other_pairs() -> None:
    """A key of length 10^17 makes its own column's rounding error large, not that of the others."""
    adjacency = np.eye(6, dtype=bool)
    adjacency[:, 5] = True
    scores = np.where(adjacency, 1.0, 0.0)
    key = np.eye(6)
    key[5] *= 1e17
    certificate = certify(Layer(scores[None], key[None], 0.5), Problem(graph_of(adjacency), one_hot(6)))
    assert certificate.holds
    assert certificate.margin == 0.5


@pytest.mark.parametrize("rule", PAIRWISE)
def test_context_length_makes_no_difference_to_rules_blind_to_it(rule: str) -> None:
    graph = permutation_graph(9, seed=0)
    query, key = np.random.default_rng(0).standard_normal((2, 2, 9, 3))
    layer = Layer(query, key, 0.1, rule)
    certificate = certify(layer, Problem(graph, one_hot(9)), context_length=4)
    assert certificate == certify(layer, Problem(graph, one_hot(9)))
    assert certificate.context_lengths is None


@pytest.mark.parametrize("rule", list(RULES))
@pytest.mark.parametrize("adjacency", [np.zeros((4, 4), bool), np.ones((4, 4), bool)], ids=["no relation", "all"])
def test_graphs_without_and_with_all_relations(rule: str, adjacency: np.ndarray) -> None:
    layer = score_layer(np.zeros((1, 4, 4)), rule, threshold=-1.0 if adjacency.any() else 1.0)
    certificate = certify(layer, Problem(graph_of(adjacency), one_hot(4)), context_length=lengths_of(rule, (2, 4)))
    assert certificate.holds
    low, high = certificate.window
    assert np.isfinite(low) != np.isfinite(high)
    written = json.loads(json.dumps(certificate.to_json(), allow_nan=False))
    assert written["window"] == [None if adjacency.any() else low, high if adjacency.any() else None]


def test_scores_beyond_float64_are_not_proved() -> None:
    graph = permutation_graph(3, seed=0)
    huge = Layer(np.full((1, 3, 2), 1e200), np.full((1, 3, 2), 1e200), 0.0)
    certificate = certify(huge, Problem(graph, np.eye(3)))
    assert certificate.verdict == "not proved"
    assert "overflow" in certificate.reason
    written = json.loads(json.dumps(certificate.to_json(), allow_nan=False))
    assert written["margin"] is None
    assert written["open_pairs"] == 9


@pytest.mark.parametrize("rule", list(RULES))
def test_sums_that_overflow_on_the_way_are_not_proved(rule: str) -> None:
    # every score is 0, and so is every rounding bound to within 1e295: but 1.44e308 + 1.44e308 comes first
    query = np.full((1, 3, 4), 1.2e154)
    key = np.tile(np.array([1, 1, -1, -1]) * 1.2e154, (1, 3, 1))
    layer = Layer(query, key, 0.5, rule)
    everything = Graph(3, *np.divmod(np.arange(9), 3))
    for graph in (permutation_graph(3, seed=0), everything):
        certificate = certify(layer, Problem(graph, np.eye(3)), context_length=lengths_of(rule, (2, 2)))
        assert certificate.verdict == "not proved"
        assert "overflow" in certificate.reason


@pytest.mark.parametrize("rule", PAIRWISE)
@pytest.mark.parametrize("loop", [True, False])
def test_one_item_alone(rule: str, loop: bool) -> None:
    layer = Layer(np.ones((2, 3, 4)), np.ones((2, 3, 4)), 1.0 if loop else 1e6, rule)
    graph = Graph(1, *np.zeros((2, int(loop)), dtype=int))
    assert certify(layer, Problem(graph, np.ones((1, 3)))).holds


def test_json_and_text_carry_everything() -> None:
    graph = permutation_graph(4, seed=1).with_labels(["a", "b", "c", "d"])
    layer = score_layer(np.where(graph.adjacency(), 6.0, 0.0)[None], "softmax", threshold=0.999)
    certificate = certify(layer, Problem(graph, one_hot(4)), context_length=(2, 3))
    written = json.loads(json.dumps(certificate.to_json(), allow_nan=False))
    assert written["verdict"] == "refuted"
    assert written["context_lengths"] == [2, 3]
    assert (written["missed"], written["false_pairs"], written["open_pairs"]) == (4, 0, 0)
    witness = certificate.witness
    assert witness is not None
    assert written["witness"]["labels"] == ["abcd"[witness.source], "abcd"[witness.target]]
    assert written["witness"]["context"] == list(witness.context or ())
    assert written["witness"]["context_labels"] == ["abcd"[item] for item in witness.context or ()]
    text = str(certificate)
    assert text.startswith("refuted: it misses 4 of 4 relations and takes 0 of 12 other pairs for relations\n")
    assert f"{'abcd'[witness.source]} → {'abcd'[witness.target]}, a relation" in text
    assert "every context of length 2 to 3" in text
    assert text.splitlines() == certificate.summary().text().splitlines()


@pytest.mark.parametrize("rule", list(RULES))
def test_progress_rises_to_its_total(rule: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(projection, "BLOCK", 1)
    seen: list[tuple[int, int]] = []
    query, key = np.random.default_rng(0).standard_normal((2, 2, 9, 3))
    layer = Layer(query, key, 0.1, rule)
    length = lengths_of(rule, (4, 4))
    graph = permutation_graph(9, seed=0)
    certify(
        layer,
        Problem(graph, one_hot(9)),
        context_length=length,
        progress=lambda done, total: seen.append((done, total)),
    )
    done, totals = [step[0] for step in seen], {step[1] for step in seen}
    assert len(seen) >= 9
    assert done == sorted(done)
    assert totals == {done[-1]}


@pytest.mark.parametrize(
    ("embedding", "items", "rule", "length", "says"),
    [
        (np.eye(4), 5, "max", None, "graph has 5 items but the embedding has 4 rows"),
        (np.eye(5), 5, "max", None, "rows of 4 numbers but the embedding has 5"),
        (np.full((4, 4), np.nan), 4, "max", None, "NaN"),
        (np.full((4, 4), np.inf), 4, "sum", None, "infinite"),
        (np.eye(4), 4, "softmax", None, "give the context length"),
        (np.eye(4), 4, "softmax", 1, "from 2 to the number of items, 4, not from 1 to 1"),
        (np.eye(4), 4, "softmax", 5, "from 5 to 5"),
        (np.eye(4), 4, "softmax", (4, 2), "from 4 to 2"),
    ],
)
def test_malformed_input_says_why(
    embedding: np.ndarray, items: int, rule: str, length: int | Range | None, says: str
) -> None:
    layer = Layer(np.ones((1, 4, 2)), np.ones((1, 4, 2)), 0.0, rule)
    with pytest.raises(InputError, match=says):
        certify(layer, Problem(permutation_graph(items, seed=0), embedding), context_length=length)


@pytest.mark.parametrize("rule", list(RULES))
def test_float32_weights_and_embeddings_are_read_exactly(rule: str) -> None:
    embedding, graph = gaussian(7, 5, seed=0), permutation_graph(7, seed=0)
    query, key = np.random.default_rng(0).standard_normal((2, 2, 5, 3)).astype(np.float32)
    length = lengths_of(rule, (3, 3))
    narrow = certify(Layer(query, key, 0.3, rule), Problem(graph, embedding), context_length=length)
    wide_layer = Layer(query.astype(np.float64), key.astype(np.float64), 0.3, rule)
    assert narrow == certify(wide_layer, Problem(graph, embedding.astype(np.float64)), context_length=length)
