"""Every exhibit on made-up rows, its verdicts both ways, and the registry."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar

import pytest
from matplotlib.figure import Figure
from support.made_up import made_up

from manyheads import InputError
from manyheads.block import BlockRun
from manyheads.cli import main
from manyheads.papers import (
    CAPACITY,
    Exhibit,
    Rows,
    Scale,
    Verdict,
    exhibit_named,
    exhibit_names,
    needed,
    register_exhibit,
    verdicts,
)
from manyheads.papers.exhibit import COLLECTIONS, EXHIBITS
from manyheads.papers.trial import Scores, Trial
from manyheads.papers.verdict import judged
from manyheads.retrieval import RetrievalRun
from manyheads.training import Run

QUICK = Scale(quick=True)


NAMES = exhibit_names(CAPACITY)


FINE = Scale(seeds=2, up_to=512)


def outcome(claim: str, name: str, *, slope: float, single: bool = False) -> str:
    made = Rows([made_up(run, slope=slope, single=single) for run in needed([name], FINE)])
    return {verdict.claim: verdict.outcome for verdict in verdicts([name], made, FINE)}[claim]


def test_verdicts_follow_the_rows() -> None:
    """A law of the paper's slope is reproduced and another is not; so for the claims about single heads."""
    assert outcome("3", "fig3", slope=1.12) == "reproduced"
    assert outcome("3", "fig3", slope=0.6) == "differs"
    assert outcome("6", "fig9", slope=0.9) == "reproduced"
    assert outcome("6", "fig9", slope=0.9, single=True) == "differs"
    assert outcome("9", "fig12", slope=0.42) == "reproduced"
    assert outcome("9", "fig12", slope=0.9) == "differs"
    assert outcome("12a", "fig5", slope=0.9) == "differs"  # an advantage everywhere, (64, 32) included


def test_what_was_not_run_is_said_to_be_missing() -> None:
    found = verdicts(NAMES, Rows(()), QUICK)
    assert found
    assert {verdict.outcome for verdict in found} == {"not attempted"}
    claims = [verdict.claim for verdict in found]
    assert len(claims) == len(set(claims))


@pytest.mark.parametrize("name", NAMES)
def test_a_first_run_alone_is_drawn_and_captioned(name: str) -> None:
    """An interrupted reproduction is looked at too."""
    module = exhibit_named(name)
    first = Rows([made_up(module.runs(QUICK)[0])])
    if module.draw is None:
        assert module.tables(first, QUICK)[0].startswith("| ")
    else:
        assert module.draw(first, QUICK).axes
    assert module.caption(first, QUICK)
    assert {verdict.outcome for verdict in module.claims(first, QUICK)} <= {"not attempted"}


# --- the registry


def test_a_claim_has_one_number_and_a_collection_one_word() -> None:
    words = [collection.word for collection in COLLECTIONS]
    assert len(set(words)) == len(words)
    assert not {*words, "list", "claims"} & set(EXHIBITS)
    assert [name for name in EXHIBITS if exhibit_named(name).hours] == ["fig7"]


@pytest.mark.parametrize("name", EXHIBITS)
def test_an_exhibit_declares_the_kinds_of_its_runs(name: str) -> None:
    """The command chooses processes or threads, and the options of blocks, by this declaration."""
    kinds = {Run: "layer", BlockRun: "block", RetrievalRun: "retrieval"}
    runs = needed([name], QUICK)
    assert {kinds.get(type(run), "trial") for run in runs} == exhibit_named(name).work


@dataclass(frozen=True)
class Dice(Trial):
    """A trial from outside the package."""

    KIND: ClassVar[str] = "dice"

    seed: int

    def make(self) -> Scores:
        return {"eyes": 1 + self.seed % 6}

    def seconds(self, flops: float) -> float:
        return 0.0


def dice_exhibit() -> Exhibit:
    dice = [Dice(seed) for seed in range(6)]

    def mean(rows: Rows) -> float:
        eyes = [value for _, value in rows.scores(dice, "eyes")]
        return sum(eyes) / len(eyes)

    def draw(rows: Rows, scale: Scale) -> Figure:
        figure = Figure()
        figure.subplots().bar(range(6), [value for _, value in rows.scores(dice, "eyes")])
        return figure

    def claims(rows: Rows, scale: Scale) -> list[Verdict]:
        return [judged("99", "a die shows 3.5 in the mean", f"{mean(rows)}", mean(rows) == 3.5)]

    return Exhibit(
        "Dice", lambda scale: dice, draw, lambda rows, scale: f"Mean {mean(rows)}.", claims, work=frozenset({"trial"})
    )


@pytest.fixture
def registry(monkeypatch: pytest.MonkeyPatch) -> None:
    """The registry without the exhibits that a test adds."""
    monkeypatch.setattr("manyheads.papers.exhibit.EXHIBITS", dict(EXHIBITS))


@pytest.mark.usefixtures("registry")
def test_an_exhibit_from_outside_is_run_drawn_judged_and_listed(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    register_exhibit("dice", dice_exhibit())
    options = ["--quick", "--store", str(tmp_path / "p.db"), "--output", str(tmp_path), "--json"]
    assert main(["paper", "dice", *options]) == 0
    facts = json.loads(capsys.readouterr().out)
    assert [(claim["claim"], claim["outcome"]) for claim in facts["claims"]] == [("99", "reproduced")]
    assert [(one["name"], one["runs"], one["done"]) for one in facts["exhibits"]] == [("dice", 6, 6)]
    assert (tmp_path / "paper" / "dice.svg").exists()
    assert "### Dice\n\n![Dice](paper/dice.png)\n\nMean 3.5." in (tmp_path / "paper.md").read_text()
    assert "dice" in exhibit_names(CAPACITY)


@pytest.mark.usefixtures("registry")
def test_a_name_is_registered_once_and_is_a_word() -> None:
    for name, sentence in (("fig3", "is taken"), ("all", "is taken"), ("list", "is taken"), ("../x", "cannot name")):
        with pytest.raises(InputError, match=sentence):
            register_exhibit(name, dice_exhibit())


@pytest.mark.usefixtures("registry")
def test_an_exhibit_may_be_named_by_its_module() -> None:
    register_exhibit("again", "manyheads.papers.exhibits.capacity_law:FIGURE_3")
    assert exhibit_named("again") is exhibit_named("fig3")
