"""The attack on certificates: layers whose threshold is forced next to a score, judged again by exact arithmetic.

python -m attack.certificates 100000      prints counts as JSON; exit code 1 after any unsound verdict

Four families take turns. `pairwise` (max, sum): every score in exact fractions. `softmax`: every context of at most
eight items in extended precision. `PyTorch`: the exported module in float32 and bfloat16, with its sums in other
orders. `proof`: tools/check_proof.py against certify, on layers that are right and on layers that are disturbed.
Of six cases two are pairwise and two are softmax. Weights have all float types, and weights of both sides may differ
in type. Heads can share keys. Tiles may be as small as one pair. Certify projects ordinary weights with BLAS and tiny
ones in native code; the outcomes of `pairwise` and `softmax` say which way both sides took: `BLAS`, `native` or
`mixed`.
"""

from __future__ import annotations

import io
import json
import sys
from collections import Counter
from collections.abc import Iterator
from fractions import Fraction
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path
from types import ModuleType
from unittest.mock import patch

import numpy as np

from manyheads import Graph, Layer
from manyheads.certificate import Certificate, certify, projection
from manyheads.files import pack_proof
from manyheads.problem.problem import Problem

FAMILIES = ("pairwise", "softmax", "PyTorch", "proof")
TURNS = ("pairwise", "softmax", "pairwise", "softmax", "PyTorch", "proof")
SHARED = 0.3  # of the layers with two heads or more
TYPES = (np.float16, np.float32, np.float64)
CHECKER = Path(__file__).parents[2] / "tools" / "check_proof.py"


def random_weights(
    rng: np.random.Generator, *, most_items: int, large: float = 0.0, tiny: float = 0.0
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Rows, query and key weights: small whole numbers, ordinary ones, ill-scaled ones, or ones that cancel.

    A share `large` has more items, width and heads than one register of the native code. A share `tiny` has weights
    below LEAST_WEIGHT on one side or on both. A share SHARED has heads that share keys.
    """
    rows, query, key = _own_weights(rng, most_items=most_items, large=large, tiny=tiny)
    if (heads := len(query)) > 1 and rng.random() < SHARED:
        key = key[: rng.choice([count for count in range(1, heads) if heads % count == 0])]
    return rows, query, key


def _own_weights(
    rng: np.random.Generator, *, most_items: int, large: float, tiny: float
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """The weights of heads with keys of their own."""
    ranges = ((2, most_items), (1, 6), (1, 5), (1, 5))
    if rng.random() < large:
        ranges = ((8, 21), (4, 19), (1, 5), (4, 19))
    items, width, heads, size = (int(rng.integers(low, high)) for low, high in ranges)
    shapes = (items, width), (heads, width, size), (heads, width, size)
    kind = rng.integers(5)
    if kind == 0:
        rows, query, key = (rng.integers(-4, 5, shape).astype(float) for shape in shapes)
    else:
        rows, query, key = (rng.standard_normal(shape) for shape in shapes)
    if kind == 2:
        rows, query, key = (part * 10.0 ** rng.uniform(-2, 2, part.shape) for part in (rows, query, key))
    if kind == 3:
        rows[:, -1], query[:, -1] = -rows[:, 0], query[:, 0] + rng.standard_normal() * 1e-4
    if kind == 4:
        query, key = query * 2.0 ** rng.integers(-12, 12), key * 2.0 ** rng.integers(-12, 12)
    one, other = rng.integers(3, size=2)
    if rng.random() < tiny:
        sides = int(rng.integers(1, 4))
        if rng.random() < 0.3:
            return rows.astype(np.float32), *with_tiny_column(query, key, sides)
        if sides & 1:
            query, one = query * 2.0 ** -rng.integers(905, 1040), 2
        if sides & 2:
            key, other = key * 2.0 ** -rng.integers(905, 1040), 2
        if sides < 3 and rng.random() < 0.7:  # a large side, so that scores are ordinary numbers again
            query, key = (query, key * 2.0**900) if sides & 1 else (query * 2.0**900, key)
            one = other = 2
    return rows.astype(np.float32), query.astype(TYPES[one]), key.astype(TYPES[other])


def with_tiny_column(query: np.ndarray, key: np.ndarray, sides: int) -> tuple[np.ndarray, np.ndarray]:
    """The weights of one side or of both with a tiny first column, so that BLAS does not project them."""
    one, other = (
        part.astype(np.float64) * 2.0 ** np.where(np.arange(part.shape[2]) == 0, -950, 0) if sides & side else part
        for side, part in ((1, query), (2, key))
    )
    return one, other


def forced_threshold(rng: np.random.Generator, scores: np.ndarray, step: float) -> float:
    """A threshold next to a score, `step` times a few units away, or between two scores."""
    ordered = np.unique(scores[np.isfinite(scores)])
    place = int(rng.integers(len(ordered)))
    if rng.random() < 0.4 and len(ordered) > 1:
        place = min(place, len(ordered) - 2)
        return float(ordered[place] / 2 + ordered[place + 1] / 2)
    scale = min(1e-3, float(np.abs(ordered).max()))
    return float(ordered[place] + rng.integers(-6, 7) * step * max(abs(float(ordered[place])), scale))


def graph_of(related: np.ndarray) -> Graph:
    sources, targets = np.nonzero(related)
    return Graph(len(related), sources, targets)


def exact_scores(layer: Layer, rows: np.ndarray) -> list[list[Fraction]]:
    """The joined scores of all pairs, exactly."""

    def whole(array: np.ndarray) -> tuple[np.ndarray, int]:  # whole numbers over a power of two
        mantissa, exponent = np.frexp(array.astype(np.float64))
        least = int((exponent - 53)[array != 0].min(initial=0))
        scaled = [
            int(m) << int(e - 53 - least) if m else 0
            for m, e in zip((mantissa * 2.0**53).flat, exponent.flat, strict=True)
        ]
        return np.array(scaled, dtype=object).reshape(array.shape), least

    x, x_power = whole(rows)
    query, query_power = whole(layer.query)
    key, key_power = whole(layer.key)
    key = np.repeat(key, layer.heads // layer.key_heads, axis=0)
    heads = [(x @ query[k]) @ (x @ key[k]).T for k in range(layer.heads)]
    joined = np.max(heads, axis=0) if layer.rule.name == "max" else np.sum(heads, axis=0)
    scale = Fraction(2) ** (2 * x_power + query_power + key_power)
    return [[Fraction(int(number)) * scale for number in row] for row in joined]


def attack_pairwise(rng: np.random.Generator) -> str:
    rows, query, key = random_weights(rng, most_items=7, large=0.05, tiny=0.15)
    layer = Layer(query, key, 0.0, ("max", "sum")[rng.integers(2)])
    tau = forced_threshold(rng, layer.scores(rows), 2.0**-52)
    layer = Layer(query, key, tau, layer.rule)
    exact = np.array([[score > Fraction(tau) for score in row] for row in exact_scores(layer, rows)])
    related = exact ^ (rng.random(exact.shape) < rng.choice([0.0, 0.0, 0.1]))
    verdict = certify(layer, Problem(graph_of(related), rows)).verdict
    right = bool((exact == related).all())
    return "unsound" if verdict == ("refuted" if right else "holds") else f"{verdict} ({way(layer)})"


def way(layer: Layer) -> str:
    """How certify projects the two sides of a layer: with BLAS, in native code, or one side in each."""
    sides = {bool((abs(part[part != 0]) < projection.LEAST_WEIGHT).any()) for part in (layer.query, layer.key)}
    return "mixed" if len(sides) == 2 else "native" if True in sides else "BLAS"


def context_extremes(layer: Layer, rows: np.ndarray, lengths: tuple[int, int]) -> tuple[np.ndarray, np.ndarray]:
    """The smallest and the largest score of every pair over all contexts, in extended precision."""
    x, wide = rows.astype(np.longdouble), np.longdouble
    query, key = layer.query.astype(wide), np.repeat(layer.key, layer.heads // layer.key_heads, axis=0).astype(wide)
    logits = [(x @ q) @ (x @ k).T for q, k in zip(query, key, strict=True)]
    powers = np.exp(np.array(logits) / np.sqrt(wide(layer.key_width)))
    items = len(rows)
    sets = (np.arange(2**items)[:, None] >> np.arange(items)) & 1
    sets = sets[(sets.sum(axis=1) >= lengths[0]) & (sets.sum(axis=1) <= lengths[1])].astype(bool)
    totals = np.einsum("st,hit->his", sets.astype(wide), powers)
    shares = (powers[:, :, None, :] / totals[:, :, :, None]).sum(axis=0)  # source, set, target
    inside = sets.T[:, :, None] & sets[None]
    return np.where(inside, shares, np.inf).min(axis=1), np.where(inside, shares, -np.inf).max(axis=1)


def softmax_case(rng: np.random.Generator) -> tuple[Layer, Problem, tuple[int, int], bool]:
    """A layer, a problem, context lengths, and whether the layer recognises the graph in all of these contexts."""
    rows, query, key = random_weights(rng, most_items=9)
    rows /= max(1.0, float(np.abs(rows).max()))
    top = max(1.0, *(float(np.abs(part).max()) for part in (query, key)))
    query, key = (query / top * 3).astype(query.dtype), (key / top * 3).astype(key.dtype)
    if rng.random() < 0.15:  # one column of weights is tiny: BLAS does not project it
        query, key = with_tiny_column(query, key, int(rng.integers(1, 4)))
    shortest, longest = sorted(rng.integers(2, len(rows) + 1, size=2).tolist())
    low, high = context_extremes(Layer(query, key, 0.0, "softmax"), rows, (shortest, longest))
    tau = forced_threshold(rng, np.concatenate([low, high]).astype(float), 1e-15)
    related = low > tau
    wrong = (~related & (high > tau)).any()
    if not wrong:
        related = related ^ (rng.random(low.shape) < rng.choice([0.0, 0.0, 0.1]))
    right = bool((low > tau)[related].all() and (high <= tau)[~related].all())
    return Layer(query, key, tau, "softmax"), Problem(graph_of(related), rows), (shortest, longest), right


def attack_softmax(rng: np.random.Generator) -> str:
    layer, problem, lengths, right = softmax_case(rng)
    verdict = certify(layer, problem, context_length=lengths).verdict
    return "unsound" if verdict == ("refuted" if right else "holds") else f"{verdict} ({way(layer)})"


def attack_pytorch(rng: np.random.Generator) -> str:
    import torch

    from manyheads.files.standalone.attention import AttentionLayer

    rows, query, key = random_weights(rng, most_items=7)
    rule = ("max", "sum", "softmax")[rng.integers(3)]
    layer = Layer(query, key, 0.0, rule)
    tau = forced_threshold(rng, layer.scores(rows), float(rng.choice([2.0**-22, 2.0**-6])))
    layer = Layer(query, key, tau, rule)
    related = layer.scores(rows) > tau
    length = None if layer.rule.context_blind else len(rows)
    certificate = certify(layer, Problem(graph_of(related), rows), context_length=length)
    for name in ("float32", "bfloat16"):
        if not certificate.holds_in(name):
            continue
        for _ in range(2):
            one, other = rng.permutation(layer.d_model), rng.permutation(layer.key_width)
            left, right = (torch.tensor(part[:, one][:, :, other].astype(np.float64)) for part in (query, key))
            module = AttentionLayer(left, right, tau, rule, torch.tensor(rows[:, one])).to(getattr(torch, name))
            if (module.recognise(module.rows(range(len(rows)))).numpy() != related).any():
                return "unsound"
    return (
        "bfloat16" if certificate.holds_in("bfloat16") else "float32" if certificate.holds_in("float32") else "neither"
    )


def attack_proof(rng: np.random.Generator) -> str:
    """The checker must agree with every proof, but for those too close for it, and refuse what does not hold."""
    if rng.random() < 0.3:
        layer, problem, lengths, _ = softmax_case(rng)
    else:
        rows, query, key = random_weights(rng, most_items=7)
        layer = Layer(query, key, 0.0, ("max", "sum")[rng.integers(2)])
        scores = layer.scores(rows)
        layer, lengths = Layer(query, key, forced_threshold(rng, scores, 1e-14), layer.rule), None
        problem = Problem(graph_of(scores > layer.threshold), rows)
    certificate = certify(layer, problem, context_length=lengths)
    if certificate.verdict == "not proved":
        return "open"
    if certificate.verdict == "refuted":  # a proof of a wrong claim
        forged = Certificate(**(vars(certificate) | {"verdict": "holds"}))
        return "unsound" if checked(pack_proof(layer, problem, forged)) == 0 else "refused"
    if rng.random() < 0.5:
        return ("close", "verified")[checked(pack_proof(layer, problem, certificate)) == 0]
    related = problem.graph.adjacency()  # a disturbed graph: one pair changes its side
    related.flat[rng.integers(related.size)] ^= True
    code = checked(pack_proof(layer, Problem(graph_of(related), problem.rows), certificate))
    return "unsound" if code == 0 else "disturbed"


def checked(proof: bytes) -> int:
    """The exit code of the checker, without a process of its own."""
    output = io.StringIO()
    with patch.object(sys, "argv", ["check_proof", io.BytesIO(proof)]), patch.object(sys, "stdout", output):
        return int(_checker().main())


_loaded: list[ModuleType] = []


def _checker() -> ModuleType:
    if not _loaded:
        spec = spec_from_file_location("check_proof", CHECKER)
        assert spec is not None
        assert spec.loader is not None
        module = module_from_spec(spec)
        spec.loader.exec_module(module)
        _loaded.append(module)
    return _loaded[0]


def cases(count: int, first: int) -> Iterator[tuple[str, int]]:
    return ((TURNS[case % len(TURNS)], case) for case in range(first, first + count))


def attack(count: int, *, first: int = 0) -> dict[str, Counter[str]]:
    """Judge `count` layers. Returns how often each family had each outcome; `unsound` must not occur."""
    attacks = dict(zip(FAMILIES, (attack_pairwise, attack_softmax, attack_pytorch, attack_proof), strict=True))
    counts: dict[str, Counter[str]] = {family: Counter() for family in FAMILIES}
    for family, case in cases(count, first):
        rng = np.random.default_rng(case)
        with patch.object(projection, "BLOCK", int(rng.choice([1, 4, 9, 1 << 18]))), np.errstate(all="ignore"):
            outcome = attacks[family](rng)
        counts[family][outcome] += 1
        if outcome == "unsound":
            print(f"case {case}, {family}: unsound", file=sys.stderr)
    return counts


def main() -> int:
    first = int(sys.argv[2]) if len(sys.argv) > 2 else 0
    counts = attack(int(sys.argv[1]), first=first)
    print(json.dumps(counts, indent=2))
    return int(any(row["unsound"] for row in counts.values()))


if __name__ == "__main__":
    sys.exit(main())
