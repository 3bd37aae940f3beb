"""Models of a dozen tokens, as files, for the tests of what reads them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

TOKENS = ("<end>", "a", "b", "c", "1", "2", "Ġ", "Ċ", "ab", "Ġa", "Ġab", "12")
MERGES = ("Ġ a", "Ġa b", "a b", "1 2")
TEXT = "ab ab a\n12 ab\n\nc\n"
ROWS = np.random.default_rng(0).standard_normal((len(TOKENS), 16)).astype(np.float32)


def write_gguf(path: Path, *, cut: str = "gpt-2", tokens: tuple[str, ...] = TOKENS) -> Path:
    gguf = pytest.importorskip("gguf")
    writer = gguf.GGUFWriter(path, "llama")
    writer.add_tokenizer_model("gpt2")
    writer.add_tokenizer_pre(cut)
    writer.add_token_list(list(tokens))
    writer.add_token_merges(list(MERGES))
    writer.add_eos_token_id(0)
    writer.add_tensor("token_embd.weight", ROWS)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    return path


def write_tokenizer(path: Path, tokens: tuple[str, ...] = TOKENS) -> Path:
    tokenizers = pytest.importorskip("tokenizers")
    merges = [tuple(merge.split()) for merge in MERGES if set(merge.split()) <= set(tokens)]
    tokenizer = tokenizers.Tokenizer(tokenizers.models.BPE({token: n for n, token in enumerate(tokens)}, merges))
    tokenizer.pre_tokenizer = tokenizers.pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.save(str(path))
    return path


def write_model(folder: Path, config: dict[str, Any] | None = None) -> Path:
    """A model as the hub keeps it."""
    import safetensors.numpy

    folder.mkdir(exist_ok=True)
    other = np.zeros((3, 2), dtype=np.float32)
    safetensors.numpy.save_file({"wte.weight": ROWS, "h.0.ln.weight": other}, folder / "model.safetensors")
    write_tokenizer(folder / "tokenizer.json")
    if config is not None:
        (folder / "config.json").write_text(json.dumps(config))
    return folder / "model.safetensors"
