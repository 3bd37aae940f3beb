"""The page against the package: first paint, whole runs in chromium, and the engine's steps in node, in turns.

    python benchmarks/page.py [--rounds 5]

All times are by the clock, so they need a quiet machine. The ratio of the engines is of the best of many short turns,
one engine after the other, so that it says something on a busy machine too.
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
STEPS, TURNS = 100, 200
PROGRAM = """
import { readFileSync } from "node:fs";
import { createInterface } from "node:readline";
const page = process.argv[1];
const { Engine } = await import(page + "/engine.mjs");
const { runFields } = await import(page + "/run.mjs");
const engine = await Engine.load(readFileSync(page + "/engine.wasm"));
const run = JSON.parse(process.argv[2]);
const fields = runFields(run);
engine.begin(fields, engine.drawProblem(fields));
engine.advance(2000);
for await (const _ of createInterface({ input: process.stdin })) {
  const before = performance.now();
  engine.advance(run.advance);
  console.log((performance.now() - before) / 1000);
}
"""


PAINT = """() => new Promise((go) => new PerformanceObserver((list) => {
    const paint = list.getEntriesByName("first-contentful-paint")[0];
    if (paint) go(paint.startTime);
}).observe({ type: "paint", buffered: true }))"""


def run_of(shape: dict[str, int]) -> Run:
    task = Task(f"permutation:{shape['items']}", f"gaussian:{shape['d_model']}")
    steps = step_limit(items=shape["items"], d_model=shape["d_model"])
    return Run(task, heads=shape["heads"], key_width=shape["key_width"], seed=0, protocol=Protocol(steps=steps))


def step_times(shape: dict[str, int]) -> tuple[float, float]:
    """Seconds of one step in the package and in node: the best of many short turns."""
    run = run_of(shape)
    kernel = native_kernel(run, training_data(run))
    kernel.advance(2000)
    page = Path(__file__).parents[1] / "src/manyheads/page"
    values = shape | {"context": 16, "seed": 0, "rule": "max", "steps": 20_000, "advance": STEPS}
    node = shutil.which("node")
    assert node is not None, "node runs the page's engine here: install it"
    command = [node, "--input-type=module", "-e", PROGRAM, str(page), json.dumps(values)]
    native, browser = [], []
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as program:
        assert program.stdin is not None
        assert program.stdout is not None
        for _ in range(TURNS):
            begun = time.perf_counter()
            kernel.advance(STEPS)
            native.append(time.perf_counter() - begun)
            print(file=program.stdin, flush=True)
            browser.append(float(program.stdout.readline()))
        program.stdin.close()
    return min(native) / STEPS, min(browser) / STEPS


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
        native, page = step_times(shape)
        print(
            f"({shape['items']}, {shape['d_model']}): a step {1e6 * native:.2f} µs native, {1e6 * page:.2f} µs in "
            f"node; ratio {page / native:.2f} (goal 3.5)"
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
            paints.append(tab.evaluate(PAINT))
        print(f"first paint: {min(paints):.0f} ms at best, {median(paints):.0f} ms in the median (goal 1,000)")
        for shape in SHAPES:
            run = run_of(shape)
            times = []
            for _ in range(rounds):
                begun = time.perf_counter()
                train(run)
                here = time.perf_counter() - begun
                there, steps = browser_times(tab, shape)
                times.append((there * 20_000 / steps, there, here, steps))
            full, there, here, steps = min(times)
            print(
                f"({run.items}, {run.d_model}): a run of {steps:,} steps {there:.2f} s in chromium, {here:.2f} s in "
                f"the package with its certificate; 20,000 steps {full:.2f} s (goal {LIMITS[run.items]})"
            )
        browser.close()


if __name__ == "__main__":
    main()
