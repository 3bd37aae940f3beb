"""explore_page: the page as one HTML file. Modules, style, template and engine are put together as text."""

from __future__ import annotations

import base64
import re
from collections.abc import Iterable
from html import escape
from importlib.metadata import version
from importlib.resources import files

# A module comes after the modules that it imports.
PAGE_MODULES = ("laws.mjs", "run.mjs", "pictures.mjs", "sweep.mjs", "app.mjs")
WORKER_MODULES = ("engine.mjs", "worker.mjs")
START_WORKER = "const answer = serve((message) => postMessage(message));\nonmessage = (event) => answer(event.data);\n"
_IMPORT = re.compile(r'^import [^;]* from "\./[a-z]+\.mjs";\n', re.MULTILINE)
_EXPORT = re.compile(r"^export (?=class|const|function|async function)", re.MULTILINE)


def explore_page() -> str:
    """The page: it needs no other file, and asks nothing of the network.

    Returns:
        The text of an HTML file, about 0.4 MB.

    >>> page = explore_page()
    >>> page.startswith("<!doctype html>"), len(page) < 1_500_000
    (True, True)
    """
    parts = {
        "style": _text("page.css"),
        "version": escape(version("manyheads")),
        "engine": base64.b64encode(files(__package__).joinpath("engine.wasm").read_bytes()).decode(),
        "worker": joined_modules(WORKER_MODULES, end=START_WORKER),
        "script": joined_modules(PAGE_MODULES),
    }
    return re.sub(r"\{\{([a-z]+)\}\}", lambda match: parts[match[1]], _text("page.html"))


def joined_modules(names: Iterable[str], *, end: str = "") -> str:
    """Modules as one script: a page from a disk may not load modules, so imports and exports are taken out.

    Args:
        names: The files of the modules, each after the modules that it imports.
        end: Code that runs after the modules.

    Returns:
        A function that is called at once, so that no name of a module is global.
    """
    code = "".join(_EXPORT.sub("", _IMPORT.sub("", _text(name))) for name in names)
    return f'(() => {{\n"use strict";\n{code}{end}}})();\n'


def _text(name: str) -> str:
    return files(__package__).joinpath(name).read_text(encoding="utf-8")
