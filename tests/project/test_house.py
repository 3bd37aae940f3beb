"""The shape of the source tree: names that stand for one thing, files of a readable size."""

from __future__ import annotations

import ast
from collections import Counter, defaultdict
from pathlib import Path
from statistics import median

import pytest

SOURCE = Path(__file__).parents[2] / "src" / "manyheads"
STANDALONE = SOURCE / "files" / "exports" / "standalone"  # copied to users, not imported
MODULES = sorted(path for path in SOURCE.rglob("*.py") if STANDALONE not in path.parents)
MOST_MODULES, MOST_LINES, LONGEST = 190, 25_237, 350


def lines(path: Path) -> int:
    return len(path.read_text().splitlines())


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
    assert sum(sizes.values()) <= MOST_LINES
    assert {str(path): size for path, size in sizes.items() if size > LONGEST} == {}
    assert 110 <= median(size for path, size in sizes.items() if path.name != "__init__.py") <= 180


@pytest.mark.parametrize("path", MODULES, ids=lambda path: str(path.relative_to(SOURCE)))
def test_a_public_function_never_hides_a_module(path: Path) -> None:
    """A package that exports a function with the name of one of its modules hides that module."""
    if path.name != "__init__.py":
        return
    beside = {other.stem for other in path.parent.glob("*.py")} | {
        other.name for other in path.parent.iterdir() if other.is_dir()
    }
    exported = [
        ast.literal_eval(node.value)
        for node in ast.parse(path.read_text()).body
        if isinstance(node, ast.Assign) and any(isinstance(t, ast.Name) and t.id == "__all__" for t in node.targets)
    ]
    assert beside & {name for names in exported for name in names} == set()


def test_no_rule_is_compared_with_a_string() -> None:
    """A rule is an object: only the rules themselves and the file format know its name."""
    places = []
    for path in MODULES:
        if path == SOURCE / "layer" / "rules.py":
            continue
        for node in ast.walk(ast.parse(path.read_text())):
            sides = [node.left, *node.comparators] if isinstance(node, ast.Compare) else []
            if any(isinstance(side, ast.Constant) and side.value in ("softmax", "logsumexp") for side in sides):
                places.append(f"{path.relative_to(SOURCE)}:{node.lineno}")
    assert places == []
