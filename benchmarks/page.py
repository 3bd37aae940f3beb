"""The page against the package: first paint, whole runs in chromium, and the engine's steps in node, in turns.

    python benchmarks/page.py [--rounds 5]

Runs in the browser are by the clock, so they need a quiet machine. The ratio of the engines is of processor time, each
round one after the other, so that it says something on a busy machine too.
"""

from __future__ import annotations

import argparse
import json
import shutil
import subprocess
import tempfile
import time
from pathlib import Path
from statistics import median
from typing import Any

from manyheads.page import explore_page
from manyheads.training import Protocol, Run, Task, train
from manyheads.training.data import training_data
from manyheads.training.engines import native_kernel
from manyheads.training.protocol import step_limit

SHAPES = [
    {"items": 64, "d_model": 16, "heads": 4, "key_width": 5},
    {"items": 256, "d_model": 32, "heads": 4, "key_width": 13},
]
LIMITS = {64: 0.5, 256: 1.5}  # seconds of a run of 20,000 steps at most
STEPS = 4_000
PROGRAM = """
import { readFileSync } from "node:fs";
const page = process.argv[1];
const { Engine } = await import(page + "/engine.mjs");
const { runFields } = await import(page + "/run.mjs");
const engine = await Engine.load(readFileSync(page + "/engine.wasm"));
const run = JSON.parse(process.argv[2]);
const fields = runFields(run);
engine.begin(fields, engine.drawProblem(fields));
engine.advance(500);
const before = process.cpuUsage();
engine.advance(run.advance);
const { user, system } = process.cpuUsage(before);
process.stdout.write(String((user + system) / 1e6));
"""


def run_of(shape: dict[str, int]) -> Run:
    task = Task(f"permutation:{shape['items']}", f"gaussian:{shape['d_model']}")
    steps = step_limit(items=shape["items"], d_model=shape["d_model"])
    return Run(task, heads=shape["heads"], key_width=shape["key_width"], seed=0, protocol=Protocol(steps=steps))


def native_seconds(run: Run) -> float:
    kernel = native_kernel(run, training_data(run))
    kernel.advance(500)
    before = time.process_time()
    kernel.advance(STEPS)
    return time.process_time() - before


def page_seconds(shape: dict[str, int]) -> float:
    page = Path(__file__).parents[1] / "src/manyheads/page"
    values = shape | {"context": 16, "seed": 0, "rule": "max", "steps": 20_000, "advance": STEPS}
    node = shutil.which("node")
    assert node is not None, "node runs the page's engine here: install it"
    command = [node, "--input-type=module", "-e", PROGRAM, str(page), json.dumps(values)]
    return float(subprocess.run(command, capture_output=True, text=True, check=True).stdout)


def browser_times(tab: Any, shape: dict[str, int]) -> tuple[float, int]:
    """Seconds from the button to the end of a run, and its steps."""
    for name, value in shape.items():
        tab.locator(f"#{name}").fill(str(value))
    tab.evaluate("""() => { const status = document.getElementById("status");
        window.ended = new Promise((go) => new MutationObserver(() => {
            if (status.textContent.startsWith("Test F1")) go(performance.now());
        }).observe(status, {childList: true})); }""")
    begun = tab.evaluate(
        "() => { const now = performance.now(); document.getElementById('train').click(); return now; }"
    )
    ended = tab.evaluate("window.ended")
    words = str(tab.locator("#status").text_content()).split(" after ")[1]
    return (ended - begun) / 1000, int(words.split()[0])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=5)
    rounds = parser.parse_args().rounds
    for shape in SHAPES:
        run = run_of(shape)
        pairs = [(native_seconds(run), page_seconds(shape)) for _ in range(rounds)]
        native, page = (min(times) for times in zip(*pairs, strict=True))
        ratios = median(there / here for here, there in pairs)
        print(
            f"({run.items}, {run.d_model}): a step {1e6 * native / STEPS:.1f} µs native, {1e6 * page / STEPS:.1f} µs "
            f"in node; ratio {page / native:.2f} of the best, {ratios:.2f} in the median (goal 3.5)"
        )
    from playwright.sync_api import sync_playwright

    chromium = shutil.which("chromium")
    assert chromium is not None, "the page runs in chromium here: install it"
    with tempfile.TemporaryDirectory() as folder, sync_playwright() as playwright:
        path = Path(folder) / "explore.html"
        path.write_text(explore_page(), encoding="utf-8")
        browser = playwright.chromium.launch(executable_path=chromium, args=["--no-sandbox", "--disable-gpu"])
        paints = []
        for _ in range(rounds):
            tab = browser.new_page()
            tab.goto(path.as_uri())
            tab.locator("#status", has_text="Ready").wait_for()
            paints.append(tab.evaluate("performance.getEntriesByName('first-contentful-paint')[0].startTime"))
        print(f"first paint: {min(paints):.0f} ms at best, {median(paints):.0f} ms in the median (goal 1,000)")
        for shape in SHAPES:
            run = run_of(shape)
            times = []
            for _ in range(rounds):
                begun = time.perf_counter()
                train(run)
                here = time.perf_counter() - begun
                there, steps = browser_times(tab, shape)
                times.append((there * run.steps / steps, there, here, steps))
            full, there, here, steps = min(times)
            print(
                f"({run.items}, {run.d_model}): a run of {steps:,} steps {there:.2f} s in chromium, {here:.2f} s in "
                f"the package with its certificate; 20,000 steps {full:.2f} s (goal {LIMITS[run.items]})"
            )
        browser.close()


if __name__ == "__main__":
    main()
