"""What a stranger adds from outside the package: a kind of graph, a kind of embedding, a rule, an exhibit.

Each is written in a few lines, registered, and then goes through the commands as the package's own do.
"""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from matplotlib.figure import Figure
from numpy import ndarray

from manyheads import Graph, Layer, Problem, Protocol, Run, Task, certify, train
from manyheads.cli import main
from manyheads.files.exports import TORCH_RULES, write_export
from manyheads.layer.rules import RULES, Rule, register_rule
from manyheads.papers.exhibit import EXHIBITS, Exhibit, register_exhibit
from manyheads.papers.verdict import judged
from manyheads.problem.embedding_kinds import EMBEDDING_KINDS, EmbeddingKind, register_embedding_kind
from manyheads.problem.graph_kinds import GRAPH_KINDS, GraphKind, register_graph_kind

if TYPE_CHECKING:
    from torch import Tensor

SOURCE = Path(__file__).parents[2] / "src" / "manyheads"
SHORT = ["--steps", "400", "--validate-every", "200", "--validation-contexts", "20", "--test-contexts", "50"]


# A kind of graph: every item relates to the one after it, the last to the first.
def ring_graph(items: int, *, seed: int) -> Graph:
    start = int(np.random.default_rng(seed).integers(items))
    order = np.roll(np.arange(items), start)
    return Graph(items, order, np.roll(order, -1))


RING = GraphKind(name="ring", draw=ring_graph, relations=lambda items: items, label="rings")


# A kind of embedding: unit vectors on a cube's corners.
def corner_rows(items: int, d_model: int, *, seed: int) -> ndarray:
    signs = np.random.default_rng(seed).integers(0, 2, (items, d_model)) * 2 - 1
    return (signs / np.sqrt(d_model)).astype(np.float32)


CORNERS = EmbeddingKind(name="corners", draw=corner_rows, label="corners of a cube")


# A rule: the mean of the heads' scores.
class Mean(Rule):
    name = "mean"

    def join(self, scores: ndarray, *, key_width: int) -> ndarray:
        return scores.mean(axis=0)

    def join_tensor(self, scores: Tensor) -> Tensor:
        return scores.mean(dim=2)


@pytest.fixture(autouse=True)
def registered() -> Iterator[None]:
    register_graph_kind(RING)
    register_embedding_kind(CORNERS)
    register_rule(Mean())
    try:
        yield
    finally:
        del GRAPH_KINDS["ring"], EMBEDDING_KINDS["corners"], RULES["mean"]


def answer(capsys: pytest.CaptureFixture[str], *words: str, code: int = 0) -> Any:
    """What a command says as JSON."""
    found = main([*words, "--json"])
    told = capsys.readouterr()
    assert found == code, told.err
    return json.loads(told.out)


@pytest.mark.parametrize(
    ("graph", "embedding"),
    [("ring:24", "gaussian:16"), ("permutation:24", "corners:16"), ("random:24:30", "gaussian:16")],
)
def test_a_kind_goes_through_every_command(
    graph: str, embedding: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    problem = ["--graph", graph, "--embedding", embedding]
    layer, store = str(tmp_path / "layer.safetensors"), str(tmp_path / "r.db")
    wide = ["--graph", graph, "--embedding", f"{embedding.partition(':')[0]}:1024"]  # a construction needs room
    compiled = answer(capsys, "compile", *wide, "--key-width", "400", "--matching-size", "8")
    assert compiled["certificate"]["verdict"] == "holds"
    fitted = answer(capsys, "fit", *problem, "--heads", "4", "--key-width", "8", "-o", layer)
    assert fitted["certificate"]["verdict"] == "holds"
    assert answer(capsys, "certify", layer, *problem)["certificate"]["verdict"] == "holds"
    trained = answer(capsys, "train", *problem, "--heads", "2", "--key-width", "8", "--goal", "0.01", *SHORT)
    assert trained["steps"] == 400
    measured = answer(
        capsys, "measure", *problem, "--heads", "1,2", "--seeds", "2", "--goal", "0.3", "--store", store,
        "--picture", str(tmp_path / "curve"), *SHORT,
    )  # fmt: skip
    assert measured["key_budget"] is not None
    assert (tmp_path / "curve.png").stat().st_size > 10_000
    kept = answer(capsys, "results", "--store", store, "--capacity", "--goal", "0.3")
    (found,) = kept["problems"]
    assert found["key_budget"] == measured["key_budget"]
    planned = answer(capsys, "plan", "budget", *problem, "--picture", str(tmp_path / "plan"))
    assert planned["items"] == 24
    assert (tmp_path / "plan-heads.png").exists()


def test_a_kind_is_named_in_errors(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["fit", "--graph", "rink:24", "--embedding", "gaussian:12"]) == 2
    assert "ring" in capsys.readouterr().err


def test_a_kind_registered_before_a_command_is_named_in_its_help() -> None:
    program = (
        "from manyheads import Graph, GraphKind, register_graph_kind; import sys; from manyheads.cli import main; "
        "register_graph_kind(GraphKind('ring', lambda items, seed: Graph(items, [], []), lambda items: 0, 'rings')); "
        "sys.exit(main(['fit', '--help']))"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert "ring:ITEMS" in done.stdout


@pytest.mark.parametrize("graph", [kind.form for kind in GRAPH_KINDS.values()])
@pytest.mark.parametrize("embedding", [kind.form for kind in EMBEDDING_KINDS.values()])
def test_every_kind_of_the_package_is_trained(graph: str, embedding: str) -> None:
    numbers = {"ITEMS": "16", "DEGREE": "2", "RELATIONS": "20", "EXPONENT": "2.5", "D_MODEL": "8"}
    words = [":".join(numbers.get(word, word) for word in form.split(":")) for form in (graph, embedding)]
    protocol = Protocol(steps=20, validate_every=10, validation_contexts=5, test_contexts=10)
    run = Run(Task(words[0], words[1], context=8), heads=2, key_width=4, seed=0, protocol=protocol)
    assert train(run).micro_f1 is not None


def test_the_seed_draws_the_kind_anew() -> None:
    task = Task("ring:24", "corners:12")
    runs = [Run(task, heads=1, key_width=4, seed=seed) for seed in range(2)]
    assert runs[0].id != runs[1].id
    assert runs[0].fields["graph"] == "ring:24"


def test_a_rule_is_scored_and_trained_by_the_reference_engine() -> None:
    pytest.importorskip("torch", reason="the reference engine needs the torch extra")
    rng = np.random.default_rng(0)
    layer = Layer(rng.standard_normal((3, 4, 2)), rng.standard_normal((3, 4, 2)), 0.0, "mean")
    x = rng.standard_normal((5, 4))
    np.testing.assert_allclose(layer.scores(x), layer.head_scores(x).mean(axis=0))
    protocol = Protocol(steps=200, validate_every=100, validation_contexts=20, test_contexts=50)
    run = Run(
        Task("permutation:24", "gaussian:12"), heads=2, key_width=8, seed=0, rule=RULES["mean"], protocol=protocol
    )
    outcome = train(run, engine="reference")
    assert outcome.curve[-1].loss < outcome.curve[0].loss
    with pytest.raises(ValueError, match="native engine"):
        train(run)


def test_a_rule_without_a_rounding_bound_is_not_certified_and_with_one_it_is() -> None:
    problem = Problem(ring_graph(3, seed=0), np.eye(3))
    copy = Layer(problem.graph.adjacency()[None].astype(float), np.eye(3)[None], 0.5, "mean")
    with pytest.raises(ValueError, match="mean"):
        certify(copy, problem)
    del RULES["mean"]

    class CertifiedMean(Mean):
        def add_head(self, joined: ndarray, scores: ndarray) -> None:
            joined += scores

        def error_bound(self, errors: ndarray) -> ndarray:
            return errors.sum(axis=0)

    register_rule(CertifiedMean())  # of one head, the mean is the sum
    assert certify(Layer(copy.query, copy.key, 0.5, "mean"), problem).verdict == "holds"


def test_a_rule_that_the_exported_module_does_not_know_is_refused(tmp_path: Path) -> None:
    """The module is copied to users. It would refuse the layer only when it is loaded."""
    weights = np.ones((1, 4, 2))
    with pytest.raises(ValueError, match="has the rules max, softmax, sum, logsumexp, not mean"):
        write_export(tmp_path / "out", Layer(weights, weights, 0.0, "mean"), to="torch")
    assert list(tmp_path.iterdir()) == []
    module = (SOURCE / "files" / "standalone" / "attention.py").read_text()
    assert f"not in {tuple(map(str, TORCH_RULES))}".replace("'", '"') in module


def test_an_exhibit_goes_through_the_paper_command(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    protocol = Protocol(steps=200, validate_every=100, validation_contexts=20, test_contexts=50)
    run = Run(Task("ring:24", "gaussian:12"), heads=2, key_width=8, seed=0, protocol=protocol)
    made_up = Exhibit(
        title="Figure 99: rings",
        runs=lambda scale: [run],
        draw=lambda rows, scale: Figure(figsize=(3, 2)),
        caption=lambda rows, scale: f"The ring scores {rows[run.id].score('micro_f1'):.3f}.",
        claims=lambda rows, scale: [judged("99", "rings can be learned", "one was", holds=True)],
    )
    register_exhibit("fig99", made_up)
    try:
        told = answer(capsys, "paper", "fig99", "--store", str(tmp_path / "p.db"), "--output", str(tmp_path))
    finally:
        del EXHIBITS["fig99"]
    assert "99" in json.dumps(told)
    assert "The ring scores" in (tmp_path / "paper.md").read_text()


@pytest.mark.parametrize(
    ("word", "most"),
    [
        ("power-law", 2),  # a kind of graph: its generator and the registry
        ("sparse-binary", 2),  # a kind of embedding
        ("logsumexp", 2),  # a rule: the rules, and the module that `export` copies to users
        ("FIGURE_13", 2),  # a figure: its module and the registry
        ("validation_contexts", 5),  # a constant: the protocol, its range, its option, and the two engines
    ],
)
def test_to_add_a_thing_touches_as_few_files_as_promised(word: str, most: int) -> None:
    """ARCHITECTURE.md, "To add something": in how many modules of the package a thing of each kind is named."""
    named = [path for path in SOURCE.rglob("*.py") if word in path.read_text()]
    assert 0 < len(named) <= most, named


def test_a_kind_registered_twice_is_refused() -> None:
    with pytest.raises(ValueError, match="cannot be registered"):
        register_graph_kind(RING)
    with pytest.raises(ValueError, match="cannot be registered"):
        register_embedding_kind(CORNERS)
    with pytest.raises(ValueError, match="exists already"):
        register_rule(Mean())
