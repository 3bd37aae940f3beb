"""Audit: architectures by name and from files, and what weights say of a model."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
import safetensors.numpy

from manyheads import InputError, gaussian
from manyheads.bounds import Shape, bits_per_weight
from manyheads.bounds.inverse import relations_by_bits, relations_by_freedom, relations_by_paper
from manyheads.cli import main
from manyheads.files import read_embedding, read_labels
from manyheads.files.model_files import read_architecture, read_model_weights
from manyheads.planning import audit
from manyheads.planning.architectures import ARCHITECTURES, architecture
from manyheads.planning.model_audit import effective_rank, embedding_geometry, head_geometry, normalised

LAYERS, ROWS, D_MODEL, HEADS, KEY_HEADS, WIDTH = 2, 50, 12, 4, 2, 5
CONFIG = {
    "model_type": "llama",
    "num_hidden_layers": LAYERS,
    "hidden_size": D_MODEL,
    "num_attention_heads": HEADS,
    "num_key_value_heads": KEY_HEADS,
    "head_dim": WIDTH,
    "vocab_size": ROWS,
}


def weights() -> dict[str, np.ndarray]:
    rng = np.random.default_rng(0)
    tensors = {"model.embed_tokens.weight": gaussian(ROWS, D_MODEL, seed=0)}
    for layer in range(LAYERS):
        for part, heads in (("q", HEADS), ("k", KEY_HEADS), ("v", KEY_HEADS)):
            shape = (heads * WIDTH, D_MODEL)
            tensors[f"model.layers.{layer}.self_attn.{part}_proj.weight"] = rng.standard_normal(shape).astype("f4")
        tensors[f"model.layers.{layer}.input_layernorm.weight"] = rng.random(D_MODEL).astype("f4")
    return tensors


@pytest.fixture
def _in_a_directory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def test_the_table_is_of_sound_architectures() -> None:
    assert len(ARCHITECTURES) >= 20
    for name, model in ARCHITECTURES.items():
        assert name == model.name == name.lower()
        assert model.source
        assert model.heads % model.key_heads == 0
    assert ARCHITECTURES["gpt2"].shape.query_budget == 768 == ARCHITECTURES["gpt2"].d_model
    assert ARCHITECTURES["gpt3-175b"].shape.query_budget == 12_288
    assert architecture("GPT2-XL").heads == 25


def test_an_audit_is_the_laws_at_the_models_shape() -> None:
    model = architecture("smollm2-135m")
    report = audit(model, items=6144)
    shape = Shape(d_model=576, heads=9, key_width=64, key_heads=3)
    assert report.by_freedom == relations_by_freedom(shape, items=6144)
    assert report.by_bits == relations_by_bits(shape, items=6144, bits=16.0)
    assert report.by_paper == relations_by_paper(shape, items=6144)
    assert report.bits_per_weight == bits_per_weight(f"random:6144:{report.by_freedom}", weights=shape.parameters)
    assert (
        report.without_sharing
        == relations_by_freedom(Shape(d_model=576, heads=9, key_width=64), items=6144)
        > report.by_freedom
    )
    assert 0 < report.sharing_loss < 0.5
    assert report.by_best_split == max(
        relations_by_freedom(Shape(d_model=576, heads=h, key_width=576 // h), items=6144)
        for h in range(1, 577)
        if 576 % h == 0
    )
    alone = audit(architecture("gpt2"), items=1000)
    assert alone.sharing_loss == 0.0


def test_the_lines_of_shared_keys_are_the_numbers_of_the_json(capsys: pytest.CaptureFixture[str]) -> None:
    """The verdict on the split and its number are about heads with own keys; the loss by sharing has its own line."""
    assert main(["audit", "llama3-8b", "--json"]) == 0
    facts = json.loads(capsys.readouterr().out)
    assert main(["audit", "llama3-8b"]) == 0
    said = " ".join(capsys.readouterr().out.split())
    better = facts["by_best_split"] / facts["without_sharing"]
    assert f"would hold {better:.2f} times as many, both with own keys" in said
    assert ("near the best" in said) == facts["is_near_best"] == (better <= 1 / 0.95)
    cost = facts["cost"]
    loss = cost["loss"]
    kept = [loss[name] / facts["without_sharing"] for name in ("likely", "low", "high")]
    assert f"holds {kept[0]:.0%} of the relations of own keys ({kept[1]:.0%} to {kept[2]:.0%})" in said
    assert f"D_Q {cost['query_budget']:,}, D_K {cost['key_budget']:,}" in said
    assert f"{cost['freedom']:,} degrees of freedom in {cost['weights']:,} weights" in said
    assert f"{cost['key_budget']:,} numbers for each token; {cost['bits_per_cached_number']:.3g} bits" in said


@pytest.mark.usefixtures("_in_a_directory")
def test_one_architecture_from_three_kinds_of_file() -> None:
    gguf = pytest.importorskip("gguf")
    Path("config.json").write_text(json.dumps(CONFIG))
    safetensors.numpy.save_file(weights(), "alone.safetensors")
    Path("sub").mkdir()
    safetensors.numpy.save_file(weights(), "sub/alone.safetensors")
    writer = gguf.GGUFWriter("model.gguf", "llama")
    writer.add_block_count(LAYERS)
    writer.add_embedding_length(D_MODEL)
    writer.add_head_count(HEADS)
    writer.add_head_count_kv(KEY_HEADS)
    writer.add_key_length(WIDTH)
    writer.add_vocab_size(ROWS)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.close()
    found = [
        read_architecture("config.json"),
        read_architecture("alone.safetensors"),  # by the config.json beside it
        read_architecture("sub/alone.safetensors", key_width=WIDTH),
        read_architecture("model.gguf"),
    ]
    assert [model.shape for model in found] == [
        Shape(d_model=D_MODEL, heads=HEADS, key_width=WIDTH, key_heads=KEY_HEADS)
    ] * 4
    assert [(model.layers, model.vocabulary) for model in found] == [(LAYERS, ROWS)] * 4


@pytest.mark.usefixtures("_in_a_directory")
def test_a_config_without_a_vocabulary_needs_the_items(capsys: pytest.CaptureFixture[str]) -> None:
    Path("config.json").write_text(json.dumps({"n_layer": 3, "n_embd": 12, "n_head": 4}))
    assert main(["audit", "config.json"]) == 2
    assert "does not say its vocabulary: give the number of items" in capsys.readouterr().err
    assert main(["audit", "config.json", "--items", "100"]) == 0
    assert "among 100 items" in capsys.readouterr().out


@pytest.mark.usefixtures("_in_a_directory")
def test_older_words_of_a_config() -> None:
    Path("config.json").write_text(json.dumps({"n_layer": 3, "n_embd": 12, "n_head": 4, "vocab_size": 9}))
    model = read_architecture("config.json")
    assert (model.layers, model.shape) == (3, Shape(d_model=12, heads=4, key_width=3, key_heads=4))
    inner = {"text_config": CONFIG, "vision_config": {"hidden_size": 7}}
    Path("config.json").write_text(json.dumps(inner))
    assert read_architecture("config.json").d_model == D_MODEL


@pytest.mark.parametrize(
    ("words", "key_heads"),
    [
        ({"new_decoder_architecture": True, "num_kv_heads": 2, "multi_query": True}, 2),
        ({"new_decoder_architecture": True, "num_kv_heads": 2}, 2),
        ({"new_decoder_architecture": False, "num_kv_heads": 4, "multi_query": True}, 1),
        ({"multi_query": True}, 1),
        ({"multi_query": False}, 4),
    ],
)
@pytest.mark.usefixtures("_in_a_directory")
def test_the_key_heads_of_falcon(words: dict[str, object], key_heads: int) -> None:
    put("config.json", {"num_hidden_layers": 3, "hidden_size": 12, "num_attention_heads": 4, "vocab_size": 9} | words)
    assert read_architecture("config.json").key_heads == key_heads


@pytest.mark.usefixtures("_in_a_directory")
def test_weights_that_are_no_numbers_are_refused(capsys: pytest.CaptureFixture[str]) -> None:
    put("config.json", CONFIG)
    broken = weights()
    broken["model.layers.1.self_attn.k_proj.weight"][0, 0] = np.nan
    safetensors.numpy.save_file(broken, "model.safetensors")
    assert main(["audit", "config.json", "--weights", "model.safetensors"]) == 2
    err = capsys.readouterr().err
    assert "the tensor model.layers.1.self_attn.k_proj.weight has values that are not finite numbers" in err
    assert err.count("\n") == 1


@pytest.mark.usefixtures("_in_a_directory")
def test_weights_are_read_as_heads() -> None:
    """A head's scores from the file's own layout: q = W_q·x, cut into consecutive pieces."""
    Path("config.json").write_text(json.dumps(CONFIG))
    tensors = weights()
    safetensors.numpy.save_file(tensors, "model.safetensors")
    model = read_model_weights("model.safetensors", read_architecture("config.json"))
    x = np.random.default_rng(1).standard_normal((3, D_MODEL))
    for layer in range(LAYERS):
        q = x @ tensors[f"model.layers.{layer}.self_attn.q_proj.weight"].T
        k = x @ tensors[f"model.layers.{layer}.self_attn.k_proj.weight"].T
        for head in range(HEADS):
            mine, shared = slice(head * WIDTH, (head + 1) * WIDTH), head // 2 * WIDTH
            scores = q[:, mine] @ k[:, shared : shared + WIDTH].T
            ours = (x @ model.layers[layer].query[head]) @ (x @ model.layers[layer].key[head // 2]).T
            np.testing.assert_allclose(ours, scores, rtol=1e-5)


@pytest.mark.usefixtures("_in_a_directory")
def test_quantised_gguf_weights_are_close_to_what_they_were() -> None:
    gguf = pytest.importorskip("gguf")
    rng = np.random.default_rng(0)
    d_model = 64  # quantised in blocks of 32
    rows, q, k = rng.standard_normal((3, 32, d_model)).astype("f4")
    writer = gguf.GGUFWriter("model.gguf", "llama")
    for name, value in (("block_count", 1), ("embedding_length", d_model), ("head_count", 2), ("head_count_kv", 2)):
        getattr(writer, f"add_{name}")(value)
    writer.add_key_length(16)
    writer.add_vocab_size(32)
    writer.add_token_list([f"t{row}" for row in range(32)])
    kind = gguf.GGMLQuantizationType.Q8_0
    for name, array in (("token_embd.weight", rows), ("blk.0.attn_q.weight", q), ("blk.0.attn_k.weight", k)):
        writer.add_tensor(name, gguf.quants.quantize(array, kind), raw_dtype=kind)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    np.testing.assert_allclose(read_embedding("model.gguf"), rows, atol=0.02)
    assert read_labels("model.gguf") == tuple(f"t{row}" for row in range(32))
    with pytest.raises(InputError, match="holds no tensor 'wte'"):
        read_embedding("model.gguf", tensor="wte")
    model = read_model_weights("model.gguf", read_architecture("model.gguf"))
    np.testing.assert_allclose(model.embedding, rows, atol=0.02)
    np.testing.assert_allclose(model.layers[0].query[1].T, q[16:], atol=0.02)


def test_effective_ranks_and_spreads() -> None:
    assert effective_rank(np.array([2.0, 2.0, 2.0, 0.0])) == pytest.approx(3)
    rng = np.random.default_rng(0)
    query, key = rng.standard_normal((2, 1, 20, 6))
    x = rng.standard_normal((40, 20))
    (head,) = head_geometry(0, query, key, x)
    values = np.linalg.svd(query[0] @ key[0].T, compute_uv=False) ** 2
    assert head.effective_rank == pytest.approx(effective_rank(values[:6]))
    scores = x @ query[0] @ key[0].T @ x.T / np.sqrt(6)
    np.testing.assert_allclose(head.scores, np.percentile(scores, (1, 25, 50, 75, 99)))


def test_geometry_tells_random_rows_from_crowded_ones() -> None:
    random = embedding_geometry(gaussian(300, 48, seed=0), matching_size=8, seed=0)
    assert abs(random.mean_cosine) < 0.01
    assert random.mean_share < 0.02
    assert random.effective_rank > 40
    assert random.profile.rho == pytest.approx(random.random_rho, rel=0.3)
    leaning = gaussian(300, 48, seed=0) + np.float32(0.3)
    crowded = embedding_geometry(leaning, matching_size=8, seed=0)
    assert crowded.mean_cosine > 0.5
    assert crowded.mean_share > 0.5
    assert crowded.effective_rank < random.effective_rank
    with pytest.raises(InputError, match="a row of the embedding is zero"):
        embedding_geometry(np.zeros((3, 4), dtype=np.float32), matching_size=2, seed=0)


def test_a_norm_is_what_torch_does() -> None:
    torch = pytest.importorskip("torch")
    x = np.random.default_rng(0).standard_normal((4, 10))
    weight = np.linspace(0.5, 2, 10).astype("f4")
    rms = torch.nn.functional.rms_norm(torch.from_numpy(x), (10,), torch.from_numpy(weight).double(), eps=1e-6)
    np.testing.assert_allclose(normalised(x, weight, centred=False), rms, rtol=1e-9)
    layer = torch.nn.functional.layer_norm(torch.from_numpy(x), (10,), torch.from_numpy(weight).double(), eps=1e-6)
    np.testing.assert_allclose(normalised(x, weight, centred=True), layer, rtol=1e-9)


DEEPSEEK = {
    "model_type": "deepseek_v3",
    "num_hidden_layers": 61,
    "hidden_size": 7168,
    "num_attention_heads": 128,
    "num_key_value_heads": 128,
    "kv_lora_rank": 512,
    "q_lora_rank": 1536,
    "qk_nope_head_dim": 128,
    "qk_rope_head_dim": 64,
    "v_head_dim": 128,
    "vocab_size": 129_280,
}


@pytest.mark.usefixtures("_in_a_directory")
def test_a_config_with_latent_attention() -> None:
    """The numbers of DeepSeek-V3: the latent is the cache, and the part for positions is no part of the shape."""
    Path("config.json").write_text(json.dumps(DEEPSEEK))
    read, known = read_architecture("config.json"), architecture("deepseek-v3")
    assert read.shape == known.shape
    assert (read.layers, read.vocabulary, read.position_width) == (61, 129_280, 64)
    shape = read.shape
    assert (shape.query_budget, shape.key_budget) == (16_384, 512)
    # down and up for the queries, down and up for the keys
    assert shape.parameters == 1536 * (7168 + 16_384) + 512 * (7168 + 16_384)
    said = " ".join(str(audit("config.json")).split())
    assert "keys from a latent of width 512" in said


@pytest.mark.usefixtures("_in_a_directory")
def test_a_gguf_file_with_latent_attention() -> None:
    gguf = pytest.importorskip("gguf")
    writer = gguf.GGUFWriter("model.gguf", "deepseek2")
    writer.add_block_count(LAYERS)
    writer.add_embedding_length(D_MODEL)
    writer.add_head_count(HEADS)
    writer.add_head_count_kv(HEADS)
    writer.add_key_length(WIDTH + 2)
    writer.add_kv_lora_rank(6)
    writer.add_rope_dimension_count(2)
    writer.add_vocab_size(ROWS)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.close()
    read = read_architecture("model.gguf")
    assert (read.latent, read.key_width, read.position_width, read.query_latent) == (6, WIDTH, 2, None)


def test_two_models_side_by_side(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["audit", "compare", "llama3-8b", "deepseek-v3", "--json"]) == 0
    facts = json.loads(capsys.readouterr().out)
    assert facts["items"] == 128_256
    for name, cost in zip(facts["names"], facts["costs"], strict=True):
        report = audit(name, items=128_256)
        assert cost["relations"] == report.by_freedom
        assert cost["freedom"] == report.architecture.shape.all_freedom
        assert cost["bits_per_cached_number"] == pytest.approx(
            report.bits_per_weight.log2_graphs / (128_256 * cost["key_budget"])
        )
    assert main(["audit", "compare", "gpt2", "d_model=768,heads=12,key_width=64,key_heads=3"]) == 0
    said = capsys.readouterr().out
    assert "0.25" in said  # of the cache
    assert main(["audit", "list"]) == 0
    listed = capsys.readouterr().out
    assert all(name in listed for name in ARCHITECTURES)


# --- the command line


@pytest.mark.usefixtures("_in_a_directory")
def test_audits_on_the_command_line(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["audit", "llama3-8b", "--json"]) == 0
    facts = json.loads(capsys.readouterr().out)
    assert facts["items"] == 128_256
    assert facts["architecture"]["key_heads"] == 8
    assert main(["audit", "llama3-8b"]) == 0
    said = capsys.readouterr().out
    assert "32 heads of width 128 that share 8 key heads" in said
    assert "one layer alone" in said
    Path("config.json").write_text(json.dumps(CONFIG))
    safetensors.numpy.save_file(weights(), "model.safetensors")
    words = ["audit", "config.json", "--weights", "model.safetensors", "--picture", "geometry", "--json"]
    assert main(words) == 0
    facts = json.loads(capsys.readouterr().out)
    assert len(facts["heads"]) == LAYERS * HEADS
    assert facts["written"] == ["geometry.png", "geometry.svg"]


def put(name: str, content: str | bytes | dict[str, object]) -> None:
    data = json.dumps(content) if isinstance(content, dict) else content
    Path(name).write_bytes(data.encode() if isinstance(data, str) else data)


BARE = safetensors.numpy.save(weights())
SENTENCES = [
    ("gpt22", None, [], "there is no architecture 'gpt22' here: did you mean gpt2"),
    ("zzz", None, [], "known are gpt2,"),
    (
        "config.json",
        {"model_type": "mamba", "hidden_size": 4, "num_hidden_layers": 1},
        [],
        "a config without attention",
    ),
    ("config.json", "not JSON", [], "config.json is not JSON"),
    ("config.json", "[1]", [], "it is no JSON object"),
    ("config.json", {**CONFIG, "num_attention_heads": 0}, [], "num_attention_heads is 0, which is no whole number"),
    ("config.json", {**CONFIG, "num_key_value_heads": 3}, [], "config.json describes no model: 4 heads cannot share 3"),
    ("config.json", {"n_embd": 10, "n_head": 4, "n_layer": 1, "vocab_size": 9}, [], "do not divide d_model 10"),
    ("config.json", {"n_embd": 8, "n_head": 4, "vocab_size": 9}, [], "does not say its layers"),
    ("absent.json", None, [], "absent.json does not exist"),
    ("absent.gguf", None, [], "absent.gguf does not exist"),
    ("bad.gguf", "GGUF and then nothing", [], "bad.gguf is not a GGUF file, or is truncated"),
    ("bad.safetensors", b"\xff" * 40, [], "bad.safetensors is not a safetensors file, or its header is damaged"),
    ("gpt2", None, ["--items", "1"], "relations are between at least 2 items, not 1"),
    (
        "gpt2",
        None,
        ["--items", "10000000000"],
        "--items is a whole number from 1 to 1,073,741,824, not 10,000,000,000",
    ),
    ("bare.safetensors", BARE, ["--key-width", "0"], "--key-width is a whole number from 1 to 16,777,216, not 0"),
    ("bare.safetensors", BARE, ["--key-width", "-4"], "--key-width is a whole number from 1 to 16,777,216, not -4"),
    (
        "config.json",
        {**CONFIG, "kv_lora_rank": 8},
        [],
        "unknown kind of attention: latent attention that does not say qk_nope_head_dim",
    ),
    ("config.json", {**CONFIG, "qk_rope_head_dim": 64}, [], "latent attention that does not say kv_lora_rank"),
    (
        "config.json",
        {**CONFIG, "kv_lora_rank": 512, "qk_nope_head_dim": 4},
        [],
        "a latent of width 512 is wider than d_model 12",
    ),
    (
        "config.json",
        {**CONFIG, "layer_types": ["linear_attention", "full_attention"]},
        [],
        "has layers of the kind linear_attention, whose scores are not those of queries and keys",
    ),
    ("deepseek-v3", None, ["--weights", "x.safetensors"], "makes its keys from a latent"),
    ("gpt2", None, ["bert-base"], "audit is about one model, not 2"),
    ("list", None, ["gpt2"], "audit list takes no further word"),
    ("list", None, ["--key-width", "4"], "--key-width does not go with audit list"),
    ("compare", None, ["gpt2"], "audit compare takes two models or shapes"),
    ("compare", None, ["gpt2", "d_model=16,heads=4"], "'d_model=16,heads=4' is no shape: write whole numbers"),
    (
        "compare",
        None,
        ["gpt2", "d_model=16,heads=4,key_width=2,key_heads=3"],
        "4 heads cannot share 3 key heads evenly",
    ),
    (
        "compare",
        None,
        ["d_model=16,heads=4,key_width=2", "d_model=16,heads=4,key_width=4"],
        "two shapes have no vocabulary: give the number of items with --items",
    ),
    ("gpt2", None, ["--key-width", "4"], "--key-width does not apply"),
    ("gpt2", None, ["--picture", "x"], "give --weights"),
    ("gpt2", None, ["--weights", "x.txt"], "its name must end in .safetensors or .gguf"),
    ("gpt2", None, ["--seed", "-1"], "--seed is a whole number from 0 to"),
]


@pytest.mark.parametrize(("name", "content", "words", "says"), SENTENCES, ids=[row[3] for row in SENTENCES])
@pytest.mark.usefixtures("_in_a_directory")
def test_bad_input_is_one_sentence(
    name: str,
    content: str | bytes | dict[str, object] | None,
    words: list[str],
    says: str,
    capsys: pytest.CaptureFixture[str],
) -> None:
    if content is not None:
        put(name, content)
    assert main(["audit", name, *words]) == 2
    err = capsys.readouterr().err
    assert says in err
    assert err.count("\n") == 1


@pytest.mark.usefixtures("_in_a_directory")
def test_weights_of_another_model_are_refused() -> None:
    safetensors.numpy.save_file(weights(), "model.safetensors")
    for wrong, says in (
        ({**CONFIG, "hidden_size": 14}, "no embedding of width 14"),
        ({**CONFIG, "num_hidden_layers": 3}, "no query and key weights of layer 2"),
        ({**CONFIG, "head_dim": 4}, "the weights of layer 0 are not those of llama"),
    ):
        put("config.json", wrong)
        with pytest.raises(InputError, match=says):
            read_model_weights("model.safetensors", read_architecture("config.json"))
    Path("config.json").unlink()
    with pytest.raises(InputError, match="give --key-width"):
        read_architecture("model.safetensors")
    with pytest.raises(InputError, match="no heads of width 7"):
        read_architecture("model.safetensors", key_width=7)
