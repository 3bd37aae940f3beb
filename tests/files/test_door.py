"""The door: pipes, bombs, depth and false lengths are refused with one sentence before anything is allocated."""

from __future__ import annotations

import gzip
import hashlib
import json
import os
import struct
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import pytest
from support.small_models import TEXT, write_gguf, write_model, write_tokenizer

from manyheads import Graph, InputError, Layer, permutation_graph
from manyheads.block.block_run import BlockRun
from manyheads.files import (
    read_embedding,
    read_graph,
    read_labels,
    read_layer,
    read_provenance,
    write_export,
    write_graph,
    write_layer,
)
from manyheads.files.gguf_files import read_gguf_metadata, read_gguf_tensors, read_gguf_tokens
from manyheads.files.layer_files import TrainedBlock, read_block, write_block
from manyheads.files.model_files import read_architecture
from manyheads.files.safetensors_files import pack_tensors
from manyheads.files.token_tables import read_ranking, read_token_table
from manyheads.files.tokenizer_files import read_tokenizer
from manyheads.papers.rows import read_rows

QUERY, KEY = np.random.default_rng(0).standard_normal((2, 2, 3, 2)).astype(np.float32)
LAYER = Layer(QUERY, KEY, threshold=1 / 3)
READERS: list[tuple[str, Callable[[Path], object]]] = [
    ("a.csv", read_graph),
    ("a.npy", read_embedding),
    ("a.safetensors", read_embedding),
    ("a.gguf", read_embedding),
    ("a.safetensors", read_layer),
    ("a.safetensors", read_provenance),
    ("a.safetensors", read_block),
    ("a.json", read_labels),
    ("a.txt", read_labels),
    ("a.gguf", read_labels),
    ("a.json", read_architecture),
    ("a.gguf", read_architecture),
    ("a.safetensors", lambda path: read_architecture(path, key_width=2)),
    ("a.safetensors", lambda path: read_token_table(str(path))),
    ("a.gguf", lambda path: read_token_table(str(path))),
    ("a.txt", read_ranking),
    ("a.json", read_tokenizer),
    ("a.jsonl.gz", read_rows),
]
READER = pytest.mark.parametrize(("name", "read"), READERS)


@pytest.fixture
def _within_seconds() -> Iterator[None]:
    begun, cpu = time.monotonic(), time.process_time()
    yield
    assert time.process_time() - cpu < 5
    assert time.monotonic() - begun < 60  # a reading that waits; a busy machine is slow, too


@READER
def test_a_pipe_is_refused_at_once(name: str, read: Callable[[Path], object], tmp_path: Path) -> None:
    os.mkfifo(tmp_path / name)
    # A reader that waits for the pipe would wait for ever: it runs in a process that is ended.
    child = os.fork()
    if child == 0:
        try:
            read(tmp_path / name)
            code = 1
        except InputError as error:
            code = 0 if "is not a regular file" in str(error) else 2
        except BaseException:
            code = 3
        os._exit(code)
    for _ in range(500):
        ended, status = os.waitpid(child, os.WNOHANG)
        if ended:
            assert os.waitstatus_to_exitcode(status) == 0
            return
        time.sleep(0.01)
    os.kill(child, 9)
    os.waitpid(child, 0)
    pytest.fail("the reader waits for the pipe")


@READER
def test_a_device_a_directory_and_a_long_name_are_refused(
    name: str, read: Callable[[Path], object], tmp_path: Path
) -> None:
    (tmp_path / name).symlink_to("/dev/zero")
    with pytest.raises(InputError, match="is not a regular file"):
        read(tmp_path / name)
    (tmp_path / name).unlink()
    (tmp_path / name).mkdir()
    with pytest.raises(InputError, match="is not a regular file"):
        read(tmp_path / name)
    with pytest.raises(InputError, match="File name too long"):
        read(tmp_path / f"{'x' * 300}{name}")


@READER
def test_a_directory_that_cannot_be_searched(name: str, read: Callable[[Path], object], tmp_path: Path) -> None:
    if os.geteuid() != 0:
        pytest.skip("only root can become another user")
    (tmp_path / "closed").mkdir(mode=0o700)
    os.seteuid(65534)  # root may search every directory
    try:
        with pytest.raises(InputError, match="Permission denied"):
            read(tmp_path / "closed" / name)
        with pytest.raises(InputError, match="Permission denied"):
            write_layer(tmp_path / "closed" / "a.safetensors", LAYER)
        with pytest.raises(InputError, match="Permission denied"):
            write_export(tmp_path / "closed" / "out", LAYER, to="torch")
    finally:
        os.seteuid(0)


@pytest.mark.parametrize(("name", "read"), [row for row in READERS if row[0] in ("a.csv", "a.json", "a.txt")])
def test_a_file_that_is_too_large_is_not_read(name: str, read: Callable[[Path], object], tmp_path: Path) -> None:
    with open(tmp_path / name, "wb") as file:
        file.truncate(2**40)  # takes no place on the disk
    with pytest.raises(InputError, match="1,099,511,627,776 bytes, but at most"):
        read(tmp_path / name)


def gguf(fields: int, rest: bytes, tensors: int = 0) -> bytes:
    return b"GGUF" + struct.pack("<IQQ", 3, tensors, fields) + rest


@pytest.mark.usefixtures("_within_seconds")
@pytest.mark.parametrize(
    "content",
    [
        gguf(1, struct.pack("<Q", 1) + b"a" + struct.pack("<IIQ", 9, 0, 2**40)),  # the attack's 49 bytes
        gguf(1, struct.pack("<Q", 1) + b"a" + struct.pack("<IIQ", 9, 8, 2**40)),
        gguf(1, struct.pack("<Q", 1) + b"a" + struct.pack("<IIQ", 9, 9, 2**40)),
        gguf(1, struct.pack("<Q", 2**63) + b"a"),
        gguf(2**62, b""),
        gguf(0, b"", tensors=2**60),
        gguf(0, struct.pack("<Q", 1) + b"a" + struct.pack("<IQQIQ", 2, 2**33, 2**33, 0, 0), tensors=1),
        gguf(0, struct.pack("<Q", 1) + b"a" + struct.pack("<I", 2**31), tensors=1),
        gguf(1, struct.pack("<Q", 1) + b"a" + struct.pack("<IIQ", 9, 9, 1) + struct.pack("<IQ", 9, 1) * 500),
    ],
)
def test_a_gguf_file_that_declares_more_than_it_holds(tmp_path: Path, content: bytes) -> None:
    pytest.importorskip("gguf")
    (tmp_path / "a.gguf").write_bytes(content)
    for read in (read_gguf_metadata, read_embedding, read_architecture):
        with pytest.raises(InputError, match="is not a GGUF file, or is truncated or damaged"):
            read(tmp_path / "a.gguf")


def test_gguf_files_are_read_as_the_package_reads_them(tmp_path: Path) -> None:
    package = pytest.importorskip("gguf")
    path = tmp_path / "a.gguf"
    writer = package.GGUFWriter(path, "llama")
    writer.add_uint64("count", 2**60)
    writer.add_float32("share", 0.5)
    writer.add_bool("yes", True)
    writer.add_array("numbers", [1, 2, 3])
    writer.add_array("texts", ["ä", "", "c"])
    rows = np.random.default_rng(0).standard_normal((6, 64)).astype(np.float32)
    kinds = package.GGMLQuantizationType
    writer.add_tensor("single", rows)
    writer.add_tensor("half", rows.astype(np.float16))
    for kind in (kinds.Q8_0, kinds.Q4_0, kinds.BF16):
        writer.add_tensor(kind.name, package.quants.quantize(rows, kind), raw_dtype=kind)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    reader = package.GGUFReader(path)
    expected = {
        name: len(field.data) if field.types[0].name == "ARRAY" else field.contents()
        for name, field in reader.fields.items()
        if not name.startswith("GGUF.")
    }
    assert read_gguf_metadata(path) == expected
    tensors = read_gguf_tensors(path, lambda name: True)
    assert list(tensors) == [tensor.name for tensor in reader.tensors]
    for tensor in reader.tensors:
        numbers = package.quants.dequantize(tensor.data, tensor.tensor_type)
        np.testing.assert_array_equal(tensors[tensor.name], numbers)


def test_a_gguf_token_that_is_not_text(tmp_path: Path) -> None:
    content = write_gguf(tmp_path / "a.gguf").read_bytes()
    (tmp_path / "a.gguf").write_bytes(content.replace(b"<end>", b"<\xff\xfe\xfd>"))
    with pytest.raises(InputError, match="is not a GGUF file, or is truncated or damaged"):
        read_gguf_tokens(tmp_path / "a.gguf")


CONFIG = {"num_hidden_layers": 2, "hidden_size": 12, "num_attention_heads": 3, "vocab_size": 99}


@pytest.mark.usefixtures("_within_seconds")
@pytest.mark.parametrize(
    ("change", "says"),
    [
        ({"num_attention_heads": 10**6, "head_dim": 10**6}, "heads is 1,000,000, but no model has more than 65,536"),
        ({"num_attention_heads": 60_000, "head_dim": 60_000}, "60,000 heads of width 60,000: their product is over"),
        ({"hidden_size": 10**400, "num_attention_heads": 1}, r"d_model is over 10\^400, but no model has more"),
        ({"num_hidden_layers": 2**40}, "layers is 1,099,511,627,776, but no model has more"),
        ({"vocab_size": 10**12}, "vocabulary is 1,000,000,000,000, but no model"),
        ({"num_attention_heads": "9" * 3000}, "num_attention_heads is '999.* … .*9', which is no whole number"),
    ],
)
def test_numbers_that_no_model_has(tmp_path: Path, change: dict[str, object], says: str) -> None:
    (tmp_path / "config.json").write_text(json.dumps(CONFIG | change))
    with pytest.raises(InputError, match=says):
        read_architecture(tmp_path / "config.json")


@pytest.mark.parametrize("text", ["[" * 100_000, '{"a":' * 5_000, '{"hidden_size": ' + "9" * 5_000 + "}", "[" * 101])
def test_json_that_is_deep_or_has_long_numbers(tmp_path: Path, text: str) -> None:
    (tmp_path / "a.json").write_text(text)
    for read in (read_architecture, read_labels):
        with pytest.raises(InputError, match=r"a\.json is not JSON"):
            read(tmp_path / "a.json")
    model = write_model(tmp_path / "model")
    (tmp_path / "model" / "config.json").write_text(text)
    assert read_token_table(str(model)).end is None


def test_brackets_in_texts_are_not_depth(tmp_path: Path) -> None:
    labels = ["[" * 200, '"' + "{" * 200, "\\[", "]"]
    (tmp_path / "a.json").write_text(json.dumps(labels))
    assert read_labels(tmp_path / "a.json") == tuple(labels)


@pytest.mark.usefixtures("_within_seconds")
@pytest.mark.parametrize(
    "shape", ["[1000000000000, 4]", "[Infinity]", "[true, 4]", "[-4, 4]", "4", "[" + "9" * 5000 + "]"]
)
def test_a_safetensors_header_with_shapes_that_are_not_there(tmp_path: Path, shape: str) -> None:
    names = (
        "model.embed_tokens.weight",
        "model.layers.0.self_attn.q_proj.weight",
        "model.layers.0.self_attn.k_proj.weight",
    )
    entry = f'{{"dtype":"F32","shape":{shape},"data_offsets":[0,64]}}'
    header = "{" + ",".join(f'"{name}":{entry}' for name in names) + "}"
    path = tmp_path / "a.safetensors"
    path.write_bytes(len(header).to_bytes(8, "little") + header.encode() + bytes(64))
    for read in (lambda path: read_architecture(path, key_width=2), read_embedding, read_layer):
        with pytest.raises(InputError, match=r"is not a safetensors file|is not JSON"):
            read(path)


def test_item_numbers_far_beyond_the_relations_ask_for_the_number_of_items(tmp_path: Path) -> None:
    path = tmp_path / "a.csv"
    path.write_text("0,1\n0,134217727\n")
    with pytest.raises(InputError, match=r"line 2: item 134217727 .* add the line '# items: 134217728' at the top"):
        read_graph(path)
    path.write_text("# items: 134217728\n0,134217727\n")
    assert read_graph(path).items == 134217728
    path.write_text("0,1000000\n")
    assert read_graph(path).items == 1_000_001


@pytest.mark.usefixtures("_within_seconds")
def test_many_names_of_which_the_last_is_repeated(tmp_path: Path) -> None:
    names = [f"# item: {number}" for number in range(60_000)]
    (tmp_path / "a.csv").write_text("\n".join([*names, names[-1], "1,2", ""]))
    with pytest.raises(InputError, match="'59999' names two items"):
        read_graph(tmp_path / "a.csv")


def test_a_second_checksum_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "a.csv"
    write_graph(path, permutation_graph(4, seed=0))
    text = path.read_text()
    assert read_graph(path).items == 4
    path.write_text(f"# sha256: {hashlib.sha256(text.encode()).hexdigest()}\n{text}")
    with pytest.raises(InputError, match="line 2: a second checksum"):
        read_graph(path)


HEADER = {"format": "manyheads paper rows 1", "protocol": 1, "machine": {}}
ROW = {"id": "a", "kind": "pairs", "status": "limit", "scores": {}, "steps": 1, "seconds": 0.5}


def rows_file(path: Path, *lines: object) -> Path:
    path.write_bytes(gzip.compress("\n".join(map(json.dumps, lines)).encode()))
    return path


@pytest.mark.parametrize(
    ("lines", "says"),
    [
        ([{"format": HEADER["format"]}], "follow protocol None"),
        ([HEADER | {"machine": [1]}], "does not say which machine"),
        ([HEADER, 1], "line 2: not a row"),
        ([HEADER, ROW, ROW | {"more": 1}], "line 3: not a row"),
        ([HEADER, ROW | {"steps": "1"}], "line 2: a field of the row is not of its type"),
        ([HEADER, ROW | {"steps": 10**30}], "line 2: a field of the row is not of its type"),
        ([HEADER, ROW | {"seconds": -1}], "line 2: a field of the row is not of its type"),
        ([HEADER, ROW | {"status": "failed"}], "line 2: a field of the row is not of its type"),
        ([HEADER, ROW | {"scores": [1]}], "line 2: a field of the row is not of its type"),
        ([HEADER, ROW | {"scores": {"micro_f1": "1"}}], "line 2: a score of the row is not a number"),
        ([HEADER, ROW | {"scores": {"micro_f1": float("nan")}}], "line 2: a score of the row is not a number"),
    ],
)
def test_rows_are_checked(tmp_path: Path, lines: list[object], says: str) -> None:
    with pytest.raises(InputError, match=says):
        read_rows(rows_file(tmp_path / "a.jsonl.gz", *lines))
    assert len(read_rows(rows_file(tmp_path / "good.jsonl.gz", HEADER, ROW))) == 1


def test_damaged_gzip_files_are_refused(tmp_path: Path) -> None:
    path = rows_file(tmp_path / "a.jsonl.gz", HEADER, ROW)
    content = path.read_bytes()
    for damaged in (content[:-9], content[:12] + b"\xff" + content[13:], content + b"more", content[:-8] + bytes(8)):
        path.write_bytes(damaged)
        with pytest.raises(InputError, match="does not hold rows of the paper's runs"):
            read_rows(path)
    path.write_bytes(
        gzip.compress(json.dumps(HEADER).encode() + b"\n") + gzip.compress(json.dumps(ROW).encode()) + bytes(9)
    )
    assert len(read_rows(path)) == 1  # two members and zeros after them are a gzip file


SMALL_MEMORY = """
import resource, sys
from pathlib import Path
from manyheads import InputError
if len(sys.argv) > 2:
    from manyheads.files.tokenizer_files import read_tokenizer
else:
    from manyheads.papers.rows import read_rows
used = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
resource.setrlimit(resource.RLIMIT_AS, (used + 500 * 2**20, resource.RLIM_INFINITY))
path = Path(sys.argv[1])
try:
    print(read_tokenizer(sys.argv[2]).counts(path).sum() if len(sys.argv) > 2 else read_rows(path))
except InputError as error:
    print(error)
"""


def in_small_memory(*words: Path) -> str:
    done = subprocess.run([sys.executable, "-c", SMALL_MEMORY, *map(str, words)], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.mark.skipif(not Path("/proc/self/statm").exists(), reason="needs /proc")
def test_a_gzip_bomb_does_not_fill_the_memory(tmp_path: Path) -> None:
    path = tmp_path / "a.jsonl.gz"
    header, rows = (
        gzip.compress(json.dumps(HEADER).encode() + b"\n"),
        (json.dumps(ROW | {"id": "x" * 5_000}) + "\n").encode() * 200,
    )
    path.write_bytes(header + gzip.compress(bytes(2**24)) * 40)
    assert "has a line of over 1,048,576 bytes" in in_small_memory(path)
    path.write_bytes(header + gzip.compress(rows) * 500)
    assert "unpacks to over 30 times its bytes" in in_small_memory(path)


@pytest.mark.skipif(not Path("/proc/self/statm").exists(), reason="needs /proc")
def test_a_text_in_one_line_is_counted_in_parts(tmp_path: Path) -> None:
    tokenizer = write_tokenizer(tmp_path / "tokenizer.json")
    (tmp_path / "long.txt").write_text("ab ab a 12 " * 200_000)
    assert int(in_small_memory(tmp_path / "long.txt", tokenizer)) == 5 * 200_000 + 1  # and the last space
    (tmp_path / "word.txt").write_text("c" * 2_000_000)
    assert int(in_small_memory(tmp_path / "word.txt", tokenizer)) == 2_000_000
    (tmp_path / "zero.txt").symlink_to("/dev/zero")
    with pytest.raises(InputError, match="is not a regular file"):
        read_tokenizer(tokenizer).counts(tmp_path / "zero.txt")


def test_a_tokenizer_whose_numbers_have_gaps_is_refused(tmp_path: Path) -> None:
    path = write_tokenizer(tmp_path / "tokenizer.json")
    path.write_text(path.read_text().replace('"12": 11', '"12": 4294967295').replace('"12":11', '"12":4294967295'))
    with pytest.raises(InputError, match="numbers its tokens up to 4,294,967,295, but has only 12 tokens"):
        read_tokenizer(path)


METADATA = {"format": "manyheads layer", "version": "1", "rule": "max", "threshold": "0x1p-1"}


@pytest.mark.parametrize("provenance", ['"ab"', "[1]", "[" * 5_000, "1", "9" * 5_000, "null"])
def test_a_provenance_that_is_no_list_of_facts(tmp_path: Path, provenance: str) -> None:
    arrays = {"query": np.ones((1, 3, 2)), "key": np.ones((1, 3, 2))}
    (tmp_path / "a.safetensors").write_bytes(pack_tensors(arrays, METADATA | {"provenance": provenance}))
    with pytest.raises(InputError, match="provenance of its layer that cannot be read"):
        read_provenance(tmp_path / "a.safetensors")


RUN = BlockRun(items=40, d_model=4, heads=2, key_width=3, seed=0)
WEIGHTS = {"query": np.ones((2, 4, 3), np.float32), "rise": np.ones((4, 16), np.float32)}


@pytest.mark.parametrize(
    ("run", "says"),
    [
        ('"ab"', "does not have the run"),
        ("[" * 5_000, "does not have the run"),
        ("{}", "does not have the run"),
        ('{"learning_rate": 1' + "0" * 400 + "}", "does not have the run"),
        (json.dumps({"items": 40, "d_model": 4, "heads": 2, "key_width": 9, "seed": 0}), "the weights of its run"),
        (json.dumps({"items": 10**9, "d_model": 4, "heads": 2, "key_width": 3, "seed": 0}), "table needs 16,000,"),
    ],
)
def test_a_block_whose_run_makes_no_sense(tmp_path: Path, run: str, says: str) -> None:
    path = tmp_path / "a.safetensors"
    path.write_bytes(pack_tensors(WEIGHTS, {"format": "manyheads block", "version": "1", "run": run}))
    with pytest.raises(InputError, match=says):
        read_block(path)
    write_block(tmp_path / "good.safetensors", TrainedBlock(RUN, WEIGHTS, None, "gaussian"))
    assert read_block(tmp_path / "good.safetensors").run == RUN


@pytest.mark.parametrize(
    ("descr", "shape"), [("|V0", "(1000000000000, 4)"), ("<f4", "(True, 4)"), ("|S0", "(4, 4)"), ("<f4", "(2.0, 2)")]
)
def test_types_and_shapes_that_are_no_numbers(tmp_path: Path, descr: str, shape: str) -> None:
    header = f"{{'descr': '{descr}', 'fortran_order': False, 'shape': {shape}}}".encode() + b"\n"
    content = b"\x93NUMPY\x01\x00" + len(header).to_bytes(2, "little") + header + bytes(16 if "f4" in descr else 0)
    (tmp_path / "a.npy").write_bytes(content)
    with pytest.raises(InputError, match=r"header cannot be read|not floating-point numbers"):
        read_embedding(tmp_path / "a.npy")


def test_a_label_that_no_text_file_can_hold_is_refused_when_it_is_read(tmp_path: Path) -> None:
    (tmp_path / "a.json").write_text('["a", "\\ud800"]')
    with pytest.raises(InputError, match=r"a\.json, label 2: .* half of a surrogate pair"):
        read_labels(tmp_path / "a.json")
    (tmp_path / "a.csv").write_text('# item: "a"\n# item: "\\ud800"\na,a\n')
    with pytest.raises(InputError, match=r"a\.csv, line 2: .* half of a surrogate pair"):
        read_graph(tmp_path / "a.csv")
    (tmp_path / "b.json").write_text('["\\ud83d\\ude00"]')
    assert read_labels(tmp_path / "b.json") == ("\U0001f600",)


def test_messages_show_what_others_wrote_and_do_not_obey_it(tmp_path: Path) -> None:
    folder = tmp_path / "a\x1b]0;title\x07\nb"
    folder.mkdir()
    (folder / "a.csv").write_text('a,"b\x1b[2J\u202e"\nx\n')
    with pytest.raises(InputError) as caught:
        read_graph(folder / "a.csv")
    assert "a\\x1b]0;title\\x07\\nb" in str(caught.value)
    with pytest.raises(InputError) as caught:
        read_graph(folder / ("x" * 5_000))
    assert len(str(caught.value)) < 2_100
    graph = Graph(2, np.array([0]), np.array([1]), ("a", "b\x1b[2J\u202e"))
    write_graph(tmp_path / "b.csv", graph)
    assert read_graph(tmp_path / "b.csv") == graph  # labels themselves stay


def test_the_corpus_has_its_text(tmp_path: Path) -> None:
    tokenizer = read_tokenizer(write_tokenizer(tmp_path / "tokenizer.json"))
    (tmp_path / "text.txt").write_text(TEXT)
    assert tokenizer.counts(tmp_path / "text.txt").sum() == 10
