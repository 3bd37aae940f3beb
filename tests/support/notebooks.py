"""Notebooks in tests: cells run in a real Jupyter kernel, in a new folder, with the outputs that a reader sees."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import nbformat
from nbclient import NotebookClient

FACTS = "import json as _json; print(_json.dumps({{{}}}, default=str))"


def run_notebook(
    cells: Sequence[str], folder: Path, facts: dict[str, str] | None = None
) -> tuple[list[list[Any]], dict[str, Any]]:
    """Run cells in a new kernel.

    Args:
        cells: The code of each cell.
        folder: The folder in which the kernel runs.
        facts: Names, and the expressions that are evaluated in the kernel after the last cell.

    Returns:
        The outputs of each cell, and the values of the facts, which went through JSON.
    """
    outputs, found, _ = watch_notebook(cells, folder, facts)
    return outputs, found


class _Watcher(NotebookClient):
    """A client that keeps every state of every output, also of those that are replaced later."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.states: list[tuple[int, dict[str, str]]] = []

    def process_message(self, msg: dict[str, Any], cell: Any, cell_index: int) -> Any:
        if msg["msg_type"] in ("display_data", "update_display_data"):
            self.states.append((cell_index, msg["content"]["data"]))
        return super().process_message(msg, cell, cell_index)


def watch_notebook(
    cells: Sequence[str], folder: Path, facts: dict[str, str] | None = None
) -> tuple[list[list[Any]], dict[str, Any], list[tuple[int, dict[str, str]]]]:
    """Run cells in a new kernel, as `run_notebook` does.

    Returns:
        As `run_notebook`; and every state of every displayed output: the number of its cell, and its data by kind.
    """
    wanted = ", ".join(f"{name!r}: ({expression})" for name, expression in (facts or {}).items())
    sources = [*cells, FACTS.format(wanted)]
    notebook = nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell(source) for source in sources])
    client = _Watcher(notebook, timeout=180, kernel_name="python3", resources={"metadata": {"path": str(folder)}})
    client.execute()
    outputs = [list(cell.outputs) for cell in notebook.cells]
    return outputs[:-1], json.loads("".join(output.text for output in outputs[-1])), client.states


def data_of(outputs: Sequence[Sequence[Any]], mime: str) -> list[str]:
    """The data of this kind in all outputs of all cells."""
    return [output.data[mime] for cell in outputs for output in cell if mime in output.get("data", {})]
