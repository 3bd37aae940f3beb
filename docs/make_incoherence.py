"""Make docs/incoherence.md: measure the profiles, store them as rows, draw the rows, write the page from the rows.

python docs/make_incoherence.py                      all but the real embeddings, whose stored rows are kept
python docs/make_incoherence.py --real-data FOLDER   those too, from a folder that holds the files named in REAL
python docs/make_incoherence.py --stored             measure nothing: draw and write from the stored rows
"""

from __future__ import annotations

import csv
import math
import platform
from collections.abc import Iterator, Sequence
from dataclasses import asdict
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import tyro
from incoherence_page import GAUSSIAN, page

from manyheads import gaussian, permutation_graph, sparse_binary
from manyheads.drawing.incoherence import draw_lemma, draw_profile
from manyheads.drawing.style import save
from manyheads.problem.incoherence import IncoherenceProfile, incoherence, realised_incoherence

DOCS = Path(__file__).parent
STORED = ("incoherence", "incoherence-lemma", "incoherence-density", "incoherence-real", "incoherence-machine")
Row = dict[str, Any]

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
    """Over all sets, and on the blocks of one permutation."""
    yield "sets", incoherence(embedding, block_size=block_size)
    yield "blocks", realised_incoherence(embedding, blocks_of(len(embedding), block_size, seed=seed))


def family_rows() -> Iterator[Row]:
    """Both families over all block sizes, beside what Corollaries B.6 and B.7 say up to a constant."""
    density = math.log(ITEMS) / D_MODEL
    for seed, size in product(SEEDS, BLOCK_SIZES):
        for over, profile in profiles(gaussian(ITEMS, D_MODEL, seed=seed), size, seed=seed):
            paper = {"paper_rho": size / D_MODEL, "paper_gamma": math.sqrt(size / D_MODEL)}
            yield {"family": "Gaussian", "seed": seed, "over": over, **asdict(profile), **paper}
        for over, profile in profiles(sparse_binary(ITEMS, D_MODEL, seed=seed, density=density), size, seed=seed):
            paper = {"paper_rho": size / D_MODEL, "paper_gamma": size * density**2}
            yield {"family": "sparse binary", "seed": seed, "over": over, **asdict(profile), **paper}


def lemma_rows() -> Iterator[Row]:
    """Lemma B.3 on Gaussian rows: blocks of d_model items, and √(ln m / d_model), which item 3 compares with."""
    for (items, d_model), seed in product(GROWING, SEEDS):
        profile = realised_incoherence(gaussian(items, d_model, seed=seed), blocks_of(items, d_model, seed=seed))
        yield {"seed": seed, "over": "blocks", **asdict(profile), "paper_gamma": math.sqrt(math.log(items) / d_model)}


def density_rows() -> Iterator[Row]:
    """ε_d of sparse binary rows of several densities, and of the zero rows that `sparse_binary` does not draw."""
    for multiple, seed in product(LOG_MULTIPLES, SEEDS):
        ones = multiple * math.log(ITEMS)
        embedding = sparse_binary(ITEMS, D_MODEL, seed=seed, density=ones / D_MODEL)
        profile = incoherence(embedding, block_size=1)
        zero_rows = ITEMS * (1 - ones / D_MODEL) ** D_MODEL
        yield {
            "seed": seed, "multiple": multiple, "ones": ones, "zero_rows": zero_rows, **asdict(profile),
            "paper_epsilon": 1 / math.sqrt(ones),
        }  # fmt: skip


def real_rows(folder: Path) -> Iterator[Row]:
    """Real embeddings as they are, centred and scaled to unit rows, and Gaussian rows of the same shape."""
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
            yield {**own, "over": "shuffled blocks", **asdict(realised_incoherence(embedding, shuffled))}


def machine_rows() -> list[Row]:
    """What the rows were computed with; none of them is a time, so this decides the last digits only."""
    return [
        {"fact": "machine", "value": f"{platform.machine()}, {platform.system()}"},
        {"fact": "Python", "value": platform.python_version()},
        {"fact": "numpy", "value": np.__version__},
    ]


def write_rows(name: str, rows: Sequence[Row]) -> None:
    """Store rows as CSV, numbers to six digits."""
    with (DOCS / "data" / f"{name}.csv").open("w", newline="") as file:
        writer = csv.DictWriter(file, list(rows[0]), lineterminator="\n")
        writer.writeheader()
        for row in rows:
            writer.writerow({key: f"{value:.6g}" if isinstance(value, float) else value for key, value in row.items()})


def read_rows(name: str) -> list[Row]:
    """Read stored rows; what looks like a number is one."""
    with (DOCS / "data" / f"{name}.csv").open(newline="") as file:
        return [{key: _value(text) for key, text in row.items()} for row in csv.DictReader(file)]


def _value(text: str) -> Any:
    for kind in (int, float):
        try:
            return kind(text)
        except ValueError:
            continue
    return {"True": True, "False": False, "": None}.get(text, text)


def main(real_data: Path | None = None, stored: bool = False) -> None:
    """Measure, store, draw and write."""
    if not stored:
        write_rows("incoherence", list(family_rows()))
        write_rows("incoherence-lemma", list(lemma_rows()))
        write_rows("incoherence-density", list(density_rows()))
        write_rows("incoherence-machine", machine_rows())
    if real_data is not None:
        write_rows("incoherence-real", list(real_rows(real_data)))
    families, lemma, densities, real, machine = (read_rows(name) for name in STORED)
    save(draw_profile(families), DOCS / "figures" / "incoherence")
    save(draw_lemma(lemma, densities), DOCS / "figures" / "incoherence-lemma")
    (DOCS / "incoherence.md").write_text(page(families, lemma, densities, real, machine))


if __name__ == "__main__":
    tyro.cli(main)
