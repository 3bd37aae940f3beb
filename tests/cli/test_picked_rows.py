"""A graph of names over an embedding with more rows: the rows of the names are picked, headings are recognised."""

from __future__ import annotations

import json
import time
from pathlib import Path

import numpy as np
import pytest
from safetensors.numpy import load_file
from support.commands import refused

from manyheads import Embedding, InputError, read_embedding
from manyheads.cli import main
from manyheads.files import read_labels

NAMES = ["ĠFrance", "ĠParis", "▁Italy", "Rome", "ĠSpain", "ĠMadrid", *(f"Ġword{i}" for i in range(34))]
ROWS = np.random.default_rng(0).standard_normal((len(NAMES), 8)).astype(np.float32)
PICKED = ["--graph", "capitals.csv", "--embedding", "rows.npy", "--labels", "names.json"]


@pytest.fixture(autouse=True)
def _in_a_new_directory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path("capitals.csv").write_text("country,capital\nFrance,Paris\nItaly,Rome\nSpain,Madrid\n")
    Path("names.json").write_text(json.dumps(NAMES))
    np.save("rows.npy", ROWS)


def test_fit_certify_and_attend_use_the_rows_of_the_names(capsys: pytest.CaptureFixture[str]) -> None:
    shape = ["--heads", "1", "--key-width", "6"]
    assert main(["fit", *PICKED, *shape, "-o", "layer.safetensors", "--save-embedding", "picked.npy", "--json"]) == 0
    told, said = capsys.readouterr()
    assert json.loads(told)["certificate"]["items"] == 6
    assert json.loads(told)["certificate"]["relations"] == 3
    assert "note: capitals.csv, line 1: 'country', 'capital' is taken for a heading" in said
    assert "--header or --no-header decides it" in said
    assert "note: 6 of 40 rows are items" in said
    np.testing.assert_array_equal(read_embedding("picked.npy"), ROWS[:6])
    assert main(["certify", "layer.safetensors", *PICKED]) == 0
    words = ["attend", "layer.safetensors", "Italy", *PICKED[2:], "--graph", "capitals.csv", "--json"]
    assert main(words) == 0
    told = capsys.readouterr().out.splitlines()[-1]
    assert [pair["target"] for pair in json.loads(told)["attends"]] == ["Rome"]


def test_attend_and_export_take_the_rows_of_the_layers_labels(capsys: pytest.CaptureFixture[str]) -> None:
    """With the names of all rows these are the rows of the certificate, so there is no note that nothing is proved."""
    files = ["--save-embedding", "picked.safetensors", "-o", "layer.safetensors"]
    assert main(["fit", *PICKED, "--heads", "1", "--key-width", "6", *files]) == 0
    capsys.readouterr()
    for rows in (PICKED[2:], ["--embedding", "picked.safetensors"]):
        assert main(["attend", "layer.safetensors", "Italy", "Rome", *rows, "--json"]) == 0
        facts = json.loads(capsys.readouterr().out.splitlines()[-1])
        assert [pair["target"] for pair in facts["attends"]] == ["Rome"]
        assert facts["notes"] == []
        assert main(["export", "layer.safetensors", "made", "--to", "torch", *rows, "--force"]) == 0
        np.testing.assert_array_equal(load_file("made/layer.safetensors")["embedding"], ROWS[:6])
    assert read_embedding("picked.safetensors").names == ("France", "Paris", "Italy", "Rome", "Spain", "Madrid")
    capsys.readouterr()
    for command in (["attend", "layer.safetensors", "Italy"], ["export", "layer.safetensors", "new", "--to", "torch"]):
        said = refused([*command, "--embedding", "rows.npy"], capsys)
        assert "the layer names 6 items but the embedding has 40 rows without names: give --labels" in said
    assert "--labels does not apply" in refused([*command, "--labels", "names.json"], capsys)


def test_rows_without_names_are_refused_with_what_helps(capsys: pytest.CaptureFixture[str]) -> None:
    for words in (["fit", *PICKED[:4]], ["train", *PICKED[:4], "--heads", "1", "--key-width", "2"]):
        said = refused(words, capsys)
        assert "the embedding has 40 rows, which have no names: give the names of all rows (--labels" in said


def test_all_rows_and_a_forced_heading(capsys: pytest.CaptureFixture[str]) -> None:
    Path("names.json").write_text(json.dumps([name.lstrip("Ġ▁") for name in NAMES]))
    assert main(["compile", *PICKED, "--key-width", "64", "--all-rows", "--header", "--json"]) in (0, 1)
    told, said = capsys.readouterr()
    assert json.loads(told)["certificate"]["items"] == 40
    assert said == ""


def test_every_missing_name_is_told_at_once(capsys: pytest.CaptureFixture[str]) -> None:
    said = refused(["fit", *PICKED, "--no-header"], capsys)
    assert "2 of 8 names have no row: 'country', 'capital'" in said
    assert "contradict" in refused(["fit", *PICKED, "--no-header", "--header"], capsys)
    Path("capitals.csv").write_text("Frence,Paris\nItaly,Romme\n")
    for words in (["train", *PICKED, "--heads", "1", "--key-width", "2"], ["measure", *PICKED]):
        said = refused(words, capsys)
        assert "2 of 4 names have no row: 'Frence' (nearest: 'France'), 'Romme' (nearest: 'Rome'" in said


def test_the_nearest_of_fifty_thousand_names_are_found_quickly() -> None:
    rng = np.random.default_rng(0)
    names = ["Ġ" + "".join(map(chr, rng.integers(97, 123, size=7))) for _ in range(50_000)]
    embedding = Embedding(np.zeros((50_001, 1)), (*names, "ĠFrance"))
    begun = time.process_time()
    with pytest.raises(InputError, match=r"20 of 20 names .*'Frence19' \(nearest: 'France'"):
        embedding.select([f"Frence{i}" for i in range(20)])
    assert time.process_time() - begun < 2


def test_a_tokenizer_names_the_rows() -> None:
    vocabulary = {"model": {"vocab": {"a": 0, "Ġb": 1}}, "added_tokens": [{"content": "<end>", "id": 2}]}
    Path("tokenizer.json").write_text(json.dumps(vocabulary))
    assert read_labels("tokenizer.json") == ("a", "Ġb", "<end>")
