"""The page in a real browser: every slider, whole runs, a sweep, its look. Only `make test-page` runs these tests.

A machine without chromium or playwright skips them.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
from support.browser_tab import Tab, longest_task

from manyheads.training import Outcome, Protocol, Run, Task, train
from manyheads.training.protocol import step_limit


def run_of(
    *, items: int, d_model: int, heads: int, key_width: int, context: int, seed: int, key_heads: int | None = None
) -> Run:
    return Run(
        Task(f"permutation:{items}", f"gaussian:{d_model}", context=context),
        heads=heads,
        key_heads=key_heads,
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
    tab.choose(items=64, key_heads=3)  # 2 divides 4 heads
    assert tab.page.locator("output[for=key_heads]").text_content() == "2"
    assert run_of(**SLIDERS, key_heads=2).id in tab.text("advice")
    assert "--key-heads 2" in tab.text("command")
    laws = tab.facts("advice")
    assert "that share" in laws["advice"]  # as the sliders do
    assert float(laws["the paper's law"].split()[1]) == pytest.approx(28.56 * 2 / 3, abs=0.1)  # for as many weights
    tab.choose(key_heads=4)
    tab.choose(heads=8)  # own keys stay own keys
    assert run_of(**SLIDERS | {"heads": 8}).id in tab.text("advice")
    assert tab.page.locator("#key_heads").get_attribute("max") == "8"
    tab.choose(key_heads=2)
    tab.choose(heads=6)
    assert run_of(**SLIDERS | {"heads": 6}, key_heads=2).id in tab.text("advice")


def test_other_numbers_than_those_of_the_layer_are_said(tab: Tab) -> None:
    """Until the next run or fit, the pictures and the proof are of the numbers before."""
    tab.choose(items=32, d_model=8)
    tab.train()
    assert tab.text("stale") == ""
    tab.choose(seed=1)
    assert tab.text("stale").startswith("The controls have changed.")
    tab.choose(seed=0)
    assert tab.text("stale") == ""
    tab.choose(seed=1)
    tab.page.click("#step")
    tab.wait("status", "Go on and Step continue this run; Train begins a new one.")
    assert tab.text("stale") == ""


def ends_as(outcome: Outcome, tab: Tab, status: str) -> None:
    found = re.match(r"Test F1 ([0-9.]+): (\w+) after (\d+) steps", status)
    assert found is not None
    assert (found[2], int(found[3])) == (outcome.stopped, outcome.steps)
    assert float(found[1]) == pytest.approx(outcome.micro_f1, abs=2e-3)
    assert tab.text("verdict").startswith("refuted" if outcome.exact_errors else "holds")


@pytest.mark.parametrize(
    "values",
    [SLIDERS, {"items": 32, "d_model": 8, "heads": 1, "key_width": 4, "context": 16, "seed": 3},
     {"items": 48, "d_model": 16, "heads": 2, "key_width": 6, "context": 12, "seed": 1},
     {"items": 32, "d_model": 12, "heads": 4, "key_heads": 1, "key_width": 6, "context": 12, "seed": 1}],
)  # fmt: skip
def test_a_run_ends_as_in_the_package(tab: Tab, values: dict[str, int]) -> None:
    tab.choose(**values)
    ends_as(train(run_of(**values)), tab, tab.train())


def test_steps_and_stops_do_not_change_a_run(tab: Tab) -> None:
    for done in (500, 1000, 1500):
        tab.page.click("#step")
        tab.wait("status", f"Stopped at step {done} ")
        assert tab.page.locator("#training path.mark").count() == int(done == 500)  # one check is a point, more a line
    tab.page.click("#pause")  # Go on
    ends_as(train(run_of(**SLIDERS)), tab, tab.wait("status", "Test F1"))
    tab.choose(items=300, d_model=32)
    tab.page.evaluate("() => ['train', 'pause'].forEach((name) => document.getElementById(name).click())")
    tab.wait("status", "Stopped at step 500 ")
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
    painted = """() => {
        const matrix = document.getElementById("matrix");
        const {width, height} = matrix;
        return matrix.toDataURL() !== Object.assign(document.createElement("canvas"), {width, height}).toDataURL();
    }"""
    tab.train()
    while not tab.page.evaluate(painted):
        tab.page.wait_for_timeout(20)
    tab.page.select_option("#rule", "softmax")
    tab.train()
    tab.wait("verdict", "manyheads certify --context-length")
    tab.page.check("#by-head")
    tab.wait("matrix-note", "there is no picture of all pairs")
    tab.page.wait_for_timeout(200)
    assert not tab.page.evaluate(painted)  # the picture of the layer before is gone


def test_a_sweep_can_be_stopped_and_goes_on(tab: Tab) -> None:
    tab.choose(items=40, d_model=16)
    tab.page.click("#sweep")
    while not re.match(r"[3-9] of", tab.text("sweep-status")):
        tab.page.wait_for_timeout(5)
    tab.page.evaluate("document.getElementById('stop-sweep').click()")
    stopped = re.match(r"Stopped: (\d+) of (\d+)", tab.text("sweep-status"))
    assert stopped is not None
    done, runs = int(stopped[1]), int(stopped[2])
    assert 3 <= done < runs
    assert tab.page.locator("#curve path.mark").count() >= done
    tab.page.click("#sweep")
    tab.wait("sweep-status", f"Done: {runs} of {runs}")
    assert sum(map(int, tab.page.locator("#points tbody tr td:last-child").all_text_contents())) == runs
    assert tab.page.locator(".law-name", has_text="measured here").count() == 1
    for heads in (3, 5):
        tab.choose(heads=heads, key_width=4)
        tab.train()
    keys = "[...document.querySelectorAll('#curve .keys li')].map((one) => one.querySelector('svg').outerHTML)"
    looks = tab.page.evaluate(keys)
    assert len(set(looks)) == len(looks) == 6  # a mark and a colour for each of 1, 2, 3, 4, 5 and 8 heads
    # names of laws are above all lines, which would cross them
    order = "[...document.querySelectorAll('#curve .law, #curve .law-name')].map((one) => one.tagName).join(' ')"
    assert re.fullmatch(r"(line ?)+(text ?)+", tab.page.evaluate(order))
    tab.choose(seed=5)
    assert tab.text("sweep-status") == ""
    told = tab.page.evaluate("""() => {
        const at = (id) => document.getElementById(id);
        at("sweep").click();
        at("seed").value = 0;
        at("seed").dispatchEvent(new Event("input", { bubbles: true }));
        const running = at("sweep-status").textContent;
        at("stop-sweep").click();
        return [running, at("sweep-status").textContent];
    }""")
    assert told == [f"0 of {runs} runs of the problem where it began", ""]


@pytest.mark.parametrize("change", [{}, {"heads": 1, "key_width": 2}])
def test_a_fit_ends_with_its_certificate(tab: Tab, change: dict[str, int]) -> None:
    tab.choose(items=32, d_model=8, heads=4, key_width=4)
    tab.choose(**change)
    tab.page.click("#fit")
    tab.page.locator("#status", has_text=re.compile("[Cc]ertified ")).wait_for()
    assert tab.text("status").startswith("Not certified in 12 attempts" if change else "Certified after")
    assert tab.text("verdict").startswith("refuted" if change else "holds")
    assert sum(int(row[1]) for row in tab.rows("holders")) <= 32
    assert "wrong pairs, attempt" in tab.text("training")
    assert tab.page.locator("#training polyline").count() == 1
    tab.page.select_option("#rule", "softmax")
    tab.page.click("#fit")
    tab.wait("status", "A fit makes layers of the rule max")
    tab.page.select_option("#rule", "max")
    tab.train()
    assert "validation F1" in tab.text("training")


def test_a_fit_can_be_stopped(tab: Tab) -> None:
    tab.choose(items=300, d_model=16, heads=2, key_width=4)
    tab.page.click("#fit")
    tab.wait("status", "attempt 1, step")
    tab.page.click("#pause")
    tab.wait("status", "The fit was stopped.")
    tab.choose(items=32)
    tab.train()


def test_heads_have_their_own_colours(tab: Tab) -> None:
    tab.train()
    colours = """() => {
        const canvas = document.getElementById("matrix");
        const {data} = canvas.getContext("2d").getImageData(0, 0, canvas.width, canvas.height);
        const found = new Set();
        for (let n = 0; n < data.length; n += 4) found.add(data.slice(n, n + 3).join());
        return [...found];
    }"""
    before = tab.page.evaluate("document.getElementById('matrix').toDataURL()")
    tab.page.check("#by-head")
    while tab.page.evaluate("document.getElementById('matrix').toDataURL()") == before:
        tab.page.wait_for_timeout(20)
    assert set(tab.page.evaluate(colours)) >= {"11,92,173", "166,61,0", "26,107,60", "122,46,160"}
    assert tab.text("matrix-note").endswith("■ head 0 ■ head 1 ■ head 2 ■ head 3.")
    tab.page.uncheck("#by-head")
    assert tab.text("matrix-note") == ""


def test_500_items_never_block_the_page(browser: Any, page_file: Path) -> None:
    """The longest task of the main thread stays below 100 ms: training, the matrix, a sweep, the paper's rows."""
    context = browser.new_context(viewport={"width": 1280, "height": 900})
    tab = Tab(context.new_page())
    browser.start_tracing(
        page=tab.page, categories=["toplevel", "devtools.timeline", "disabled-by-default-devtools.timeline"]
    )
    tab.open(page_file)
    tab.choose(items=500, d_model=16, heads=8, key_width=16)
    tab.page.click("#train")
    tab.page.locator("#status", has_text=re.compile(r"Training: step \d{4,}")).wait_for()
    tab.page.check("#by-head")
    tab.page.click("#sweep")
    tab.choose(d_model=64)
    tab.page.click("#pause")
    tab.wait("verdict", "refuted")
    tab.page.click("#stop-sweep")
    tab.page.locator("#paper").scroll_into_view_if_needed()
    tab.page.locator("#paper-claims tbody tr").first.wait_for()
    tab.page.select_option("#paper-figure", "beyond_freedom")
    longest = longest_task(browser.stop_tracing())
    tab.check_quiet()
    context.close()
    assert longest < 100


CONTRAST = """() => {
    const light = (text) => {
        const parts = text.match(/[0-9.]+/g).slice(0, 3).map((n) => n / 255);
        const [r, g, b] = parts.map((c) => c <= 0.04045 ? c / 12.92 : ((c + 0.055) / 1.055) ** 2.4);
        return 0.2126 * r + 0.7152 * g + 0.0722 * b;
    };
    const under = (node) => {
        for (let one = node; one; one = one.parentElement) {
            const colour = getComputedStyle(one).backgroundColor;
            if (!/, 0\\)$|transparent/.test(colour)) return colour;
        }
        return "rgb(255, 255, 255)";
    };
    const wrong = [];
    for (const node of document.querySelectorAll("body *")) {
        const text = [...node.childNodes].some((child) => child.nodeType === 3 && child.textContent.trim());
        if (!text || !node.checkVisibility() || node.closest(":disabled, script, noscript, option")) continue;
        const style = getComputedStyle(node);
        const front = node.closest("svg") ? style.fill : style.color;
        const [a, b] = [light(front), light(under(node))].sort((one, other) => one - other);
        if ((b + 0.05) / (a + 0.05) < 4.5)
            wrong.push(`${node.tagName} ${node.textContent.slice(0, 30)} ${front} on ${under(node)}`);
    }
    return wrong;
}"""
NAMELESS = """() => {
    const controls = document.querySelectorAll("input, select, button, canvas, progress, svg[role], a[href]");
    const named = (node) => node.labels?.length || node.getAttribute("aria-label") || node.textContent.trim();
    const hidden = (node) => node.closest("[aria-hidden=true]");
    return [...controls].filter((node) => !hidden(node) && !named(node)).map((node) => node.outerHTML);
}"""


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("width", [390, 1280, 1920])
def test_the_page_is_readable(browser: Any, page_file: Path, tmp_path: Path, scheme: str, width: int) -> None:
    """No sideways scroll; every text has the contrast of WCAG AA; every control has a name; a picture of the page."""
    context = browser.new_context(viewport={"width": width, "height": 844}, color_scheme=scheme)
    tab = Tab(context.new_page())
    tab.open(page_file)
    tab.train()
    tab.page.click("#look")
    tab.wait("pair-answer", "Margin")
    tab.page.locator("#paper").scroll_into_view_if_needed()
    tab.page.locator("#paper-claims tbody tr").first.wait_for()
    tab.page.locator("#paper-picture path.mark").first.focus()
    assert tab.page.evaluate("document.documentElement.scrollWidth") <= width
    laws = tab.page.locator("#curve li.law-name").all_text_contents()  # below a narrow picture, else within it
    assert len(laws) == (3 if width == 390 else 0), laws
    overhang = """() => [...document.querySelectorAll(".picture svg[role] text")].filter((text) => {
        const [inner, outer] = [text, text.ownerSVGElement].map((one) => one.getBoundingClientRect());
        return inner.left < outer.left - 1 || inner.right > outer.right + 1;
    }).map((text) => text.textContent)"""
    assert tab.page.evaluate(overhang) == []
    assert tab.page.evaluate(CONTRAST) == []
    assert tab.page.evaluate(NAMELESS) == []
    picture = tmp_path / f"page-{scheme}-{width}.png"
    tab.page.screenshot(path=picture, full_page=True)
    assert picture.stat().st_size > 50_000
    tab.check_quiet()
    context.close()


def test_the_keyboard_is_enough(tab: Tab) -> None:
    """Tab reaches the controls in their order, Enter trains, and the focus is seen."""
    tab.page.locator("nav a").last.focus()
    reached = []
    for _ in range(9):
        tab.page.keyboard.press("Tab")
        reached.append(tab.page.evaluate("document.activeElement.id"))
    assert reached == ["items", "d_model", "heads", "key_heads", "key_width", "context", "seed", "rule", "train"]
    assert tab.page.evaluate("getComputedStyle(document.activeElement).outlineStyle") == "solid"
    tab.page.keyboard.press("Enter")
    tab.wait("status", "Test F1")


def test_the_paper_is_searched_and_its_points_have_runs(tab: Tab) -> None:
    from manyheads.papers.publication import paper

    tab.page.locator("#paper").scroll_into_view_if_needed()
    tab.page.locator("#paper-claims tbody tr").first.wait_for()
    assert re.search(r"claims of two papers: \d+ reproduced, \d+ differ[.,]", tab.text("paper-parts"))
    assert not tab.page.locator("#paper-panel").is_visible()  # this figure has one problem
    told = {row[0]: row[3] for row in tab.rows("paper-claims")}
    verdict = paper(claim=6).verdicts[0]
    assert told["6"].endswith(verdict.outcome)
    tab.page.select_option("#paper-verdict", "differs")
    assert {row[3] for row in tab.rows("paper-claims")} == {"≠ differs"}
    tab.page.fill("#paper-search", "no such words")
    assert tab.rows("paper-claims") == []
    tab.page.select_option("#paper-figure", "fig1")
    keys = "[...document.querySelectorAll('#paper-picture .keys li')].map((one) => one.querySelector('svg').outerHTML)"
    looks = tab.page.evaluate(keys)
    assert len(set(looks)) == len(looks) == 7  # a mark and a colour for each of 1 to 64 heads
    mark = tab.page.locator("#paper-picture path.mark").first
    mark.hover()
    runs = tab.rows("paper-runs")
    point = next(
        one
        for one in paper("fig1").points
        if one["heads"] == 1 and f"D_K {one['key_budget']}:" in tab.text("paper-runs")
    )
    assert len(runs) == point["seeds"]
    scores = [float(row[1]) for row in runs]
    assert sum(scores) / len(scores) == pytest.approx(point["micro_f1"], abs=1e-3)
    all_points = tab.page.locator("#paper-picture path.mark").count()
    tab.page.select_option("#paper-series", "4")
    assert 0 < tab.page.locator("#paper-picture g.series path.mark").count() < all_points
    for name in ("floor", "bits"):
        tab.page.select_option("#paper-figure", name)
        assert tab.page.locator("#paper-picture g.series path.mark").count() > 30
