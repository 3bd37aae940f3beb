"""The shape of the source tree: names that stand for one thing, files of a readable size."""

from __future__ import annotations

import ast
from collections import Counter, defaultdict
from importlib import import_module
from pathlib import Path
from statistics import median

import pytest

SOURCE = Path(__file__).parents[2] / "src" / "manyheads"
STANDALONE = SOURCE / "files" / "standalone"  # copied to users, not imported
MODULES = sorted(path for path in SOURCE.rglob("*.py") if STANDALONE not in path.parents)
# Counted are all .py files of the package, __init__.py included, without the two that are copied to users. The redesign
# ended with 190. Since then came proofs, bounds, checks of files and streams, latents, the page, certificates in mixed
# precision, searches on any workers, the fit in torch, and bars in notebooks (1 module, 170 lines). The median is that
# of the files that are not __init__.py.
MOST_MODULES, LONGEST, MEDIAN = 218, 350, (110, 186)
# Lines without docstrings, comments and empty lines: the first edition had 18,262, the redesign ended with 18,084.
MOST_CODE = 24_330


NAMES = ("max", "softmax", "sum", "logsumexp")


def lines(path: Path) -> int:
    return len(path.read_text().splitlines())


def code_lines(path: Path) -> int:
    """Lines that are neither empty, nor comments, nor docstrings."""
    text = path.read_text()
    in_docstring: set[int] = set()
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef) and ast.get_docstring(node) is not None:
            in_docstring.update(range(node.body[0].lineno, (node.body[0].end_lineno or 0) + 1))
    stripped = (line.strip() for line in text.splitlines())
    return sum(
        bool(line) and not line.startswith("#") and number not in in_docstring
        for number, line in enumerate(stripped, start=1)
    )


def test_no_class_name_stands_for_two_things() -> None:
    places: dict[str, list[str]] = defaultdict(list)
    for path in MODULES:
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.ClassDef):
                places[node.name].append(str(path.relative_to(SOURCE)))
    assert {name: found for name, found in places.items() if len(found) > 1} == {}


def test_a_module_name_repeats_only_in_a_command_or_a_picture() -> None:
    """A command, its table and a picture may be named after the room or module that they show."""
    shown = {SOURCE / "cli" / "commands", SOURCE / "cli" / "render", SOURCE / "drawing"}
    names = Counter(path.stem for path in MODULES if path.stem != "__init__" and path.parent not in shown)
    assert [name for name, count in names.items() if count > 1] == []


def test_the_package_has_few_modules_of_a_readable_size() -> None:
    sizes = {path: lines(path) for path in MODULES}
    assert len(MODULES) <= MOST_MODULES
    assert sum(map(code_lines, MODULES)) <= MOST_CODE
    assert {str(path): size for path, size in sizes.items() if size > LONGEST} == {}
    least, most = MEDIAN
    assert least <= median(size for path, size in sizes.items() if path.name != "__init__.py") <= most


@pytest.mark.parametrize("path", MODULES, ids=lambda path: str(path.relative_to(SOURCE)))
def test_a_public_function_never_hides_a_module(path: Path) -> None:
    """A package that exports a function with the name of one of its modules hides that module."""
    if path.name != "__init__.py":
        return
    beside = {other.stem for other in path.parent.glob("*.py")} | {
        other.name for other in path.parent.iterdir() if other.is_dir()
    }
    room = ".".join(["manyheads", *path.parent.relative_to(SOURCE).parts])
    exported = set(getattr(import_module(room), "__all__", ()))
    assert beside & exported - {"construct"} == set()  # the room construct is public itself


def test_no_rule_is_compared_with_a_string() -> None:
    """A rule is an object: only the rules themselves and the file format know its name."""
    places = []
    for path in MODULES:
        if path == SOURCE / "layer" / "rules.py":
            continue
        for node in ast.walk(ast.parse(path.read_text())):
            if not isinstance(node, ast.Compare):
                continue
            sides = [node.left, *node.comparators]
            named = any(isinstance(side, ast.Constant) and side.value in NAMES for side in sides)
            if named and "rule" in ast.unparse(node):
                places.append(f"{path.relative_to(SOURCE)}:{node.lineno}")
    assert places == []
