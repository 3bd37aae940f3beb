"""The kinds of files that the attack damages: a good file of each, its reader, and the damage that must be seen."""

from __future__ import annotations

import gzip
import hashlib
import json
import zlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass, fields, is_dataclass
from pathlib import Path
from typing import Any

import numpy as np
import safetensors.numpy
from attack.mutators import mutate, mutate_json
from support.small_models import ROWS, TEXT, write_gguf, write_model, write_tokenizer

from manyheads import Graph, Layer, audit, permutation_graph
from manyheads.block.block_run import BlockRun
from manyheads.certificate import certify, described
from manyheads.cli.commands.attend import outside_notes
from manyheads.cli.render.layer_table import record_facts, record_words
from manyheads.files import (
    read_embedding,
    read_graph,
    read_labels,
    read_layer,
    read_provenance,
    write_embedding,
    write_graph,
    write_layer,
)
from manyheads.files.exclusion_files import EXCLUSION_FORMAT, MATRIX, read_exclusion
from manyheads.files.gguf_files import read_gguf_metadata
from manyheads.files.layer_files import TrainedBlock, read_block, write_block
from manyheads.files.model_files import read_architecture
from manyheads.files.safetensors_files import CHECKSUM, pack_tensors
from manyheads.files.token_tables import read_ranking, read_token_table
from manyheads.files.tokenizer_files import Tokenizer, read_tokenizer
from manyheads.papers.rows import FORMAT, Row, Rows, read_rows, write_rows
from manyheads.problem.problem import Problem

GRAPH = permutation_graph(6, seed=0)
LABELS = ("Rome", "=1+1", "ä,b", "-", '"c"', "#d")
QUERY, KEY = np.random.default_rng(0).standard_normal((2, 1, 2, 2)).astype(np.float32)
LAYER = Layer(QUERY, KEY, threshold=0.1, rule="softmax")
RUN = BlockRun(items=40, d_model=4, heads=2, key_width=3, seed=0)
WEIGHTS = {"query": np.ones((2, 4, 3), np.float32), "rise": np.ones((4, 16), np.float32)}
CONFIG = {"model_type": "llama", "num_hidden_layers": 2, "hidden_size": 12, "num_attention_heads": 3, "vocab_size": 99}
LATENT = CONFIG | {"kv_lora_rank": 8, "q_lora_rank": 6, "qk_nope_head_dim": 4, "qk_rope_head_dim": 2}
HEADINGS = "city,country\nRome,Italy\nOslo,Norway\n"
VOCABULARY = '{"a": 1, "the": 0, "cat": 2}'
Damage = Callable[[bytes, np.random.Generator], bytes]


@dataclass(frozen=True)
class Kind:
    """A kind of file.

    Attributes:
        name: The name of the file, whose ending decides the reader's way.
        write: Writes a good file.
        read: Reads a file.
        guarded: Whether a file with this content has a checksum, so that it must be read equal or be refused.
        damage: Damages a good file.
    """

    name: str
    write: Callable[[Path], object]
    read: Callable[[Path], Any]
    guarded: Callable[[bytes], bool] = lambda content: False
    damage: Damage = mutate

    @property
    def title(self) -> str:
        """The name of the kind in the table of counts."""
        ways: dict[Damage, str] = {mutate: "", mutate_json: ", other JSON"}
        return self.name + ways.get(self.damage, f", {self.damage.__name__.replace('_', ' ')}")


def behind_the_checksum(content: bytes, rng: np.random.Generator) -> bytes:
    """Damage one text of the metadata, or the shapes, and give the file a correct checksum."""
    length = int.from_bytes(content[:8], "little")
    metadata = json.loads(content[8 : 8 + length])["__metadata__"]
    metadata.pop(CHECKSUM)
    name = str(rng.choice(sorted({"run", "threshold", "provenance", "rule", "version", "embedding"} | set(metadata))))
    old = metadata.get(name, "").encode()
    is_json = old.startswith((b"{", b"[")) and rng.random() < 0.7
    metadata[name] = (mutate_json if is_json else mutate)(old, rng).decode("utf-8", "replace")
    arrays = safetensors.numpy.load(content)
    if rng.random() < 0.3:
        name = str(rng.choice(list(arrays)))
        arrays[name] = arrays[name].reshape(rng.permutation(arrays[name].shape))
    return pack_tensors(arrays, metadata)


def in_the_header(content: bytes, rng: np.random.Generator) -> bytes:
    """Damage the header of a safetensors file and correct its length."""
    length = int.from_bytes(content[:8], "little")
    header = (mutate if rng.random() < 0.3 else mutate_json)(content[8 : 8 + length], rng)
    return len(header).to_bytes(8, "little") + header + content[8 + length :]


def in_the_gzip(content: bytes, rng: np.random.Generator) -> bytes:
    """Damage the text in a gzip file, and pack it again."""
    lines = gzip.decompress(content).splitlines()
    place = rng.integers(len(lines))
    lines[place] = (mutate if rng.random() < 0.3 else mutate_json)(lines[place], rng)
    return gzip.compress(b"\n".join(lines), mtime=0)


def below_the_checksum(content: bytes, rng: np.random.Generator) -> bytes:
    """Damage an edge list and give it a correct checksum."""
    damaged = mutate(content.partition(b"\n")[2], rng)
    return f"# sha256: {hashlib.sha256(damaged).hexdigest()}\n".encode() + damaged


def _has_format(content: bytes) -> bool:
    try:
        return FORMAT.encode() in gzip.decompress(content)
    except (OSError, EOFError, zlib.error):
        return False


def _write_rows(path: Path) -> None:
    @dataclass(frozen=True)
    class Named:
        id: str

        @property
        def fields(self) -> Mapping[str, object]:
            return {"id": self.id}

    rows = [Row(f"{n:016x}", "pairs", "limit", {"micro_f1": n / 7, "best": None}, n, 0.5) for n in range(6)]
    write_rows(path, Rows(rows, machine={"cpu": "AMD"}), [Named(row.id) for row in rows])


def _read_model(path: Path) -> object:
    table = read_token_table(str(path))
    return table.rows, table.end, read_embedding(path, tensor="wte.weight")


def _read_gguf(path: Path) -> object:
    table = read_token_table(str(path))
    assert table.open_tokenizer is not None
    return table.rows, table.end, read_labels(path), read_gguf_metadata(path), table.open_tokenizer()


def _count_tokens(path: Path) -> object:
    tokenizer = read_tokenizer(path)
    return tokenizer, tokenizer.counts(path.with_name("text.txt"))


def _count_text(path: Path) -> object:
    return read_tokenizer(path.with_name("good-tokenizer.json")).counts(path)


def _has_checksum(content: bytes) -> bool:
    return content.startswith(b"# sha256: ")


def _has_name(content: bytes) -> bool:
    return CHECKSUM.encode() in content


def _always(content: bytes) -> bool:
    return True


def write_layer_file(path: Path) -> None:
    write_layer(path, LAYER, provenance={"seed": 1})


def write_certified_file(path: Path) -> None:
    """A layer with labels, a certificate, and heads that share keys."""
    rows = np.random.default_rng(0).standard_normal((3, 2))
    layer = Layer(np.ones((2, 2, 2)), np.ones((1, 2, 2)), threshold=99.0)
    problem = Problem(Graph(3, np.array([0]), np.array([1])).with_labels(LABELS[:3]), rows)
    write_layer(path, described(layer, problem, certify(layer, problem)), provenance={"seed": 1})


def write_block_file(path: Path) -> None:
    write_block(path, TrainedBlock(RUN, WEIGHTS, None, "gaussian"))


def write_exclusion_file(path: Path) -> None:
    metadata = {"format": EXCLUSION_FORMAT, "version": "1", "graph": "a", "embedding": "b", "provenance": '{"seed": 1}'}
    path.write_bytes(pack_tensors({MATRIX: np.eye(3)}, metadata))


def _read_layer(path: Path) -> object:
    return read_layer(path), read_provenance(path)


def _audit(path: Path) -> object:
    """A model, and what an audit of it says."""
    return read_architecture(path), str(audit(str(path)))


def _show_layer(path: Path) -> object:
    """A layer, and what `attend`, `certify` and a notebook say about it."""
    layer = read_layer(path)
    notes = outside_notes(layer, 2, other_rows=True)
    return layer, record_words(layer), json.dumps(record_facts(layer)), notes, repr(layer), layer._repr_html_()


KINDS = (
    Kind("graph.csv", lambda path: write_graph(path, GRAPH), read_graph, _has_checksum),
    Kind("named.csv", lambda path: write_graph(path, GRAPH.with_labels(LABELS)), read_graph, _has_checksum),
    Kind("named.csv", lambda path: write_graph(path, GRAPH.with_labels(LABELS)), read_graph, damage=below_the_checksum),
    Kind("rows.npy", lambda path: write_embedding(path, ROWS), read_embedding),
    Kind(
        "rows.safetensors", lambda path: write_embedding(path, ROWS), read_embedding, lambda c: CHECKSUM.encode() in c
    ),
    Kind("layer.safetensors", write_layer_file, _read_layer, _always),
    Kind("layer.safetensors", write_layer_file, _read_layer, damage=behind_the_checksum),
    Kind("layer.safetensors", write_layer_file, _read_layer, _always, in_the_header),
    Kind("certified.safetensors", write_certified_file, _read_layer, _always),
    Kind("certified.safetensors", write_certified_file, _show_layer, damage=behind_the_checksum),
    Kind("block.safetensors", write_block_file, read_block, _always),
    Kind("block.safetensors", write_block_file, read_block, damage=behind_the_checksum),
    Kind("exclusion.safetensors", write_exclusion_file, read_exclusion, _always),
    Kind("exclusion.safetensors", write_exclusion_file, read_exclusion, damage=behind_the_checksum),
    Kind("headings.csv", lambda path: path.write_text(HEADINGS), read_graph),
    Kind("model.safetensors", lambda path: write_model(path.parent), _read_model),
    Kind("model.safetensors", lambda path: write_model(path.parent), _read_model, damage=in_the_header),
    Kind("model.gguf", write_gguf, _read_gguf),
    Kind("config.json", lambda path: path.write_text(json.dumps(CONFIG)), read_architecture),
    Kind("config.json", lambda path: path.write_text(json.dumps(CONFIG)), read_architecture, damage=mutate_json),
    Kind("config.json", lambda path: path.write_text(json.dumps(LATENT)), _audit, damage=mutate_json),
    Kind("labels.json", lambda path: path.write_text(json.dumps(LABELS)), read_labels, damage=mutate_json),
    Kind("vocabulary.json", lambda path: path.write_text(VOCABULARY), read_labels, damage=mutate_json),
    Kind("tokenizer.json", write_tokenizer, _count_tokens, damage=mutate_json),
    Kind("labels.json", lambda path: path.write_text(json.dumps(LABELS)), read_labels),
    Kind("vocabulary.json", lambda path: path.write_text(VOCABULARY), read_labels),
    Kind("labels.txt", lambda path: path.write_text("the\n a\nof\n"), read_labels),
    Kind("ranking.txt", lambda path: path.write_text("7\n10\n3\n"), read_ranking),
    Kind("tokenizer.json", write_tokenizer, _count_tokens),
    Kind("corpus.txt", lambda path: path.write_text(TEXT * 5), _count_text),
    Kind("rows.jsonl.gz", _write_rows, read_rows, _has_format),
    Kind("rows.jsonl.gz", _write_rows, read_rows, _has_format, damage=in_the_gzip),
)


def prepare(directory: Path) -> None:
    """Write the files that stay good while others are damaged."""
    (directory / "text.txt").write_text(TEXT)
    write_tokenizer(directory / "good-tokenizer.json")


def fingerprint(value: Any) -> Any:
    """A value that is equal for equal contents of files."""
    if isinstance(value, np.ndarray):
        return value.dtype.str, value.shape, value.tobytes()
    if isinstance(value, Tokenizer):
        return sorted(value._library.get_vocab().items())
    if isinstance(value, Rows):
        return [fingerprint(row) for row in value._by_id.values()]
    if isinstance(value, Mapping):
        return sorted((str(key), fingerprint(entry)) for key, entry in value.items())
    if isinstance(value, Graph) or (is_dataclass(value) and not isinstance(value, type)):
        return [fingerprint(getattr(value, field.name)) for field in fields(value)]
    if isinstance(value, (tuple, list)):
        return [fingerprint(entry) for entry in value]
    return repr(value)
