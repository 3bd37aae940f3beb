"""This machine's own single-thread float32 matmul peak, by numpy's BLAS: the best of many square products."""

from __future__ import annotations

import json
import os
import time

for pool in ("OMP", "OPENBLAS", "MKL", "BLIS", "VECLIB_MAXIMUM"):
    os.environ[f"{pool}_NUM_THREADS"] = "1"  # read once, while numpy is imported

import numpy as np  # noqa: E402  (after the thread pools are pinned)

SIZES = (256, 512, 1024)
REPEATS = 30


def gflops(size: int) -> float:
    """The quickest of the repeated products: the peak is what the machine can do, not what it typically does."""
    left, right = np.random.default_rng(0).standard_normal((2, size, size), dtype=np.float32)
    out = np.empty_like(left)
    best = np.inf
    for _ in range(REPEATS):
        start = time.perf_counter()
        np.matmul(left, right, out=out)
        best = min(best, time.perf_counter() - start)
    return float(2 * size**3 / best / 1e9)


def main() -> None:
    print(json.dumps({"gflops": max(gflops(size) for size in SIZES), "version": f"numpy {np.__version__}"}))


if __name__ == "__main__":
    main()
