"""Bars in notebooks: seen in a real kernel; nothing at all outside of notebooks."""

from __future__ import annotations

import inspect
import subprocess
import sys
import time
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from support.notebooks import watch_notebook

import manyheads
from manyheads import fitting, notebook_bar
from manyheads.notebook_bar import WATCHED, with_bar

WORK = (
    "problem = mh.Problem(mh.permutation_graph(128, seed=0), mh.gaussian(128, 16, seed=1))\n"
    "few = mh.FitOptions(workers=1, restarts=12)\n"
    "task = mh.Task('permutation:64', 'gaussian:16')\n"
)
CELLS = (
    "import manyheads as mh, manyheads.notebook_bar as bars\n" + WORK,
    "quick = mh.train(mh.Run(task, heads=1, key_width=2, seed=0, protocol=mh.Protocol(steps=10)))",  # no bar
    "bars.SHOW_AFTER = bars.EVERY = 0.05",
    "found = mh.smallest(problem, options=few, time_limit=1.5)",
    "fitted = mh.fit(problem, heads=4, key_width=3, options=few)",  # too small: all attempts to their ends
    "capacity = mh.measure(task, heads=[1, 2, 4], seeds=2)",
    "bars.SHOW_AFTER = bars.EVERY = 0.005\n"  # a fast machine takes 0.15 s for this run
    "long = mh.Protocol(steps=60_000, stop_above=1.0)\n"
    "run = mh.Run(task, heads=4, key_width=6, seed=0, protocol=long)\n"
    "outcome = mh.train(run)",
    "seen = []\nwatched = mh.train(run, progress=lambda run, state: seen.append(state.step))",  # no bar
    "try:\n    mh.fit(4, problem)\nexcept TypeError as error:\n    told = str(error)",
    "import pickle",
)
BARS = {3: "smallest", 4: "fit", 5: "measure", 6: "train"}


def test_long_work_shows_a_bar_that_moves(tmp_path: Path) -> None:
    facts = {
        "same": "pickle.loads(pickle.dumps(mh.fit)) is mh.fit",
        "raw": "mh.fit.__wrapped__ is __import__('manyheads.fitting').fitting.fit",
        "trials": "len(found.trials)",
        "seen": "len(seen)",
        "equal": "watched.micro_f1 == outcome.micro_f1",
        "trained": "capacity.runs",
        "told": "told",
    }
    outputs, found, states = watch_notebook(CELLS, tmp_path, facts)
    assert {cell for cell, _ in states} == set(BARS)
    for cell, name in BARS.items():
        texts = [data["text/plain"] for at, data in states if at == cell]
        assert len(set(texts)) > 2  # the bar moved
        assert all(text.startswith(f"{name} ") for text in texts)
        assert "100%" in texts[-1]
        (output,) = outputs[cell]  # one output, replaced
        assert output.data["text/plain"] == texts[-1]
        assert output.data["text/html"].startswith("<pre")
        assert "<script" not in output.data["text/html"]
    last = {name: outputs[cell][0].data["text/plain"] for cell, name in BARS.items()}
    assert f" {found['trials']} trials, " in last["smallest"]
    assert "attempt 12" in last["fit"]
    assert f" {found['trained']} runs done" in last["measure"]
    assert "step 60,000, score" in last["train"]
    every = [text for _, data in states for text in data.values()]
    every += [output.get("text", "") for cell in outputs for output in cell]
    assert not any("\x1b" in text for text in every)
    assert [output for cell in outputs for output in cell if output.output_type == "stream"] == []
    assert found["same"]
    assert found["raw"]
    assert found["seen"] > 2
    assert found["equal"]
    assert "positional argument" in found["told"]


def test_the_text_of_a_bar_is_shown_not_obeyed(monkeypatch: pytest.MonkeyPatch) -> None:
    drawn: list[dict[str, str]] = []
    monkeypatch.setattr("IPython.display.display", lambda data, **_: drawn.append(data))
    monkeypatch.setattr(notebook_bar, "EVERY", 0.05)
    with notebook_bar.NotebookBar("fit") as bar:
        bar.show("a\x1b[2J\u202e<b>[red]b[/red]", done=1, total=2)
        while len(drawn) < 2:
            time.sleep(0.01)
    assert r"a\x1b[2J\u202e<b>[red]b[/red]" in drawn[1]["text/plain"]
    assert r"a\x1b[2J\u202e&lt;b&gt;[red]b[/red]" in drawn[1]["text/html"]


def test_a_plain_process_shows_nothing() -> None:
    ends = (
        "bars.SHOW_AFTER = 0.0\n"
        "mh.smallest(problem, options=few, time_limit=0.5)\nmh.measure(task, heads=[2], seeds=2)\n"
        "assert mh.smallest is __import__('manyheads.fitting').fitting.smallest"
    )
    imports = "import ipykernel, manyheads as mh, manyheads.notebook_bar as bars\n"  # the import makes no kernel
    done = subprocess.run([sys.executable, "-c", imports + WORK + ends], capture_output=True, text=True, timeout=120)
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")


def test_every_public_function_that_reports_is_watched() -> None:
    public = {name: getattr(manyheads, name) for name in manyheads.__all__}
    functions = {name: value for name, value in public.items() if inspect.isfunction(value)}
    reporting = {
        name for name, value in functions.items() if {"progress", "options"} & {*inspect.signature(value).parameters}
    }
    assert {"fit", "smallest", "measure", "train", "exclude", "certify"} <= reporting <= set(WATCHED) <= set(functions)
    assert all(with_bar(name, value) is value for name, value in functions.items())


@pytest.fixture
def kernel(monkeypatch: pytest.MonkeyPatch) -> list[dict[str, str]]:
    """A process that looks like a kernel; the states that it displays."""
    states: list[dict[str, str]] = []
    handle = SimpleNamespace(update=lambda data, raw: states.append(data))

    def display(data: dict[str, str], *, raw: bool, display_id: bool) -> Any:
        states.append(data)
        return handle

    monkeypatch.setattr(notebook_bar, "in_notebook", lambda: True)
    monkeypatch.setattr(notebook_bar, "EVERY", 0.05)
    monkeypatch.setattr(notebook_bar, "EVERY", 0.01)
    monkeypatch.setattr("IPython.display.display", display)
    return states


def test_a_bar_shows_how_far_the_work_is_and_escapes_its_text(kernel: list[dict[str, str]]) -> None:
    def work(progress: Any = None) -> None:
        bar.show("<b>[red]", done=1, total=4)
        while len(kernel) < 3:
            pass
        raise ValueError

    with pytest.raises(ValueError), notebook_bar.NotebookBar("work") as bar:  # noqa: PT011
        work()
    text, html = kernel[-1]["text/plain"], kernel[-1]["text/html"]
    assert "25%" in text  # it failed, and does not look complete
    assert "\x1b" not in text + html
    assert "<b>" not in html
    assert "[red]" in text


def test_a_user_who_watches_sees_no_bar(kernel: list[dict[str, str]]) -> None:
    # attempts that all fail: long enough for the thread of the bar to begin on a busy machine
    options = [fitting.FitOptions(restarts=6, progress=lambda state: None), fitting.FitOptions(restarts=6)]
    problem = manyheads.Problem(manyheads.permutation_graph(256, seed=0), manyheads.gaussian(256, 16, seed=1))
    counts = []
    for one in options:
        with_bar("fit", fitting.fit)(problem, heads=1, key_width=3, options=one)
        counts.append(len(kernel))
    assert counts[0] == 0 < counts[1]
