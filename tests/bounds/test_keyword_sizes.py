"""Sizes are keywords: two whole numbers that are exchanged by mistake must be an error, not another answer."""

from __future__ import annotations

import importlib
import inspect
import pkgutil
from collections.abc import Callable, Iterator
from typing import is_typeddict

import pytest

import manyheads.bounds
import manyheads.planning
from manyheads.bounds import Shape, freedom_key_width
from manyheads.planning import plan


def _public_functions() -> Iterator[tuple[str, Callable[..., object]]]:
    for room in (manyheads.bounds, manyheads.planning):
        for module in pkgutil.iter_modules(room.__path__, f"{room.__name__}."):
            found = importlib.import_module(module.name)
            for name, value in vars(found).items():
                if not callable(value) or is_typeddict(value) or name.startswith("_"):
                    continue
                if getattr(value, "__module__", "") == module.name:
                    yield f"{module.name}.{name}", value


def _is_number(annotation: object) -> bool:
    return str(annotation) in {"int", "int | None", "float", "Given", "Given | None"}


def test_no_public_function_takes_two_numbers_by_position() -> None:
    seen = 0
    for name, function in _public_functions():
        parameters = inspect.signature(function).parameters.values()
        numbers = [p.name for p in parameters if p.kind is p.POSITIONAL_OR_KEYWORD and _is_number(p.annotation)]
        seen += any(_is_number(p.annotation) for p in parameters)
        assert len(numbers) < 2, f"{name} takes {numbers} by position"
    assert seen > 40  # the annotations are read as they are written


def test_exchanged_sizes_are_an_error() -> None:
    with pytest.raises(TypeError):
        plan(512, 512, 64)  # type: ignore[call-arg]
    with pytest.raises(TypeError):
        freedom_key_width(512, 512, 64, 2)  # type: ignore[call-arg]
    with pytest.raises(TypeError):
        Shape(64, 4, 16)  # type: ignore[call-arg]
