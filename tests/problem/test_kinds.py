"""Kinds of graphs and embeddings: the grammar, the draws, and what is registered."""

from __future__ import annotations

import numpy as np
import pytest

from manyheads import InputError, gaussian, power_law_graph, regular_graph
from manyheads.problem.embedding_kinds import (
    EMBEDDING_KINDS,
    EmbeddingKind,
    embedding_family,
    register_embedding_kind,
)
from manyheads.problem.graph_kinds import (
    GRAPH_KINDS,
    PERMUTATION_SLOPE,
    RELATION_SLOPE,
    GraphKind,
    graph_family,
    register_graph_kind,
)
from manyheads.problem.kind_words import seed_word

GRAPHS = {
    "permutation": "permutation:12",
    "regular": "regular:12:3",
    "random": "random:12:40",
    "star-out": "star-out:12",
    "star-in": "star-in:12",
    "power-law": "power-law:12:30:2.5",
}
EMBEDDINGS = {"one-hot": ("one-hot", 12), "gaussian": ("gaussian:5", 5), "sparse-binary": ("sparse-binary:7", 7)}


def test_every_kind_is_tested() -> None:
    assert set(GRAPHS) == set(GRAPH_KINDS)
    assert set(EMBEDDINGS) == set(EMBEDDING_KINDS)


@pytest.mark.parametrize("words", GRAPHS.values())
def test_a_family_draws_graphs_of_its_size(words: str) -> None:
    family = graph_family(words)
    graph = family.draw(seed=3)
    assert (graph.items, graph.relations) == (family.items, family.relations) == (12, family.relations)
    assert graph == family.draw(seed=3)
    assert str(family) == words
    assert family == graph_family(str(family))
    assert family.kind.form.split(":")[0] == words.split(":")[0]
    assert len(family.kind.form.split(":")) == len(words.split(":"))
    assert "{" not in family.label


@pytest.mark.parametrize(("words", "d_model"), EMBEDDINGS.values())
def test_a_family_draws_embeddings_of_its_width(words: str, d_model: int) -> None:
    family = embedding_family(words)
    rows = family.draw(12, seed=3)
    assert rows.shape == (12, d_model) == (12, family.d_model(12))
    np.testing.assert_array_equal(rows, family.draw(12, seed=3))
    assert str(family) == words


def test_a_family_draws_what_the_generator_draws() -> None:
    assert graph_family("regular:12:3").draw(seed=5) == regular_graph(12, 3, seed=5)
    assert graph_family("power-law:12:30:2.5").draw(seed=5) == power_law_graph(12, 30, exponent=2.5, seed=5)
    np.testing.assert_array_equal(embedding_family("gaussian:5").draw(9, seed=5), gaussian(9, 5, seed=5))


def test_seed_words_are_the_sizes() -> None:
    """A permutation has a 1 where a regular graph has its degree, as in every run so far."""
    assert graph_family("permutation:64").seed_words == (64, 1)
    assert graph_family("regular:64:4").seed_words == (64, 4)
    assert graph_family("power-law:64:90:2.5").seed_words == (64, 90, seed_word(2.5))
    assert seed_word(2.5) == 0x4004000000000000
    assert embedding_family("gaussian:16").seed_words(64) == (64, 16)


def test_permutations_have_a_slope_of_their_own() -> None:
    slopes = {name: kind.slope for name, kind in GRAPH_KINDS.items()}
    assert slopes.pop("permutation") == PERMUTATION_SLOPE
    assert set(slopes.values()) == {RELATION_SLOPE}


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (
            "permutaton:8",
            r"unknown kind of graph 'permutaton' \(did you mean permutation\?\): choose from permutation:",
        ),
        ("zzz", "unknown kind of graph 'zzz': choose from"),
        ("permutation", "'permutation' is not of the form permutation:ITEMS"),
        ("regular:8", "not of the form regular:ITEMS:DEGREE"),
        ("regular:8:2:2", "not of the form"),
        ("regular:8:2.5", "not of the form"),
        ("regular:8:-2", "not of the form"),
        ("power-law:8:9:x", "not of the form power-law:ITEMS:RELATIONS:EXPONENT"),
    ],
)
def test_unknown_words_are_refused_with_the_form(words: str, says: str) -> None:
    with pytest.raises(InputError, match=says):
        graph_family(words)


@pytest.mark.parametrize(
    ("words", "says"),
    [("gausian:8", "did you mean gaussian"), ("gaussian", "form gaussian:D_MODEL"), ("one-hot:4", "form one-hot")],
)
def test_unknown_embeddings_are_refused_with_the_form(words: str, says: str) -> None:
    with pytest.raises(InputError, match=says):
        embedding_family(words)


@pytest.mark.parametrize("name", ["permutation", "a:b"])
def test_a_kind_needs_a_new_name_without_a_colon(name: str) -> None:
    with pytest.raises(InputError, match="cannot be registered"):
        register_graph_kind(GraphKind(name, regular_graph, lambda items: items, "made up"))
    with pytest.raises(InputError, match="cannot be registered"):
        register_embedding_kind(EmbeddingKind("gaussian" if name == "permutation" else name, gaussian, "made up"))
