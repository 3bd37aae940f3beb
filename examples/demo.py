"""Compile a graph into attention weights, prove that they hold it, then flip one bit and see the proof refuse them.

    python examples/demo.py [DIRECTORY]

leaves the layer, the graph, the embedding and a picture in DIRECTORY (demo-output).
"""

from __future__ import annotations

import sys
from dataclasses import replace
from pathlib import Path

import numpy as np

from manyheads import Graph, Layer, gaussian, permutation_graph
from manyheads.certificate import Certificate, certify
from manyheads.construct import calibrate, compressive
from manyheads.draw.certificate import Scores, draw_scores
from manyheads.draw.style import save
from manyheads.files import write_embedding, write_graph, write_layer

ITEMS, D_MODEL, BLOCK, KEY_WIDTH = 1024, 256, 128, 300
BIT = np.uint32(1 << 26)


def main(directory: Path) -> None:
    """The whole story, told as it happens."""
    directory.mkdir(parents=True, exist_ok=True)
    graph = permutation_graph(ITEMS, seed=0)
    embedding = gaussian(ITEMS, D_MODEL, seed=1)
    print(
        f"{ITEMS} items share {D_MODEL} dimensions; each relates to one other. Construction II gives {BLOCK} relations"
    )
    print(f"to a head, so {ITEMS // BLOCK} heads of width {KEY_WIDTH} shall hold them all.\n")

    published = compressive(graph, embedding, key_width=KEY_WIDTH, seed=2, block_size=BLOCK)
    certificate = certify(published, embedding, graph)
    tell("With the paper's threshold, half the key width:", certificate)

    layer = calibrate(published, certificate)
    certificate = certify(layer, embedding, graph)
    tell("The same weights with the threshold in the middle of that window:", certificate)

    damaged, place = flip_a_bit(layer)
    refusal = certify(damaged, embedding, graph)
    tell(f"One bit of one weight flipped, {place}:", refusal)

    write_layer(
        directory / "layer.safetensors", layer, provenance={"construction": "compressive", "seed": 2}, force=True
    )
    write_graph(directory / "graph.csv", graph, force=True)
    write_embedding(directory / "embedding.npy", embedding, force=True)
    witness = refusal.witness
    assert witness is not None
    figure = draw_scores(
        [
            scores(
                f"holds: {layer.heads} heads of width {layer.key_width} recognise the graph", layer, embedding, graph
            ),
            replace(
                scores("refuted: the same with one bit flipped", damaged, embedding, graph),
                witness=(f"{witness.labels[0]} → {witness.labels[1]}", witness.score),
            ),
        ]
    )
    picture, _ = save(figure, directory / "certificate")
    print(f"The scores of all {ITEMS**2:,} pairs, before and after: {picture}")
    print(f"Certify the files yourself:\n  cd {directory}")
    print("  manyheads certify layer.safetensors --graph graph.csv --embedding embedding.npy")


def tell(what: str, certificate: Certificate) -> None:
    """A heading and the certificate below it."""
    print(what)
    print("\n".join(f"  {line}" for line in certificate.lines()) + "\n")


def flip_a_bit(layer: Layer) -> tuple[Layer, str]:
    """The layer with an exponent bit of one query weight set, which makes it 256 times as large: a fault in memory."""
    bits = layer.query.copy().view(np.uint32)
    clear = bits & BIT == 0
    place = np.unravel_index(np.where(clear, np.abs(layer.query), 0).argmax(), bits.shape)
    bits[place] |= BIT
    damaged = bits.view(np.float32)
    return replace(layer, query=damaged), f"{layer.query[place]:.3g} becomes {damaged[place]:.3g}"


def scores(title: str, layer: Layer, embedding: np.ndarray, graph: Graph) -> Scores:
    """Every pair's score, those of relations apart."""
    all_scores, related = layer.scores(embedding), graph.adjacency()
    return Scores(title, all_scores[related], all_scores[~related], layer.threshold)


if __name__ == "__main__":
    main(Path(sys.argv[1] if len(sys.argv) > 1 else "demo-output"))
