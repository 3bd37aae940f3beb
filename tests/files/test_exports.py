"""Exports are loaded by the other library, in a process without manyheads where it can be, and score alike."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from manyheads import InputError, Layer, gaussian
from manyheads.files import read_layer, write_export
from manyheads.layer.rules import RULES

ITEMS, D_MODEL, HEADS, WIDTH = 40, 12, 3, 7  # 3 · 7 is no 12: the head width is free


def layer_of(rule: str, dtype: str = "float32", scale: float = 1.0) -> Layer:
    query, key = np.random.default_rng(5).standard_normal((2, HEADS, D_MODEL, WIDTH)).astype(dtype) * np.dtype(
        dtype
    ).type(scale)
    return Layer(query, key, threshold=0.3, rule=rule)


def shared_layer(
    rule: str, dtype: str = "float32", heads: int = 4, key_heads: int = 2, width: int = WIDTH, scale: float = 3.0
) -> Layer:
    rng = np.random.default_rng(6)
    query, key = ((rng.standard_normal((g, D_MODEL, width)) * scale).astype(dtype) for g in (heads, key_heads))
    return Layer(query, key, threshold=0.3, rule=rule)


def long_and_short_rows() -> np.ndarray:
    """Rows whose lengths range over four orders of magnitude, which a normalisation would not survive."""
    lengths = np.logspace(-2, 2, ITEMS, dtype=np.float32)
    return gaussian(ITEMS, D_MODEL, seed=1) * lengths[:, None]


CONTEXTS = [np.random.default_rng(seed).choice(ITEMS, size=size, replace=False) for seed, size in enumerate((2, 9, 40))]

LOADED_ALONE = """
import importlib.util, json, sys
def attention(directory):
    spec = importlib.util.spec_from_file_location("attention", f"{directory}/attention.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module.AttentionLayer.load().double()
contexts, answers = json.loads(sys.argv[1]), []
for layer in map(attention, sys.argv[2:]):
    rows = [layer.rows(context) for context in contexts]
    answers.append([[layer(x).tolist(), layer.recognise(x).tolist()] for x in rows])
assert not [name for name in sys.modules if name.startswith("manyheads")]
print(json.dumps(answers))
"""


def test_torch_loads_it_without_this_package(tmp_path: Path) -> None:
    pytest.importorskip("torch")
    embedding = gaussian(ITEMS, D_MODEL, seed=1)
    layers = [make(rule) for rule in RULES for make in (layer_of, shared_layer)]
    directories = [tmp_path / str(number) for number in range(len(layers))]
    for layer, directory in zip(layers, directories, strict=True):
        write_export(directory, layer, to="torch", embedding=embedding)
    words = [json.dumps([context.tolist() for context in CONTEXTS]), *map(str, directories)]
    done = subprocess.run([sys.executable, "-c", LOADED_ALONE, *words], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    for layer, answers in zip(layers, json.loads(done.stdout), strict=True):
        for context, (scores, recognised) in zip(CONTEXTS, answers, strict=True):
            np.testing.assert_allclose(scores, layer.scores(embedding[context]), rtol=1e-12, atol=1e-12)
            np.testing.assert_array_equal(recognised, layer.recognise(embedding[context]))


def test_torchs_file_is_a_layer_file_too(tmp_path: Path) -> None:
    layer = layer_of("max", "float64")
    write_export(tmp_path / "out", layer, to="torch", embedding=gaussian(ITEMS, D_MODEL, seed=1))
    again = read_layer(tmp_path / "out" / "layer.safetensors")
    np.testing.assert_array_equal(again.query, layer.query)
    assert (again.threshold, again.rule) == (layer.threshold, layer.rule)


def test_torch_batches_and_trains(tmp_path: Path) -> None:
    torch = pytest.importorskip("torch")
    from manyheads.files.standalone.attention import AttentionLayer

    layer, embedding = layer_of("softmax"), gaussian(ITEMS, D_MODEL, seed=1)
    write_export(tmp_path / "out", layer, to="torch")
    module = AttentionLayer.load(tmp_path / "out" / "layer.safetensors")
    batch = torch.from_numpy(embedding[:20].reshape(4, 5, D_MODEL))
    scores = module(batch)
    for one, x in zip(scores, batch, strict=True):
        np.testing.assert_allclose(one.detach(), layer.scores(x.numpy()), atol=1e-5)
    scores.square().sum().backward()
    assert module.query.grad is not None
    assert module.query.grad.abs().max() > 0
    with pytest.raises(ValueError, match="exported without its embedding"):
        module.rows([0])


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("rows", ["unit", "of all lengths"])
def test_transformers_attends_alike(rows: str, dtype: str, tmp_path: Path) -> None:
    torch, transformers = pytest.importorskip("torch"), pytest.importorskip("transformers")
    embedding = gaussian(ITEMS, D_MODEL, seed=1) if rows == "unit" else long_and_short_rows()
    layer = layer_of("softmax", dtype, scale=3.0 if rows == "unit" else 0.05)
    write_export(tmp_path / "out", layer, to="transformers", embedding=embedding)
    model, report = transformers.T5EncoderModel.from_pretrained(
        tmp_path / "out", attn_implementation="eager", dtype=getattr(torch, dtype), output_loading_info=True
    )
    assert not any(report[key] for key in ("missing_keys", "unexpected_keys", "mismatched_keys"))
    assert model.config.manyheads == {"rule": "softmax", "threshold": layer.threshold}
    for context in CONTEXTS:
        with torch.no_grad():
            output = model(torch.from_numpy(context)[None], output_attentions=True)
        scores = layer.scores(embedding[context])
        assert np.ptp(scores) > 0.5  # far from uniform, so a wrong scale would show
        np.testing.assert_allclose(output.attentions[0][0].sum(dim=0), scores, atol=1e-5)
        np.testing.assert_array_equal(output.last_hidden_state[0], embedding[context])  # normalised by nothing


@pytest.mark.parametrize(
    ("dtype", "heads", "key_heads", "width"),
    [("float32", 4, 2, 7), ("float64", 4, 1, 6), ("float32", 10, 5, 3)],  # 10 heads do not divide d_model 12
)
def test_transformers_shares_keys(dtype: str, heads: int, key_heads: int, width: int, tmp_path: Path) -> None:
    torch, transformers = pytest.importorskip("torch"), pytest.importorskip("transformers")
    if not hasattr(transformers, "EuroBertModel"):
        pytest.skip("this version of transformers does not have EuroBERT")
    embedding, layer = long_and_short_rows(), shared_layer("softmax", dtype, heads, key_heads, width, scale=0.3)
    write_export(tmp_path / "out", layer, to="transformers", embedding=embedding)
    model, report = transformers.AutoModel.from_pretrained(
        tmp_path / "out", attn_implementation="eager", dtype=getattr(torch, dtype), output_loading_info=True
    )
    assert isinstance(model, transformers.EuroBertModel)
    assert model.config.mask_token_id < ITEMS  # else transformers warns that it is outside of the vocabulary
    assert not any(report[key] for key in ("missing_keys", "unexpected_keys", "mismatched_keys"))
    assert model.config.manyheads == {"rule": "softmax", "threshold": layer.threshold}
    keys = model.layers[0].self_attn.k_proj.weight
    assert keys.shape[0] == key_heads * (width + width % 2)  # shared there too, not one copy for each head
    for context in CONTEXTS:
        with torch.no_grad():
            output = model(torch.from_numpy(context)[None], output_attentions=True)
        scores = layer.scores(embedding[context])
        assert np.ptp(scores) > 0.5  # far from uniform, so a wrong scale or a rotation would show
        np.testing.assert_allclose(output.attentions[0][0].sum(dim=0), scores, atol=3e-5)
        np.testing.assert_array_equal(output.last_hidden_state[0][:, :D_MODEL], embedding[context])


def test_transformer_lens_gets_a_copy_of_shared_keys_for_each_head(tmp_path: Path) -> None:
    pytest.importorskip("torch")
    from manyheads.files.standalone.hooked import read

    layer = shared_layer("max", heads=6, key_heads=2)
    write_export(tmp_path / "out", layer, to="transformer-lens", embedding=gaussian(ITEMS, D_MODEL, seed=1))
    _, weights = read(tmp_path / "out")
    keys = weights["blocks.0.attn.W_K"]
    assert keys.shape == layer.query.shape
    for head in range(6):
        np.testing.assert_array_equal(keys[head], layer.key[head // 3])


@pytest.mark.filterwarnings("ignore::DeprecationWarning")  # version 3 says that it is the last with this class
def test_transformer_lens_attends_alike(tmp_path: Path) -> None:
    """Needs the lens extra, which is large and no part of dev."""
    pytest.importorskip("transformer_lens")
    pytest.importorskip("transformer_lens.HookedTransformer", reason="TransformerLens 4 has no HookedTransformer")
    import torch

    from manyheads.files.standalone.hooked import load

    embedding = gaussian(ITEMS, D_MODEL, seed=1)
    for rule in RULES:
        layer = layer_of(rule, scale=3.0)
        write_export(tmp_path / rule, layer, to="transformer-lens", embedding=embedding)
        model, threshold, loaded_rule = load(tmp_path / rule)
        assert (threshold, loaded_rule) == (layer.threshold, rule)
        for context in CONTEXTS:
            _, cache = model.run_with_cache(torch.from_numpy(context)[None])
            heads = cache["blocks.0.attn.hook_attn_scores"][0]
            scale = np.sqrt(WIDTH) if rule == "softmax" else 1.0
            np.testing.assert_allclose(heads * scale, layer.head_scores(embedding[context]), atol=1e-4)
            shares = cache["blocks.0.attn.hook_pattern"][0].sum(0)
            if rule == "softmax":
                np.testing.assert_allclose(shares, layer.scores(embedding[context]), atol=1e-5)


def test_what_cannot_be_exported(tmp_path: Path) -> None:
    embedding = gaussian(ITEMS, D_MODEL, seed=1)
    with pytest.raises(InputError, match="rule max goes to torch or transformer-lens"):
        write_export(tmp_path / "out", layer_of("max"), to="transformers", embedding=embedding)
    with pytest.raises(InputError, match="carries the embedding, and none is given"):
        write_export(tmp_path / "out", layer_of("max"), to="transformer-lens")
    with pytest.raises(InputError, match="rows of 12 numbers but the embedding has rows of 5"):
        write_export(tmp_path / "out", layer_of("max"), to="torch", embedding=embedding[:, :5].copy())
    with pytest.raises(InputError, match="too long for the normalisation"):
        write_export(tmp_path / "out", layer_of("softmax"), to="transformers", embedding=embedding * np.float32(1e18))
    assert not (tmp_path / "out").exists()


def test_a_directory_that_exists_is_written_into_only_with_force(tmp_path: Path) -> None:
    write_export(tmp_path / "out", layer_of("max"), to="torch")
    before = (tmp_path / "out" / "layer.safetensors").read_bytes()
    with pytest.raises(InputError, match="already exists"):
        write_export(tmp_path / "out", layer_of("sum"), to="torch")
    assert (tmp_path / "out" / "layer.safetensors").read_bytes() == before
    write_export(tmp_path / "out", layer_of("sum"), to="torch", force=True)
    assert read_layer(tmp_path / "out" / "layer.safetensors").rule.name == "sum"
    (tmp_path / "file").write_text("")
    with pytest.raises(InputError, match="is a file, not a directory"):
        write_export(tmp_path / "file", layer_of("max"), to="torch", force=True)


def test_torch_refuses_an_export_in_which_a_bit_has_changed(tmp_path: Path) -> None:
    pytest.importorskip("torch")
    from manyheads.files.standalone.attention import AttentionLayer

    write_export(tmp_path / "out", layer_of("max"), to="torch", embedding=gaussian(ITEMS, D_MODEL, seed=1))
    path = tmp_path / "out" / "layer.safetensors"
    content = path.read_bytes()
    assert AttentionLayer.load(path).rule == "max"
    places = np.random.default_rng(0).integers(8 * len(content), size=200)
    for place in [*places, *range(8 * 8, 8 * 200, 9)]:
        damaged = bytearray(content)
        damaged[place // 8] ^= 1 << place % 8
        path.write_bytes(damaged)
        with pytest.raises(ValueError, match="is damaged, or is not a layer that manyheads wrote"):
            AttentionLayer.load(path)
    path.write_bytes(content.replace(b'"max"', b'"sum"'))
    with pytest.raises(ValueError, match="does not match its checksum"):
        AttentionLayer.load(path)


@pytest.mark.parametrize(
    ("file", "old", "new"), [("config.json", b"0x1.3", b"0x1.7"), ("model.safetensors", None, b"")]
)
def test_the_hooked_export_refuses_files_that_have_changed(
    tmp_path: Path, file: str, old: bytes | None, new: bytes
) -> None:
    pytest.importorskip("torch")
    from manyheads.files.standalone.hooked import read

    write_export(tmp_path / "out", layer_of("max"), to="transformer-lens", embedding=gaussian(ITEMS, D_MODEL, seed=1))
    config, weights = read(tmp_path / "out")
    assert (config["d_model"], config["manyheads"]["rule"]) == (D_MODEL, "max")
    np.testing.assert_array_equal(weights["blocks.0.attn.W_Q"], layer_of("max").query)
    path = tmp_path / "out" / file
    content = path.read_bytes()
    damaged = content.replace(b"0x1.3", b"0x1.7") if file == "config.json" else content[:-1] + bytes([content[-1] ^ 1])
    assert damaged != content
    path.write_bytes(damaged)
    with pytest.raises(ValueError, match="do not match their checksum"):
        read(tmp_path / "out")
