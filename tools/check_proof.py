"""Check a proof of `manyheads certify --proof`, with numpy alone and without any code of manyheads.

python check_proof.py proof.npz [rows.npy [graph.csv]]

It proves again that all related pairs, and no others, score above the threshold in every context. It computes in
float64, with a bound on the rounding error of each pair. The proof must be about the rows and the graph that are given
(as --save-graph writes it, without labels). Exit code 0: verified; 1: not verified (wrong, or too close); 2: no proof.
"""

import sys

import numpy as np

UNIT, LEAST, UP, TILE = 2.0**-53, 2.0**-1022, 1.001, 256  # UP is for the rounding of the bounds themselves


def gamma(terms):
    """The relative error of a sum of products, in any order."""
    return terms * UNIT / (1 - terms * UNIT)


def read(path):
    """The parts of a proof, checked."""
    with np.load(path, allow_pickle=False) as file:
        data = {name: file[name] for name in file.files}
    query, key, rows = (data[name].astype(np.float64) for name in ("query", "key", "embedding"))
    items, lengths = len(rows), tuple(data["context_lengths"].tolist())
    rule, threshold = str(data["rule"]), float(data["threshold"])
    if str(data["format"]) != "manyheads proof 1" or rule not in ("max", "sum", "softmax"):
        raise ValueError(f"another format, or the rule {rule}, which this checker does not know")
    finite = all(np.isfinite(part).all() for part in (query, key, rows, threshold))
    key = np.repeat(key, len(query) // max(1, len(key)), axis=0)  # heads that share keys: a copy for each of them
    if not finite or key.shape != query.shape or rows.shape != (items, query.shape[1]) or 0 in query.shape:
        raise ValueError("weights and rows do not go together, or a number is not finite")
    if rule == "softmax" and not (len(lengths) == 2 and 2 <= lengths[0] <= lengths[1] <= items):
        raise ValueError("the context lengths are out of range")
    return query, key, rows, threshold, rule, matrix(np.stack([data["sources"], data["targets"]]), items), lengths


def matrix(pairs, items):
    """The relations, one number for each ordered pair of items."""
    related = np.zeros((items, items), dtype=bool)
    related.flat[np.ravel_multi_index(tuple(pairs), related.shape)] = True  # an item out of range is an error
    return related


def project(weights, rows):
    """x·W of all heads, and a bound on the error of each number, underflow included."""
    lost = 4 * rows.shape[1] * LEAST * (2 + np.abs(rows).max() + np.abs(weights).max())
    return rows @ weights, gamma(rows.shape[1] + 1) * UP * (np.abs(rows) @ np.abs(weights)) + lost


def score_tile(queries, keys, query_errors, key_errors):
    """The scores of each head, and for each pair a bound on the error of its score."""
    size, other = np.abs(queries), np.abs(keys) + key_errors
    inner = gamma(queries.shape[2] + 2)
    bound = query_errors @ other.swapaxes(1, 2) * (1 + inner) + size @ (key_errors + inner * other).swapaxes(1, 2)
    lost = 4 * queries.shape[2] * LEAST * (2 + size.max() + query_errors.max() + other.max())
    return queries @ keys.swapaxes(1, 2), bound * UP + lost


def check_pairs(query, key, rows, threshold, related, rule):
    """Whether every pair is on its side of the threshold, under max and sum."""
    (q, alpha), (k, beta) = project(query, rows), project(key, rows)
    starts = range(0, len(rows), TILE)
    for i, j in ((slice(i, i + TILE), slice(j, j + TILE)) for i in starts for j in starts):
        heads, bounds = score_tile(q[:, i], k[:, j], alpha[:, i], beta[:, j])
        scores, bound = heads.max(axis=0), bounds.max(axis=0)
        if rule == "sum":
            scores, bound = heads.sum(axis=0), (bounds + gamma(len(query)) * np.abs(heads)).sum(axis=0)
        if not (np.where(related[i, j], scores - threshold, threshold - scores) > bound * UP).all():
            return False
    return True


def quick_scores(e, source, free, largest):
    """A bound on every target's score: each head has its own worst context of `free` items and the pair."""
    weights = np.where(np.arange(e.shape[1]) == source, np.inf, -e if largest else e)
    order = np.argsort(weights, axis=1)[:, : free + 1]
    values = np.take_along_axis(e, order, axis=1)
    rest = np.repeat(values[:, :free].sum(axis=1)[:, None], e.shape[1], axis=1)
    np.put_along_axis(rest, order[:, :free], values.sum(axis=1)[:, None] - values[:, :free], axis=1)
    rest = np.maximum(rest, 0) + e[:, source, None]
    rest[:, source] = values.sum(axis=1)
    return (e / (e + rest)).sum(axis=0)


def pair_score(logits, source, target, free, largest):
    """A bound on one pair's score over all contexts, by tangents from below or by secants from above."""
    ratios = np.exp(np.minimum(logits - logits[:, target, None], 300))
    base = np.ones(len(logits)) if source == target else 1 + ratios[:, source]
    others, free = np.delete(ratios, [source, target], axis=1), free + (source == target)
    low, high = (sign * np.sort(sign * others, axis=1)[:, :free].sum(axis=1) for sign in (1, -1))
    if not largest:  # the convex function 1/(c + s) lies below its secants
        y = 1 / ((base + low) * (base + high))
        return (1 / (base + low) + low * y).sum() - np.sort(y @ others)[:free].sum()
    best, sums = -np.inf, high
    for step in range(40):  # … and above its tangents; Frank and Wolfe improve the point of the tangent
        y = 1 / (base + sums)
        vertex = others[:, np.argsort(-(y * y) @ others)[:free]].sum(axis=1)
        best = max(best, (y + (sums - vertex) * y * y).sum())
        sums = sums + (vertex - sums) * 2 / (step + 2)
    return best


def check_contexts(query, key, rows, threshold, related, lengths):
    """Whether every pair is proved in every context of these lengths, under softmax."""
    (q, alpha), (k, beta) = (project(weights, rows) for weights in (query, key))
    root, heads = np.sqrt(query.shape[2]), len(query)
    for i in range(len(rows)):
        logits, bounds = score_tile(q[:, i : i + 1], k, alpha[:, i : i + 1], beta)
        logits, bounds = logits[:, 0] / root, bounds[:, 0].max(axis=1) / root
        if not (np.ptp(logits, axis=1) < 600).all():  # powers of e would underflow
            return False
        # an error of all logits moves a share by at most half of it; the rest is the arithmetic of the bounds
        error = (bounds + 16 * UNIT * (np.abs(logits).max(axis=1) + 1)).sum()
        error += 16 * heads * (len(rows) + heads + 64) * UNIT
        e = np.exp(logits - logits.max(axis=1, keepdims=True))
        for relations, length, sign in ((True, lengths[1], 1), (False, lengths[0], -1)):
            scores = quick_scores(e, i, length - 2, relations)
            for j in np.flatnonzero((related[i] == relations) & ~(sign * (scores - threshold) > error)):
                if not sign * (pair_score(logits, i, j, length - 2, relations) - threshold) > error:
                    return False
    return True


def main():
    """The exit code, after the verdict is printed."""
    try:
        query, key, rows, threshold, rule, related, lengths = read(sys.argv[1])
        if len(sys.argv) > 2 and not np.array_equal(np.load(sys.argv[2], allow_pickle=False), rows):
            raise ValueError("the proof is about other rows than those of the file")
        given = None if len(sys.argv) < 4 else np.loadtxt(sys.argv[3], int, delimiter=",", skiprows=3, ndmin=2).T
        if given is not None and (matrix(given, len(rows)) != related).any():
            raise ValueError("the proof is about another graph than that of the file")
        if not LEAST * 0.5 > 0:
            raise ValueError("this processor replaces subnormal numbers by zero")
    except Exception as error:
        print(f"nothing to check: {error}", file=sys.stderr)
        return 2
    with np.errstate(all="ignore"):
        check, extra = (check_contexts, lengths) if rule == "softmax" else (check_pairs, rule)
        verified = check(query, key, rows, threshold, related, extra)
    words = f"rule {rule}, {len(rows)} items, {related.sum()} relations, context lengths {lengths or 'all'}"
    print(f"{'verified' if verified else 'NOT VERIFIED'}: {words}")
    return int(not verified)


if __name__ == "__main__":
    sys.exit(main())
