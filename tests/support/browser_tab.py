"""Tab: the page in one tab of a browser, with everything that the browser said."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

LONG = 120_000  # milliseconds: other programs may use the cores


class Tab:
    """The page in one tab, with its messages on the console and its requests."""

    def __init__(self, page: Any) -> None:
        self.page = page
        self.said: list[str] = []
        self.asked: list[str] = []
        page.set_default_timeout(LONG)
        page.on("console", lambda message: self.said.append(message.text))
        page.on("pageerror", lambda error: self.said.append(str(error)))
        page.on("request", lambda request: self.asked.append(request.url))
        page.on("dialog", lambda dialog: self.said.append(f"dialog {dialog.message}"))

    def open(self, path: Path) -> None:
        self.page.goto(path.as_uri())
        self.wait("status", "Ready")

    def wait(self, name: str, text: str) -> str:
        self.page.locator(f"#{name}", has_text=text).wait_for(timeout=LONG, state="attached")
        return self.text(name)

    def text(self, name: str) -> str:
        return str(self.page.locator(f"#{name}").text_content())

    def choose(self, **values: int) -> None:
        for name, value in values.items():
            self.page.locator(f"#{name}").fill(str(value))

    def train(self) -> str:
        self.page.click("#train")
        return self.wait("status", "Test F1")

    def give(self, *files: tuple[str, bytes]) -> str:
        """Give files to the page; its sentences about them."""
        self.page.evaluate("document.getElementById('own-status').textContent = ''")
        self.page.set_input_files(
            "#files", [{"name": name, "mimeType": "text/csv", "buffer": content} for name, content in files]
        )
        while self.text("own-status") in ("", "The files are being read."):
            self.page.wait_for_timeout(20)
        return self.text("own-status")

    def facts(self, name: str) -> dict[str, str]:
        """The names and texts of a list."""
        terms, texts = (self.page.locator(f"#{name} {kind}").all_text_contents() for kind in ("dt", "dd"))
        return dict(zip(terms, texts, strict=True))

    def rows(self, name: str) -> list[list[str]]:
        """The cells of a table's body."""
        lines = self.page.locator(f"#{name} tbody tr").all()
        return [line.locator("th, td").all_text_contents() for line in lines]

    def check_quiet(self) -> None:
        """No message, and no request to anywhere."""
        assert self.said == []
        assert all(url.startswith(("file:", "blob:", "data:")) for url in self.asked), self.asked


def longest_task(trace: bytes) -> float:
    """The longest task of the page's main thread in a trace: milliseconds of processor time.

    Processor time does not depend on other programs. A task without it counts by the clock.
    """
    events = json.loads(trace)["traceEvents"]
    names = {(one["pid"], one["tid"]): one["args"]["name"] for one in events if one.get("name") == "thread_name"}
    tasks = [
        one.get("tdur", one.get("dur", 0))
        for one in events
        if one.get("ph") == "X"
        and one["name"].endswith("RunTask")
        and names.get((one["pid"], one["tid"])) == "CrRendererMain"
    ]
    assert tasks
    return float(max(tasks)) / 1000
