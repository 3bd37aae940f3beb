"""The command `retrieve`: it builds, guarantees and challenges; bad input is one sentence."""

from __future__ import annotations

import json

import pytest

from manyheads.cli import main


def test_the_command_builds_promises_and_challenges(capsys: pytest.CaptureFixture[str]) -> None:
    pytest.importorskip("torch", reason="the network needs the torch extra")
    options = ["retrieve", "--retrieve", "3", "--context-length", "16", "--error", "0.01", "--sequences", "50"]
    assert main(options) == 0
    shown = capsys.readouterr().out
    assert "not refuted" in shown
    assert "3 heads of width 2" in shown
    assert main([*options, "--subset", "2", "--json"]) == 0
    facts = json.loads(capsys.readouterr().out)
    assert facts["guarantee"]["error"] == pytest.approx(0.01)
    assert 0.3 * 0.01 < facts["worst"] <= 0.01 + facts["guarantee"]["rounding"]
    assert "they do not cover this task" in facts["caveat"]


@pytest.mark.parametrize(
    ("options", "says"),
    [
        (["--retrieve", "0", "--error", "1"], "--retrieve is a whole number from 1"),
        (["--context-length", "0", "--error", "1"], "--context-length is a whole number from 1"),
        ([], "give either --inverse-temperature or --error"),
        (["--error", "1", "--inverse-temperature", "2"], "give either --inverse-temperature or --error"),
        (["--error", "-1"], "--error is a number above 0"),
        (["--error", "1", "--subset", "65"], "--subset lies between 1 and --context-length 64, not at 65"),
        (["--error", "1", "--subset", "0"], "--subset is a whole number from 1"),
        (["--task", "max-and-min", "--error", "1", "--subset", "3"], "--subset is for maxima"),
        (["--error", "1", "--seed", "-1"], "--seed is a whole number from 0 to"),
    ],
)
def test_the_commands_bad_input_is_one_sentence(
    options: list[str], says: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["retrieve", *options]) == 2
    said = capsys.readouterr().err
    assert says in said
    assert said.count("\n") == 1
