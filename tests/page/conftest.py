"""A browser for the tests of the page: Debian's chromium, driven by playwright."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from support.browser_tab import Tab

FLAGS = [
    "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-background-networking",
    "--disable-component-update", "--disable-sync",
]  # fmt: skip


@pytest.fixture(scope="session")
def page_file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    from manyheads.page import explore_page

    path = tmp_path_factory.mktemp("page") / "explore.html"
    path.write_text(explore_page(), encoding="utf-8")
    return path


@pytest.fixture(scope="session")
def browser() -> Iterator[Any]:
    api = pytest.importorskip("playwright.sync_api", reason="playwright, which drives the browser, is not installed")
    chromium = shutil.which("chromium")
    if chromium is None:
        pytest.skip("chromium, in which the page is tested, is not installed")
    with api.sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=chromium, args=FLAGS)
        yield browser
        browser.close()


@pytest.fixture
def tab(browser: Any, page_file: Path) -> Iterator[Tab]:
    context = browser.new_context(viewport={"width": 1280, "height": 900})
    tab = Tab(context.new_page())
    tab.open(page_file)
    yield tab
    tab.check_quiet()
    context.close()
