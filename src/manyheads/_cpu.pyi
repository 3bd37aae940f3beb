"""Levels of the kernels: built, and supported by this CPU."""

built: tuple[str, ...]
supported: tuple[str, ...]
