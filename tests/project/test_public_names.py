"""The public names: all there, from the rooms they say, and nothing loaded before it is asked for."""

from __future__ import annotations

import subprocess
import sys
from types import ModuleType

import pytest

import manyheads
import manyheads.block
import manyheads.retrieval


@pytest.mark.parametrize(
    "package",
    [manyheads, manyheads.block, manyheads.retrieval, manyheads.sweep, manyheads.training],
    ids=lambda package: package.__name__,
)
def test_every_public_name_is_there(package: ModuleType) -> None:
    for name in package.__all__:
        assert getattr(package, name) is not None


def test_every_room_name_is_public() -> None:
    named = {name for names in manyheads._ROOMS.values() for name in names}
    assert {*named, "construct"} == set(manyheads.__all__) == set(dir(manyheads))


def test_an_unknown_name_is_an_attribute_error() -> None:
    with pytest.raises(AttributeError, match="no attribute 'colour'"):
        manyheads.colour  # noqa: B018


def test_importing_the_package_loads_no_heavy_library() -> None:
    heavy = "import sys, manyheads; print([m for m in ('numpy', 'scipy', 'torch') if m in sys.modules])"
    done = subprocess.run([sys.executable, "-c", heavy], capture_output=True, text=True, timeout=60, check=True)
    assert done.stdout == "[]\n"
