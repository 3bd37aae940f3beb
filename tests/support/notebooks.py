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
    wanted = ", ".join(f"{name!r}: ({expression})" for name, expression in (facts or {}).items())
    sources = [*cells, FACTS.format(wanted)]
    notebook = nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell(source) for source in sources])
    NotebookClient(
        notebook, timeout=180, kernel_name="python3", resources={"metadata": {"path": str(folder)}}
    ).execute()
    outputs = [list(cell.outputs) for cell in notebook.cells]
    return outputs[:-1], json.loads("".join(output.text for output in outputs[-1]))


def data_of(outputs: Sequence[Sequence[Any]], mime: str) -> list[str]:
    """The data of this kind in all outputs of all cells."""
    return [output.data[mime] for cell in outputs for output in cell if mime in output.get("data", {})]
