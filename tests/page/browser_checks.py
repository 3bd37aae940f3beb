"""The page in a real browser: every slider, whole runs, a sweep, certificates. Only `make test-page` runs them.

A machine without chromium or playwright skips them.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from manyheads.training import Outcome, Protocol, Run, Task, train
from manyheads.training.protocol import step_limit

LONG = 60_000  # milliseconds


class Tab:
    """The page in one tab, with all that the browser said."""

    def __init__(self, page: Any) -> None:
        self.page = page
        self.said: list[str] = []
        self.asked: list[str] = []
        page.on("console", lambda message: self.said.append(message.text))
        page.on("pageerror", lambda error: self.said.append(str(error)))
        page.on("request", lambda request: self.asked.append(request.url))

    def open(self, path: Path) -> None:
        self.page.goto(path.as_uri())
        self.wait("status", "Ready")

    def wait(self, name: str, text: str) -> str:
        self.page.locator(f"#{name}", has_text=text).wait_for(timeout=LONG)
        return self.text(name)

    def text(self, name: str) -> str:
        return str(self.page.locator(f"#{name}").text_content())

    def choose(self, **values: int) -> None:
        for name, value in values.items():
            self.page.locator(f"#{name}").fill(str(value))

    def train(self) -> str:
        self.page.click("#train")
        return self.wait("status", "Test F1")


@pytest.fixture
def tab(browser: Any, page_file: Path) -> Iterator[Tab]:
    context = browser.new_context(viewport={"width": 1280, "height": 900})
    tab = Tab(context.new_page())
    tab.open(page_file)
    yield tab
    assert tab.said == []
    assert all(url.startswith(("file:", "blob:", "data:")) for url in tab.asked)
    context.close()


def run_of(*, items: int, d_model: int, heads: int, key_width: int, context: int, seed: int) -> Run:
    return Run(
        Task(f"permutation:{items}", f"gaussian:{d_model}", context=context),
        heads=heads,
        key_width=key_width,
        seed=seed,
        protocol=Protocol(steps=step_limit(items=items, d_model=d_model)),
    )


SLIDERS = {"items": 64, "d_model": 16, "heads": 4, "key_width": 5, "context": 16, "seed": 0}


def test_every_slider_changes_the_run(tab: Tab) -> None:
    assert run_of(**SLIDERS).id in tab.text("advice")
    for name in SLIDERS:
        slider = tab.page.locator(f"#{name}")
        slider.press("ArrowRight")
        values = SLIDERS | {name: SLIDERS[name] + 1}
        assert tab.page.locator(f"output[for={name}]").text_content() == str(values[name])
        assert run_of(**values).id in tab.text("advice")
        slider.press("ArrowLeft")
    tab.choose(items=8)
    assert run_of(**SLIDERS | {"items": 8, "context": 8}).id in tab.text("advice")


def ends_as(outcome: Outcome, tab: Tab, status: str) -> None:
    found = re.match(r"Test F1 ([0-9.]+): (\w+) after (\d+) steps", status)
    assert found is not None
    assert (found[2], int(found[3])) == (outcome.stopped, outcome.steps)
    assert float(found[1]) == pytest.approx(outcome.micro_f1, abs=2e-3)
    assert tab.text("verdict").startswith("refuted" if outcome.exact_errors else "holds")


@pytest.mark.parametrize(
    "values",
    [SLIDERS, {"items": 32, "d_model": 8, "heads": 1, "key_width": 4, "context": 16, "seed": 3},
     {"items": 48, "d_model": 16, "heads": 2, "key_width": 6, "context": 12, "seed": 1}],
)  # fmt: skip
def test_a_run_ends_as_in_the_package(tab: Tab, values: dict[str, int]) -> None:
    tab.choose(**values)
    ends_as(train(run_of(**values)), tab, tab.train())


def test_steps_and_stops_do_not_change_a_run(tab: Tab) -> None:
    for done in (500, 1000, 1500):
        tab.page.click("#step")
        tab.wait("status", f"Stopped at step {done} ")
    tab.page.click("#pause")  # Go on
    ends_as(train(run_of(**SLIDERS)), tab, tab.wait("status", "Test F1"))
    tab.choose(items=300, d_model=32)  # not ended at once
    tab.page.click("#train")
    tab.page.click("#pause")
    tab.wait("status", "Stopped at step")
    tab.wait("verdict", "refuted")


def test_a_wrong_pair_is_shown(tab: Tab) -> None:
    tab.choose(heads=1, key_width=2)
    tab.train()
    assert "refuted" in tab.text("verdict")
    tab.page.click("#witness")
    assert "wrong. Margin -" in tab.wait("pair-answer", "wrong. Margin")
    assert tab.page.locator("#pair-answer tbody tr").count() == 1
    tab.page.click("#matrix", position={"x": 2, "y": 2})
    tab.wait("pair-answer", "0 → 0 is")
    tab.choose(source=64)
    tab.page.locator("#source").press("Enter")
    tab.wait("pair-answer", "an item is a whole number from 0 to 63.")
    rows = tab.page.locator("#holders td").all_text_contents()
    assert len(rows) == 1
    assert 0 < int(rows[0]) < 64


def test_softmax_trains_and_says_where_it_is_proved(tab: Tab) -> None:
    tab.choose(items=16, d_model=8, context=8)
    tab.page.select_option("#rule", "softmax")
    tab.train()
    tab.wait("verdict", "manyheads certify --context-length")


def test_a_sweep_can_be_stopped_and_goes_on(tab: Tab) -> None:
    tab.choose(items=24, d_model=8)
    tab.page.click("#sweep")
    tab.wait("sweep-status", "3 of")
    tab.page.click("#stop-sweep")
    stopped = re.match(r"Stopped: (\d+) of (\d+)", tab.text("sweep-status"))
    assert stopped is not None
    done, runs = int(stopped[1]), int(stopped[2])
    assert 3 <= done < runs
    assert tab.page.locator("#curve path.mark").count() >= done
    tab.page.click("#sweep")
    tab.wait("sweep-status", f"Done: {runs} of {runs}")
    assert sum(map(int, tab.page.locator("#points tbody tr td:last-child").all_text_contents())) == runs
    assert tab.page.locator(".law-name", has_text="measured here").count() == 1


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_a_phone_needs_no_sideways_scroll(browser: Any, page_file: Path, scheme: str) -> None:
    context = browser.new_context(viewport={"width": 390, "height": 844}, color_scheme=scheme, bypass_csp=True)
    tab = Tab(context.new_page())
    tab.open(page_file)
    tab.train()
    assert tab.page.evaluate("document.documentElement.scrollWidth") <= 390
    assert tab.said == []
    context.close()
