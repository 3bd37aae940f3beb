"""The sources: a fact is typed once, a file that is named exists, and no code is unused or written twice."""

from __future__ import annotations

import ast
import inspect
import re
import tomllib
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path

import pytest

from manyheads import construct, fitting
from manyheads.bounds.laws import HEADS_INTERCEPT, HEADS_SLOPE
from manyheads.construct.incoherent_rows import DEFAULT_CONSTANTS
from manyheads.construct.one_hot_items import QUARTER
from manyheads.fitting.options import RESTARTS, THREADS, Descent
from manyheads.fitting.shape_search import SECONDS
from manyheads.papers.exhibit import EXHIBITS
from manyheads.problem.graph_kinds import PERMUTATION_SLOPE, RELATION_SLOPE

ROOT = Path(__file__).parents[2]
PACKAGE = ROOT / "src" / "manyheads"
STANDALONE = PACKAGE / "files" / "standalone"  # copied to users, not imported
MODULES = sorted(path for path in PACKAGE.rglob("*.py") if STANDALONE not in path.parents)
TOOLS = sorted(path for folder in ("tools", "benchmarks", "examples") for path in (ROOT / folder).rglob("*.py"))
TESTS = sorted((ROOT / "tests").rglob("*.py"))
NATIVE = sorted(path for end in ("*.cpp", "*.hpp") for path in (ROOT / "native").rglob(end))
WRITTEN = [*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md"), *(ROOT / "tools").rglob("*.md")]
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]
SEARCHES = ("capacity/search.py", "fitting/shape_search.py", "fitting/shapes.py", "fitting/trial_order.py")
FOLDERS = "docs|src|native|tests|tools|benchmarks|examples"
NAMED_FILE = re.compile(rf"\b((?:{FOLDERS})/(?![\w/]*NAME)[\w/.-]*\w\.(?:md|py|hpp|cpp|csv|toml|sh))\b")
NAMED_PAGE = re.compile(r"(?:^|[ (])([A-Za-z-]+\.md)(?:[,.:;) ]|$)", re.MULTILINE)  # without its folder
LINK = re.compile(r"\]\((?!https?:|#)([^)#\s]+)(?:#[^)]*)?\)")


def name(path: Path) -> str:
    return str(path.relative_to(ROOT))


def docstrings(tree: ast.AST) -> set[ast.AST]:
    owners = (ast.Module, ast.ClassDef, ast.FunctionDef)
    bodies = [node.body for node in ast.walk(tree) if isinstance(node, owners) and ast.get_docstring(node, clean=False)]
    return {body[0].value for body in bodies if isinstance(body[0], ast.Expr)}


def constants(path: Path) -> Iterator[ast.Constant]:
    """The literal values of a module, docstrings aside."""
    tree = ast.parse(path.read_text())
    without = docstrings(tree)
    yield from (node for node in ast.walk(tree) if isinstance(node, ast.Constant) and node not in without)


@pytest.mark.parametrize(
    ("numbers", "home"),
    [
        ((PERMUTATION_SLOPE, RELATION_SLOPE), "src/manyheads/problem/graph_kinds.py"),
        ((HEADS_SLOPE, -HEADS_INTERCEPT), "src/manyheads/bounds/laws.py"),
    ],
)
def test_the_papers_laws_are_typed_once(numbers: tuple[float, float], home: str) -> None:
    places = [
        f"{name(path)}:{node.lineno}"
        for path in (*MODULES, *TOOLS)
        for node in constants(path)
        if isinstance(node.value, float) and node.value in numbers
    ]
    assert [place.partition(":")[0] for place in places] == [home] * 2, places


@pytest.mark.parametrize("path", SEARCHES)
def test_a_search_has_no_bare_number(path: str) -> None:
    """A factor that decides which shape is tried next has a name and a comment at the head of its module."""
    plain = (0.0, 0.5, 1.0, 2.0)
    functions = [
        node for node in ast.walk(ast.parse((PACKAGE / path).read_text())) if isinstance(node, ast.FunctionDef)
    ]
    bare = [
        f"{path}:{node.lineno}: {node.value}"
        for function in functions
        for statement in function.body
        for node in ast.walk(statement)
        if isinstance(node, ast.Constant) and isinstance(node.value, float) and node.value not in plain
    ]
    assert functions
    assert bare == []


def test_an_inner_room_is_used_by_its_own_room_alone() -> None:
    """What several rooms share stands in a room itself, e.g. batches of runs in training, not in training/reference."""
    for inner in ("training.reference", "certificate.softmax"):
        room = PACKAGE / inner.partition(".")[0]
        users = [path for path in MODULES if f"manyheads.{inner}" in path.read_text()]
        assert users
        assert [name(path) for path in users if not path.is_relative_to(room)] == []


def test_the_projects_papers_have_one_version_and_name_modules_that_exist() -> None:
    with (ROOT / "pyproject.toml").open("rb") as file:
        project = tomllib.load(file)
    (version,) = re.findall(r"^version: (.+)$", (ROOT / "CITATION.cff").read_text(), re.MULTILINE)
    assert version == project["project"]["version"]
    contracts = project["tool"]["importlinter"]["contracts"]
    ignored = [module for contract in contracts for module in contract["exhaustive_ignores"]]
    overrides = [module for override in project["tool"]["mypy"]["overrides"] for module in override["module"]]
    own = [module.replace(".", "/") for module in overrides if module.startswith(("tools", "tests", "benchmarks"))]
    paths = [*(f"src/manyheads/{module}" for module in ignored), *own]
    assert len(paths) >= 2
    assert [path for path in paths if not (ROOT / f"{path}.py").exists() and not (ROOT / path).is_dir()] == []


def test_the_defaults_that_a_help_text_names_are_those_of_the_code() -> None:
    """A help text must not import the code that has its numbers, so they are typed again and compared here."""
    of_theorem = " ".join(f"{value:g}" for value in (DEFAULT_CONSTANTS.c1, DEFAULT_CONSTANTS.c2, DEFAULT_CONSTANTS.c3))
    scale = inspect.signature(construct.softmax).parameters["scale"].default
    defaults = {
        f"{RESTARTS}",
        f"{Descent().steps}",
        f"{SECONDS:g} for a search without --trials, else no limit",
        f"one a core; for one shape 1 or {THREADS}",
        f"bernoulli:{QUARTER.p}",
        of_theorem,
        f"{scale:g}",
    }
    found = set()
    for path in sorted((PACKAGE / "cli").rglob("*.py")):
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.Constant) and isinstance(node.value, str):
                found |= set(re.findall(r"\(default: ([^()]*\b\d[^()]*)\)", node.value))
    assert found == defaults


@pytest.mark.parametrize("path", [*MODULES, *TOOLS, *NATIVE, *TESTS], ids=name)
def test_the_files_that_a_source_names_exist(path: Path) -> None:
    text = path.read_text()
    assert [found for found in NAMED_FILE.findall(text) if not (ROOT / found).exists()] == []
    assert set(NAMED_PAGE.findall(text)) - {page.name for page in WRITTEN} == set()


def test_every_module_is_used_by_the_package() -> None:
    """Code that only tests or tools use belongs to them."""
    text = {path: path.read_text() for path in MODULES}
    for path in MODULES:
        module = path.relative_to(PACKAGE).with_suffix("")
        if path.stem in ("__init__", "__main__", "_native"):
            continue
        full, short = ".".join(("manyheads", *module.parts)), f'"{module.name}"'
        rooms = [other for other in text if other != path]
        used = any(re.search(rf"{re.escape(full)}\b", text[other]) for other in rooms)
        beside = any(
            short in text[other] for other in rooms if path.is_relative_to(other.parent)
        )  # named by a registry
        assert used or beside, full


def test_every_native_source_is_compiled() -> None:
    scripts = [*(ROOT / "native").rglob("CMakeLists.txt"), *(ROOT / "native").rglob("*.sh"), ROOT / "tools/wasm.py"]
    lists = "".join(path.read_text() for path in scripts)
    included = {Path(found).name for path in NATIVE for found in re.findall(r'#include "([^"]+)"', path.read_text())}
    assert [name(path) for path in NATIVE if path.name not in included and path.stem not in lists] == []


def test_no_function_is_written_twice() -> None:
    """Two functions of at least three statements with equal bodies are one function."""
    places: dict[str, list[str]] = defaultdict(list)
    for path in (*MODULES, *TOOLS):
        tree = ast.parse(path.read_text())
        without = docstrings(tree)
        for node in ast.walk(tree):
            if isinstance(node, ast.FunctionDef) and not node.name.startswith("__"):
                body = [line for line in node.body if not (isinstance(line, ast.Expr) and line.value in without)]
                if len(body) >= 3:
                    places["\n".join(map(ast.dump, body))].append(f"{name(path)}:{node.lineno}")
    assert [found for found in places.values() if len(found) > 1] == []


@pytest.mark.parametrize("function", [fitting.fit, fitting.grow, fitting.smallest, fitting.best_split])
def test_the_functions_of_a_fit_share_their_options(function: object) -> None:
    assert callable(function)
    parameters = inspect.signature(function).parameters
    assert str(parameters["options"].annotation) == "FitOptions"
    assert len(set(parameters) - {"heads", "key_width", "key_heads"}) <= 4  # all but the shape


def test_a_problem_is_one_argument_and_a_layer_stands_before_it() -> None:
    for path in MODULES:
        for node in ast.walk(ast.parse(path.read_text())):
            if not isinstance(node, ast.FunctionDef) or node.name.startswith("_"):
                continue
            names = {word.arg: ast.unparse(word.annotation) for word in node.args.args if word.annotation}
            kinds = [kind for kind in names.values() if kind in ("Layer", "Problem")]
            assert kinds in ([], ["Layer"], ["Problem"], ["Layer", "Problem"]), f"{name(path)}:{node.lineno}"
            assert not {"Graph", "Embedding"} <= set(names.values()), f"{name(path)}:{node.lineno} takes no Problem"


def test_the_commands_name_no_exhibit() -> None:
    """What an exhibit needs is said by the exhibit itself."""
    words = {
        node.value
        for path in (PACKAGE / "cli").rglob("*.py")
        for node in constants(path)
        if isinstance(node.value, str)
    }
    assert words & set(EXHIBITS) == set()


def test_mypy_skips_no_module_of_the_package() -> None:
    with (ROOT / "pyproject.toml").open("rb") as file:
        settings = tomllib.load(file)["tool"]["mypy"]
    assert settings["strict"]
    assert {"src", "tests"} <= set(settings["files"])
    skipped = [module for override in settings["overrides"] for module in override["module"]]
    assert [module for module in skipped if module.startswith("manyheads")] == []


def test_the_sanitizers_run_the_fitting_code() -> None:
    script = (ROOT / "native" / "tests" / "sanitize.sh").read_text()
    tests = [path for path in TESTS if path.name in ("test_fit_native.py", "test_training_native.py")]
    assert len(tests) == 2
    assert "test_fit_native.py" in script
    for path in tests:  # torch is too slow under the sanitizers
        assert not re.search(r"^(import|from) torch", path.read_text(), re.MULTILINE)


def test_tests_import_their_helpers_in_one_way() -> None:
    helpers = {path.stem for path in (ROOT / "tests" / "support").glob("*.py")}
    for path in TESTS:
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.ImportFrom) and node.module:
                first = node.module.partition(".")[0]
                assert first not in {"tests", *helpers}, f"{name(path)}:{node.lineno} imports {node.module}"


def test_every_page_can_be_reached_from_the_readme() -> None:
    reached, waiting = set[Path](), [ROOT / "README.md"]
    while waiting:
        page = waiting.pop()
        if page not in reached and page.suffix == ".md" and page.exists():
            reached.add(page)
            waiting += [(page.parent / link).resolve() for link in LINK.findall(page.read_text(encoding="utf-8"))]
    assert [name(page) for page in PAGES if page.resolve() not in reached] == []
