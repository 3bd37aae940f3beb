"""Type words, see what attends to what."""

from __future__ import annotations

import io
import json
from dataclasses import replace
from pathlib import Path
from typing import cast

import numpy as np
import pytest

from manyheads import Embedding, InputError, Layer, gaussian
from manyheads.cli import main
from manyheads.cli.commands.attend import attention_answer
from manyheads.files import write_embedding, write_layer
from manyheads.layer.layer_record import LayerRecord
from manyheads.layer.layer_vocabulary import Vocabulary
from manyheads.layer.rules import RULES

LABELS = ("Ġcat", "Ġanimal", "cat", "dog", "Ġdog", "Ġstone")
ATTEND = ["attend", "layer.safetensors", "--embedding", "rows.npy"]


def vocabulary_of(rule: str = "max") -> Vocabulary:
    query, key = np.random.default_rng(3).standard_normal((2, 4, 8, 5))
    threshold = {"max": 0.4, "sum": 0.4, "logsumexp": 1.6, "softmax": 1.0}[rule]
    return Vocabulary(Layer(query, key, threshold, rule), gaussian(6, 8, seed=0), LABELS)


@pytest.fixture
def _with_files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    vocabulary = vocabulary_of()
    write_layer("layer.safetensors", vocabulary.layer)
    write_embedding("rows.npy", vocabulary.embedding)
    Path("names.json").write_text(json.dumps(LABELS))


@pytest.mark.parametrize("rule", list(RULES))
def test_a_context_shows_the_pairs_the_layer_recognises(rule: str) -> None:
    """Pair by pair and head by head, from the rule as it is defined."""
    vocabulary, context = vocabulary_of(rule), [4, 0, 3, 5]
    layer, rows = vocabulary.layer, vocabulary.embedding[context].astype(np.float64)
    found = vocabulary.within(context)
    recognised = layer.recognise(vocabulary.embedding[context])
    assert recognised.any()
    assert not recognised.all()
    pairs = {(context[p], context[q]) for p, q in zip(*np.nonzero(recognised), strict=True)}
    assert {(one.source, one.target) for one in found} == pairs
    assert [one.margin for one in found] == sorted((one.margin for one in found), reverse=True)
    for one in found:
        p, q = context.index(one.source), context.index(one.target)
        raw = np.array([rows[p] @ layer.query[k] @ layer.key[k].T @ rows.T for k in range(layer.heads)])
        shares = np.exp(raw / np.sqrt(5)) / np.exp(raw / np.sqrt(5)).sum(axis=1, keepdims=True)
        assert one.head == int(np.argmax((shares if rule == "softmax" else raw)[:, q]))
        assert one.score == pytest.approx(layer.scores(vocabulary.embedding[context])[p, q])
        assert one.margin == pytest.approx(one.score - layer.threshold)


@pytest.mark.parametrize("rule", [rule for rule in RULES if rule != "softmax"])
def test_one_item_is_held_against_all(rule: str) -> None:
    vocabulary = vocabulary_of(rule)
    everything = vocabulary.layer.recognise(vocabulary.embedding)
    for item in range(6):
        assert {one.target for one in vocabulary.all_from([item])} == set(np.flatnonzero(everything[item]).tolist())
        assert {one.source for one in vocabulary.all_to([item])} == set(np.flatnonzero(everything[:, item]).tolist())


def test_a_word_is_its_token_bare_and_at_a_beginning() -> None:
    vocabulary = vocabulary_of()
    assert vocabulary.items(["cat", "animal", "Ġdog", "cat"]) == [2, 0, 1, 4]
    with pytest.raises(InputError, match=r"^there is no item 'stones': did you mean 'stone'\?$"):
        vocabulary.items(["stones"])
    with pytest.raises(InputError, match=r"^there is no item 'xyzzy'$"):
        vocabulary.items(["xyzzy"])


@pytest.mark.usefixtures("_with_files")
def test_words_on_the_command_line(capsys: pytest.CaptureFixture[str]) -> None:
    vocabulary = vocabulary_of()
    assert main([*ATTEND, "cat", "stone", "--labels", "names.json", "--json"]) == 0
    facts = json.loads(capsys.readouterr().out)
    assert [item["label"] for item in facts["items"]] == ["cat", "Ġcat", "Ġstone"]
    pairs = [(LABELS[one.source], LABELS[one.target]) for one in vocabulary.within([2, 0, 5])]
    assert [(one["source"], one["target"]) for one in facts["attends"]] == pairs
    # the word has two tokens: a pair of them is one from them and one to them, and is told once
    everything = Vocabulary(replace(vocabulary.layer, threshold=-1e9), vocabulary.embedding, vocabulary.labels)
    facts = attention_answer(everything, ("cat",)).facts
    told = [(one["source"], one["target"]) for one in cast("list[dict[str, str]]", facts["attends"])]
    assert len(set(told)) == len(told) == 4 * len(LABELS) - 4
    main([*ATTEND, "1"])  # without labels, items are numbers
    assert "attends to" in capsys.readouterr().out


@pytest.mark.usefixtures("_with_files")
def test_words_line_by_line(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    """What is typed wrongly is a sentence, and the talk goes on."""
    monkeypatch.setattr("sys.stdin", io.StringIO("cats\n\ncat dog it's\n'Ġcat' Ġanimal\n"))
    main([*ATTEND, "--labels", "names.json"])
    out = capsys.readouterr().out
    assert out.startswith("there is no item 'cats': did you mean 'cat'?\nthere is no item \"it's\"\n")
    assert "Ġanimal" in out


SENTENCES = [
    (["cats", "--labels", "names.json"], "there is no item 'cats': did you mean 'cat'?"),
    (["7"], "there is no item '7'"),
    (["cat", "--labels", "short.txt"], "2 names do not name the 6 rows of the embedding"),
    (["0", "--embedding", "narrow.npy"], "the layer reads rows of 8 numbers but the embedding has 7"),
    (["--json"], "--json needs words: give them after the layer"),
    ([], "no word was given"),
]


@pytest.mark.parametrize(("words", "says"), SENTENCES, ids=[says for _, says in SENTENCES])
@pytest.mark.usefixtures("_with_files")
def test_bad_input_is_one_sentence(
    words: list[str], says: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    Path("short.txt").write_text("cat\ndog\n")
    np.save("narrow.npy", np.ones((6, 7)))
    monkeypatch.setattr("sys.stdin", io.StringIO(""))
    assert main([*ATTEND, *words]) == 2
    assert capsys.readouterr().err == f"manyheads: {says}\n"


@pytest.mark.usefixtures("_with_files")
def test_softmax_asks_for_a_context(capsys: pytest.CaptureFixture[str]) -> None:
    write_layer("layer.safetensors", vocabulary_of("softmax").layer, force=True)
    assert main([*ATTEND, "1"]) == 2
    assert "depends on the context" in capsys.readouterr().err
    assert main([*ATTEND, "1", "2", "3"]) == 0


@pytest.mark.usefixtures("_with_files")
def test_a_context_outside_of_the_certificate_has_a_note(capsys: pytest.CaptureFixture[str]) -> None:
    """The layer's file is certified for contexts of four items over the rows of rows.npy."""
    rows = vocabulary_of().embedding
    layer, said = vocabulary_of("softmax").layer, {"verdict": "holds", "items": 6, "relations": 3}
    weights, embedding = layer.fingerprint, Embedding(rows).fingerprint

    def write(**changed: object) -> None:
        certificate = said | {"context_lengths": [4, 4]} | changed
        record = LayerRecord(weights=weights, graph="g", embedding=embedding, certificate=certificate, provenance={})
        write_layer("layer.safetensors", replace(layer, labels=LABELS, record=record), force=True)

    def told(*words: str) -> str:
        main([*ATTEND, *words])
        return " ".join(capsys.readouterr().out.split())

    write()
    inside = told("Ġcat", "Ġanimal", "Ġdog", "Ġstone")  # the names are those of the layer's file
    assert "note:" not in inside
    says = "the file says: holds 3 relations of 6 items in every context of length 4; `manyheads certify` verifies it"
    assert says in inside
    outside = told("Ġcat", "Ġanimal", "Ġstone")
    note = "nothing is proved here: the context has 3 items, and the file's certificate is about every context of"
    assert note in outside
    write_embedding("rows.npy", rows + 1, force=True)
    assert "the rows are not those of the file's certificate" in told("Ġcat", "Ġanimal", "Ġdog", "Ġstone")
    write(verdict="refuted")
    assert "nothing is proved here: the layer is refuted, the file says" in told("Ġcat", "Ġanimal", "Ġdog", "Ġstone")
    write_layer("layer.safetensors", layer, force=True)
    assert "the file has no certificate of these weights" in told("0", "1")


EXPORT = ["export", "layer.safetensors", "out", "--to"]
EXPORT_SENTENCES = [
    ([*EXPORT, "transformers", "--embedding", "rows.npy"], "a layer with the rule max goes to torch or transformer-"),
    ([*EXPORT, "transformer-lens"], "an export to transformer-lens carries the embedding, and none is given"),
    (
        [*EXPORT, "torch", "--tensor", "x"],
        "--tensor does not apply: it is about the rows of the embedding: give --embedding",
    ),
    (["export", "layer.safetensors", "rows.npy", "--to", "torch"], "rows.npy is a file, not a directory to write into"),
    (["export", "layer.safetensors", "no/out", "--to", "torch"], "no/out cannot be written: there is no directory no"),
    (["export", "rows.npy", "out", "--to", "torch"], "rows.npy is not a safetensors file"),
]


@pytest.mark.parametrize(("words", "says"), EXPORT_SENTENCES, ids=[says for _, says in EXPORT_SENTENCES])
@pytest.mark.usefixtures("_with_files")
def test_what_export_refuses(words: list[str], says: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(words) == 2
    assert says in capsys.readouterr().err
    assert not Path("out").exists()


@pytest.mark.usefixtures("_with_files")
def test_export_on_the_command_line(capsys: pytest.CaptureFixture[str]) -> None:
    assert main([*EXPORT, "torch", "--embedding", "rows.npy", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["written"] == ["out/attention.py", "out/layer.safetensors"]
    assert main([*ATTEND[:1], "out/layer.safetensors", *ATTEND[2:], "1"]) in (0, 1)


def test_heads_that_share_keys_attend_as_they_score() -> None:
    rng = np.random.default_rng(0)
    layer, rows = (
        Layer(rng.standard_normal((4, 5, 3)), rng.standard_normal((2, 5, 3)), 0.1),
        rng.standard_normal((9, 5)),
    )
    vocabulary = Vocabulary(layer, rows)
    scores = layer.scores(rows)
    assert {one.target for one in vocabulary.all_from([3])} == set(np.flatnonzero(scores[3] > 0.1).tolist())
    assert {one.source for one in vocabulary.all_to([3])} == set(np.flatnonzero(scores[:, 3] > 0.1).tolist())
