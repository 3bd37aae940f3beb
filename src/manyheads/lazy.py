"""Lazy imports: a module of a package is imported when one of its names is first used. Start-up stays quick."""

from __future__ import annotations

# not collections.abc and importlib: their imports take time before `__main__` can deal with Ctrl-C
from _collections_abc import Callable, Mapping, Sequence


def on_demand(package: str, homes: Mapping[str, Sequence[str]]) -> Callable[[str], object]:
    """The `__getattr__` of a package. It imports a module when the module or one of its listed names is first used.

    >>> on_demand("manyheads", {"errors": ["InputError"]})("InputError").__name__
    'InputError'
    """
    home_of = {name: home for home, names in homes.items() for name in names}

    def look_up(name: str) -> object:
        from importlib import import_module

        if name in home_of:
            return getattr(import_module(f"{package}.{home_of[name]}"), name)
        if name in homes:
            return import_module(f"{package}.{name}")
        raise AttributeError(f"module {package!r} has no attribute {name!r}")

    return look_up
