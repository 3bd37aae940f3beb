"""The public names: all there, from the rooms they say, and nothing loaded before it is asked for."""

from __future__ import annotations

import subprocess
import sys

import pytest

import manyheads


@pytest.mark.parametrize("name", manyheads.__all__)
def test_every_public_name_is_there(name: str) -> None:
    assert getattr(manyheads, name) is not None


def test_every_room_name_is_public() -> None:
    assert {*manyheads._HOMES, "construct"} == set(manyheads.__all__) == set(dir(manyheads))


def test_an_unknown_name_is_an_attribute_error() -> None:
    with pytest.raises(AttributeError, match="no attribute 'colour'"):
        manyheads.colour  # noqa: B018


def test_importing_the_package_loads_no_heavy_library() -> None:
    heavy = "import sys, manyheads; print([m for m in ('numpy', 'scipy', 'torch') if m in sys.modules])"
    done = subprocess.run([sys.executable, "-c", heavy], capture_output=True, text=True, timeout=60, check=True)
    assert done.stdout == "[]\n"
