"""Names of files that no file system takes, through every option that names a file: one sentence, exit code 2."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from support.commands import refused

import manyheads as mh
from manyheads.cli import main

LONG = "a" * 300
NAMES = ("graph.csv/b", "a\0b", "")
LONGER = (LONG, f"a:{LONG}", f"{LONG}/b", f"{LONG}.safetensors", f"graph.csv/{LONG}", "no/b")
PROBLEM = "--graph permutation:8 --embedding gaussian:4"
OPTIONS = (
    "plan budget --relations 8 --d-model 4 --graph {}",
    "plan budget --relations 8 --items 8 --embedding {}",
    "plan budget --relations 8 --items 8 --d-model 4 --picture {}",
    "fit --embedding gaussian:4 --graph {}",
    "fit --graph permutation:8 --embedding {}",
    f"fit {PROBLEM} --labels {{}}",
    f"fit {PROBLEM} -o {{}}",
    f"fit {PROBLEM} --save-graph {{}}",
    "compile --embedding gaussian:4 --key-width 2 --graph {}",
    f"compile {PROBLEM} --key-width 2 -o {{}}",
    "exclude --embedding gaussian:4 --graph {}",
    f"exclude {PROBLEM} --proof {{}}",
    f"exclude {PROBLEM} -o {{}}",
    f"certify {{}} {PROBLEM}",
    "certify layer.safetensors --graph permutation:8 --embedding {}",
    f"certify layer.safetensors {PROBLEM} --proof {{}}",
    f"certify {PROBLEM} --exclusion {{}}",
    "attend {} --embedding rows.npy 0 1",
    "attend layer.safetensors --embedding {} 0 1",
    "attend layer.safetensors --embedding rows.npy --graph {} 0 1",
    "attend layer.safetensors --embedding rows.npy --labels {} 0 1",
    "audit {}",
    "audit gpt2 --picture {}",
    "export {} out --to torch",
    "export layer.safetensors {} --to torch",
    "export layer.safetensors out --to torch --embedding {}",
    "train --embedding gaussian:4 --heads 1 --key-width 1 --graph {}",
    f"train {PROBLEM} --heads 1 --key-width 1 -o {{}}",
    "measure --embedding gaussian:4 --graph {}",
    f"measure {PROBLEM} --store {{}}",
    f"measure {PROBLEM} --picture {{}}",
    "results --store {}",
    "results -o {}",
    "paper split_cost --from-rows {}",
    "heads {}",
    "explore -o {}",
)


@pytest.mark.parametrize("place", range(len(OPTIONS)), ids=OPTIONS)
def test_a_name_that_no_file_can_have(
    place: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    mh.write_graph("graph.csv", mh.permutation_graph(8, seed=0))
    np.save("rows.npy", np.zeros((8, 4), np.float32))
    mh.write_layer("layer.safetensors", mh.Layer(np.ones((1, 4, 2)), np.ones((1, 4, 2)), threshold=0.5))
    before = sorted(Path().iterdir())
    turn = place % 3  # each name at a third of the options
    for name in (NAMES[turn], *LONGER[2 * turn : 2 * turn + 2]):
        refused([name if word == "{}" else word for word in OPTIONS[place].split()], capsys)
        assert sorted(Path().iterdir()) == before, name


def test_a_store_of_the_paper_with_a_long_name(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["paper", "list", "--store", LONG]) == 2
    said = capsys.readouterr().err
    assert "File name too long" in said
    assert said.count("\n") == 1
