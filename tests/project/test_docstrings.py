"""Docstrings of the public names: every parameter, result, error and field is described."""

from __future__ import annotations

import ast
import dataclasses
import inspect
import pkgutil
import re
import textwrap
from collections.abc import Callable, Iterator
from importlib import import_module
from typing import Any

import pytest

import manyheads

Function = Callable[..., Any]
SECTIONS = ("Args", "Returns", "Yields", "Raises", "Attributes")


def rooms() -> Iterator[str]:
    """The package and every package inside it that lists public names."""
    yield "manyheads"
    for module in pkgutil.walk_packages(manyheads.__path__, "manyheads."):
        if module.ispkg and ".standalone" not in module.name and hasattr(import_module(module.name), "__all__"):
            yield module.name


def public_objects() -> dict[str, Any]:
    """Functions and classes that a room or the package exports, by their full name, each once."""
    found = {}
    for room in rooms():
        for name in import_module(room).__all__:
            value = getattr(import_module(room), name)
            if inspect.isclass(value) or inspect.isfunction(value):
                found[f"{value.__module__}.{value.__qualname__}"] = value
    return {name: value for name, value in found.items() if name.startswith("manyheads.")}


def public_functions() -> dict[str, Function]:
    """Public functions, and the public methods that a public class defines itself.

    A method that a public protocol of the same module explains is left out.
    """
    found: dict[str, Function] = {}
    explained = {
        (value.__module__, method)
        for value in OBJECTS.values()
        if getattr(value, "_is_protocol", False)
        for method in vars(value)
    }
    for name, value in OBJECTS.items():
        if inspect.isfunction(value):
            found[name] = value
            continue
        is_protocol = getattr(value, "_is_protocol", False)
        for method, member in vars(value).items():
            function = member.__func__ if isinstance(member, classmethod | staticmethod) else member
            own = inspect.isfunction(function) and function.__name__ == method and not method.startswith("_")
            if own and (is_protocol or (value.__module__, method) not in explained):
                found[f"{name}.{method}"] = function
    return found


OBJECTS = public_objects()
FUNCTIONS = public_functions()
DATACLASSES: dict[str, Any] = {name: value for name, value in OBJECTS.items() if dataclasses.is_dataclass(value)}


def section(docstring: str, name: str) -> str:
    """The lines of one section of a docstring; empty where the docstring has no such section."""
    ends = "|".join(f"{other}:" for other in SECTIONS)
    found = re.search(rf"^{name}:\n(.*?)(?=^(?:{ends}|>>>|\S)|\Z)", docstring, re.MULTILINE | re.DOTALL)
    return found.group(1) if found else ""


def entries(docstring: str, name: str) -> set[str]:
    """The names that a section explains. One entry may explain several: `d_model, key_width: …`."""
    heads = re.findall(r"^    (\*{0,2}\w+(?:, \*{0,2}\w+)*): ", section(docstring, name), re.MULTILINE)
    return {word.lstrip("*") for head in heads for word in head.split(", ")}


def parameters(function: Function) -> set[str]:
    return {name for name in inspect.signature(function).parameters if name not in ("self", "cls")}


def body(function: Function) -> ast.FunctionDef:
    [tree] = ast.parse(textwrap.dedent(inspect.getsource(function))).body
    assert isinstance(tree, ast.FunctionDef)
    return tree


def raises(function: Function) -> bool:
    """Whether the body raises an exception of its own. `raise` alone passes on the error of a callee."""
    return any(isinstance(node, ast.Raise) and node.exc is not None for node in ast.walk(body(function)))


def faults(function: Function) -> list[str]:
    """What the docstring of a function lacks."""
    docstring = inspect.getdoc(function) if function.__doc__ else None
    if docstring is None:
        return ["a docstring"]
    wanted, found = parameters(function), entries(docstring, "Args")
    lacking = [f"the argument {name}" for name in sorted(wanted - found)]
    lacking += [f"no entry for {name}, which is no argument" for name in sorted(found - wanted)]
    annotation = str(inspect.signature(function).return_annotation)
    result = "Yields" if re.match(r"(collections\.abc\.)?(Iterator|Generator)\b", annotation) else "Returns"
    returns = annotation not in ("None", "Never", "NoReturn", str(inspect.Signature.empty))
    if wanted and returns and not section(docstring, result):
        lacking.append(f"{result}:")
    if raises(function) and not section(docstring, "Raises"):
        lacking.append("Raises:")
    return lacking


@pytest.mark.parametrize("name", sorted(FUNCTIONS))
def test_a_public_function_explains_its_arguments_result_and_errors(name: str) -> None:
    assert faults(FUNCTIONS[name]) == []


@pytest.mark.parametrize("name", sorted(OBJECTS))
def test_a_public_name_has_a_docstring_that_begins_with_a_sentence(name: str) -> None:
    first = (OBJECTS[name].__doc__ or "").partition("\n\n")[0]
    assert first.rstrip().endswith((".", "?", ":")), first
    assert not first.startswith(f"{OBJECTS[name].__name__}(")  # the text that dataclass makes up


@pytest.mark.parametrize("name", sorted(DATACLASSES))
def test_a_public_dataclass_explains_its_fields(name: str) -> None:
    kind = DATACLASSES[name]
    own = set(inspect.get_annotations(kind))
    public = {field.name for field in dataclasses.fields(kind) if field.name in own and not field.name.startswith("_")}
    assert public - entries(inspect.cleandoc(kind.__doc__ or ""), "Attributes") == set()
