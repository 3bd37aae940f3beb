"""Measure the incoherence of random and of real embeddings.

Parts: families, lemma, density; real, which needs `--data FOLDER` with the files named in REAL.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import asdict
from itertools import product
from pathlib import Path

import numpy as np

from manyheads import gaussian, permutation_graph, sparse_binary
from manyheads.problem.incoherence import IncoherenceProfile, incoherence_profile, realised_profile
from tools.pages.catalogue import Settings
from tools.pages.incoherence.text import GAUSSIAN
from tools.pages.rows import Row, machine_rows, write_rows

SEEDS = range(3)
ITEMS, D_MODEL = 1024, 128
BLOCK_SIZES = [2**n for n in range(11)]
GROWING = [(256, 32), (512, 64), (1024, 128), (2048, 256), (4096, 512)]
LOG_MULTIPLES = [1, 2, 4, 8]  # c of the density p_B = c·ln m / d_model
REAL_BLOCK = 64
REAL = {
    "SmolLM2-135M-Instruct, token embedding, 6144 most frequent tokens": "smollm2_top6144_f16.npy",
    "GloVe, 6144 most frequent words": "glove100_top6144_f16.npy",
}


def blocks_of(items: int, size: int, *, seed: int) -> list[tuple[np.ndarray, np.ndarray]]:
    """The blocks of Algorithms 1 and 4: consecutive sources of a random permutation, and their targets."""
    graph = permutation_graph(items, seed=seed)
    return [(graph.sources[at : at + size], graph.targets[at : at + size]) for at in range(0, items, size)]


def profiles(embedding: np.ndarray, block_size: int, *, seed: int) -> Iterator[tuple[str, IncoherenceProfile]]:
    """The profile over all sets, and the profile on the blocks of one permutation."""
    yield "sets", incoherence_profile(embedding, matching_size=block_size)
    yield "blocks", realised_profile(embedding, blocks_of(len(embedding), block_size, seed=seed))


def family_rows() -> Iterator[Row]:
    """Both families at all block sizes, with the formulas of Corollaries B.6 and B.7 without their constants."""
    density = math.log(ITEMS) / D_MODEL
    for seed, size in product(SEEDS, BLOCK_SIZES):
        for over, profile in profiles(gaussian(ITEMS, D_MODEL, seed=seed), size, seed=seed):
            paper = {"paper_rho": size / D_MODEL, "paper_gamma": math.sqrt(size / D_MODEL)}
            yield {"family": "Gaussian", "seed": seed, "over": over, **asdict(profile), **paper}
        for over, profile in profiles(sparse_binary(ITEMS, D_MODEL, seed=seed, density=density), size, seed=seed):
            paper = {"paper_rho": size / D_MODEL, "paper_gamma": size * density**2}
            yield {"family": "sparse binary", "seed": seed, "over": over, **asdict(profile), **paper}


def lemma_rows() -> Iterator[Row]:
    """Lemma B.3 on Gaussian rows: blocks of d_model items, and √(ln m / d_model), the scale of its item 3."""
    for (items, d_model), seed in product(GROWING, SEEDS):
        profile = realised_profile(gaussian(items, d_model, seed=seed), blocks_of(items, d_model, seed=seed))
        yield {"seed": seed, "over": "blocks", **asdict(profile), "paper_gamma": math.sqrt(math.log(items) / d_model)}


def density_rows() -> Iterator[Row]:
    """ε_d of sparse binary rows of several densities, and the expected number of rows without a 1."""
    for multiple, seed in product(LOG_MULTIPLES, SEEDS):
        ones = multiple * math.log(ITEMS)
        embedding = sparse_binary(ITEMS, D_MODEL, seed=seed, density=ones / D_MODEL)
        profile = incoherence_profile(embedding, matching_size=1)
        zero_rows = ITEMS * (1 - ones / D_MODEL) ** D_MODEL
        yield {
            "seed": seed, "multiple": multiple, "ones": ones, "zero_rows": zero_rows, **asdict(profile),
            "paper_epsilon": 1 / math.sqrt(ones),
        }  # fmt: skip


def real_rows(folder: Path) -> Iterator[Row]:
    """Real embeddings: unchanged; centred and scaled to unit rows; and Gaussian rows of the same shape."""
    for name, file in REAL.items():
        raw = np.load(folder / file, allow_pickle=False).astype(np.float64)
        centred = raw - raw.mean(axis=0)
        versions = {
            "as it is": raw,
            "centred, unit rows": centred / np.linalg.norm(centred, axis=1, keepdims=True),
            GAUSSIAN: gaussian(*raw.shape, seed=0),
        }
        order = np.random.default_rng(0).permutation(len(raw))
        targets = permutation_graph(len(raw), seed=0).targets
        shuffled = [(part, targets[part]) for part in np.array_split(order, len(raw) // REAL_BLOCK)]
        for version, embedding in versions.items():
            own = {"embedding": name, "version": version}
            for over, profile in profiles(embedding, REAL_BLOCK, seed=0):
                yield {**own, "over": over, **asdict(profile)}
            yield {**own, "over": "shuffled blocks", **asdict(realised_profile(embedding, shuffled))}


MEASUREMENTS: dict[str, tuple[str, Callable[[], Iterator[Row]]]] = {
    "families": ("incoherence", family_rows),
    "lemma": ("incoherence-lemma", lemma_rows),
    "density": ("incoherence-density", density_rows),
}


PARTS = (*MEASUREMENTS, "real")


def measure(settings: Settings) -> None:
    """Measure every part, or only one; the rows of real embeddings are kept if no folder is given."""
    for part, (table, rows_of) in MEASUREMENTS.items():
        if settings.only in (None, part):
            write_rows(table, list(rows_of()))
    if settings.data is not None and settings.only in (None, "real"):
        write_rows("incoherence-real", list(real_rows(settings.data)))
    write_rows("incoherence-machine", machine_rows())
