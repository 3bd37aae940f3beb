"""The engine for browsers, run in node, gives what the package gives: draws, ids, weights, certificates, laws."""

from __future__ import annotations

import hashlib
import json
from typing import Any

import numpy as np
import pytest
from numpy import ndarray
from support.page_program import ask, page_run

from manyheads.bounds import bits_per_weight, freedom_key_width, freedom_needed, freedom_split, paper_key_budget
from manyheads.bounds.shape import Shape
from manyheads.certificate import certify
from manyheads.layer.layer import Layer
from manyheads.layer.rules import rule_named
from manyheads.training import train
from manyheads.training.data import initial_weights, training_data
from manyheads.training.engines import native_kernel
from manyheads.training.protocol import step_limit
from tools.wasm import ENGINE, RECORD, fingerprint

RUNS: list[dict[str, Any]] = [
    {"items": 64, "d_model": 16, "heads": 4, "key_width": 5, "context": 16, "seed": 0, "rule": "max", "steps": 20_000},
    {"items": 24, "d_model": 7, "heads": 1, "key_width": 6, "context": 9, "seed": 3, "rule": "max", "steps": 1_500},
    {"items": 40, "d_model": 9, "heads": 3, "key_width": 4, "context": 8, "seed": 2**40, "rule": "softmax", "steps": 9},
    {"items": 32, "d_model": 12, "heads": 6, "key_heads": 2, "key_width": 5, "context": 16, "seed": 4, "rule": "max",
     "steps": 700},
    {"items": 300, "d_model": 150, "heads": 2, "key_width": 3, "context": 16, "seed": 7, "rule": "max", "steps": 600},
]  # fmt: skip


def test_the_committed_engine_belongs_to_the_sources() -> None:
    record = json.loads(RECORD.read_text())
    assert record["sources"] == fingerprint(), "native/ changed: build the engine for browsers again with: make page"
    assert record["engine"] == hashlib.sha256(ENGINE.read_bytes()).hexdigest()


def test_runs_have_the_fields_and_ids_of_the_package() -> None:
    shapes = [(64, 16, "max"), (256, 16, "max"), (500, 32, "max"), (500, 20, "max"), (64, 16, "softmax")]
    text = "é" * 200  # 400 bytes: several blocks
    answers = ask(
        *(("fields", values) for values in RUNS),
        *(("steps", {"items": m, "d_model": d, "rule": rule}) for m, d, rule in shapes),
        ("hash", text),
    )
    for values, answer in zip(RUNS, answers, strict=False):
        run = page_run(values)
        assert answer["fields"] == run.fields
        assert answer["id"] == run.id
    limits = [step_limit(items=m, d_model=d, rule=rule_named(rule)) for m, d, rule in shapes]
    assert answers[len(RUNS) : -1] == limits
    assert answers[-1] == hashlib.sha256(text.encode()).hexdigest()


def test_problems_and_first_weights_are_those_of_numpy() -> None:
    for values, answer in zip(RUNS, ask(*(("problem", values) for values in RUNS)), strict=True):
        run = page_run(values)
        data = training_data(run)
        np.testing.assert_array_equal(answer["targets"], data.graph.targets)
        np.testing.assert_array_equal(np.float32(answer["rows"]), data.rows.ravel())
        for side, weights in zip(("query", "key"), initial_weights(run), strict=True):
            np.testing.assert_allclose(answer[side], weights.ravel(), rtol=1e-13)
            np.testing.assert_array_equal(np.float32(answer[side]), np.float32(weights.ravel()))


def test_many_normal_numbers_are_those_of_numpy() -> None:
    """Enough numbers to pass through every layer of the ziggurat, its edges and its tail."""
    values = RUNS[0] | {"items": 500, "d_model": 400, "heads": 20, "key_width": 10}
    (answer,) = ask(("problem", values))
    weights = initial_weights(page_run(values))
    np.testing.assert_array_equal(np.float32(answer["query"]), np.float32(weights[0].ravel()))
    np.testing.assert_array_equal(np.float32(answer["rows"]), training_data(page_run(values)).rows.ravel())
    assert max(map(abs, answer["query"])) * 20 > 3.6542  # the tail


def test_trajectories_are_those_of_the_native_engine() -> None:
    for values, answer in zip(RUNS, ask(*(("advance", run | {"advance": 200}) for run in RUNS)), strict=True):
        run = page_run(values)
        kernel = native_kernel(run, training_data(run))
        losses = kernel.advance(200)
        query, key, threshold = kernel.weights()
        np.testing.assert_allclose(answer["losses"], losses, rtol=1e-5, atol=1e-5)
        np.testing.assert_allclose(answer["query"], query.ravel(), atol=1e-5)
        np.testing.assert_allclose(answer["key"], key.ravel(), atol=1e-5)
        assert answer["threshold"] == pytest.approx(threshold, abs=1e-5)


def test_a_whole_run_ends_as_in_the_package() -> None:
    wide = RUNS[0] | {"seed": 1}
    short = RUNS[1]
    for values, answer in zip((wide, short), ask(("train", wide), ("train", short)), strict=True):
        outcome = train(page_run(values))
        assert answer["stopped"] == outcome.stopped
        assert answer["step"] == outcome.steps
        assert answer["micro_f1"] == pytest.approx(outcome.micro_f1, abs=2e-3)
        assert answer["exact_errors"] == pytest.approx(outcome.exact_errors, abs=2)
        np.testing.assert_allclose(answer["curve"], [check.score for check in outcome.curve], atol=5e-3)


def certified_cases() -> list[tuple[dict[str, Any], Layer]]:
    """20 layers: near the exact answer and far from it, with a clear margin, with none, and with large weights."""
    cases = []
    for seed in range(20):
        values = RUNS[1] | {"seed": seed, "d_model": 24 if seed % 2 else 7, "heads": 1 + seed % 3}
        problem = page_run(values).task.draw(seed)
        shape = (values["heads"], values["d_model"], 24 if seed % 2 else 6)
        rng = np.random.default_rng(seed)
        query, key = rng.standard_normal((2, *shape)) * 10.0 ** (seed % 4)
        if seed % 2:  # one head that is exact up to rounding, the others small
            inverse = np.linalg.pinv(problem.rows.astype(float))
            query[0], key[0] = inverse @ problem.graph.adjacency().astype(float), inverse
            query[1:] *= 1e-9
        layer = Layer(query, key, 0.5 if seed % 5 else 1.0, "max")
        cases.append((values | {"key_width": shape[2]}, layer))
    return cases


def test_certificates_are_those_of_the_package() -> None:
    cases = certified_cases()
    questions = [
        ("certify", {"run": values, "query": flat(layer.query), "key": flat(layer.key), "threshold": layer.threshold})
        for values, layer in cases
    ]
    verdicts = set()
    for (values, layer), answer in zip(cases, ask(*questions), strict=True):
        problem = page_run(values).task.draw(values["seed"])
        certificate = certify(layer, problem)
        verdicts.add(certificate.verdict)
        assert answer["verdict"] == certificate.verdict
        counts = (certificate.missed, certificate.false_pairs, certificate.open_pairs)
        assert (answer["missed"], answer["false_pairs"], answer["open_pairs"]) == counts
        assert answer["margin"] == pytest.approx(certificate.margin, rel=1e-9, abs=4 * certificate.rounding)
        if certificate.witness is not None:
            assert 0 < answer["rounding"] <= certificate.rounding * (1 + 1e-9)  # the package takes the bound of a row
            pair = (certificate.witness.source, certificate.witness.target)
            assert (answer["witness"]["source"], answer["witness"]["target"]) == pair
        scores = layer.head_scores(problem.rows)
        np.testing.assert_allclose(answer["scores"], scores.max(axis=0).ravel(), rtol=1e-9, atol=1e-9)
        np.testing.assert_allclose(answer["first"], scores[:, 0, 1], rtol=1e-9, atol=1e-9)
        np.testing.assert_array_equal(np.reshape(answer["winners"], scores.shape[1:]), scores.argmax(axis=0))
    assert verdicts == {"holds", "refuted", "not proved"}


def flat(weights: ndarray) -> list[float]:
    return [float(number) for number in weights.ravel()]


def test_laws_are_those_of_the_package() -> None:
    rng = np.random.default_rng(0)
    names = ("items", "d_model", "heads", "key_width")
    points = [
        dict(zip(names, map(int, point), strict=True))
        for point in rng.integers((8, 4, 1, 1), (501, 129, 17, 65), size=(200, 4))
    ]
    for point, answer in zip(points, ask(*(("laws", point) for point in points)), strict=True):
        items, d_model, heads, key_width = (point[name] for name in names)
        size = {"items": items, "relations": items}
        assert answer["needed"] == pytest.approx(float(freedom_needed(**size, heads=heads)), rel=1e-9)
        shared = max(divisor for divisor in range(1, max(1, heads // 2) + 1) if heads % divisor == 0)
        for key_heads, freedom, law in ((heads, "freedom", "width"), (shared, "shared_freedom", "shared_width")):
            shape = Shape(d_model=d_model, heads=heads, key_width=key_width, key_heads=key_heads)
            assert answer[freedom] == pytest.approx(shape.freedom, rel=1e-12)
            assert answer[law] == freedom_key_width(**size, d_model=d_model, heads=heads, key_heads=key_heads)
        split = freedom_split(**size, d_model=d_model, heads=range(1, 65))
        assert (answer["split"] and [answer["split"][name] for name in ("heads", "key_width")]) == (split and [*split])
        assert answer["paper"] == pytest.approx(float(paper_key_budget(**size, d_model=d_model, slope=1.19)), rel=1e-12)
        group = heads // shared
        budgets = [
            groups * width
            for groups in range(1, 17)
            if (width := freedom_key_width(**size, d_model=d_model, heads=groups * group, key_heads=groups)) is not None
        ]
        assert (answer["shared_split"] and answer["shared_split"]["key_budget"]) == (min(budgets) if budgets else None)
        # half of the weights of queries and keys: (h + g)·d·d_k / 2 is d·D_K where every head has its own keys
        assert answer["shared_paper"] * (1 + group) / 2 == pytest.approx(answer["paper"], rel=1e-12)
        weights = 2 * d_model * heads * key_width
        bits = bits_per_weight(f"permutation:{items}", weights=weights).value
        assert answer["bits"] == pytest.approx(bits, rel=1e-12)
