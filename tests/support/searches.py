"""Comparisons of two searches for small layers."""

from __future__ import annotations

from dataclasses import asdict

import numpy as np

from manyheads.fitting import FitSearchResult


def trials_of(found: FitSearchResult) -> list[dict[str, object]]:
    """The trials without their times."""
    return [{name: value for name, value in asdict(one).items() if name != "seconds"} for one in found.trials]


def assert_same(one: FitSearchResult, other: FitSearchResult) -> None:
    """The same trials, and layers that are equal bit for bit."""
    np.testing.assert_equal(trials_of(one), trials_of(other))
    assert one.layer is not None
    assert other.layer is not None
    assert one.layer.query.tobytes() == other.layer.query.tobytes()
    assert one.layer.key.tobytes() == other.layer.key.tobytes()
    assert (one.layer.threshold, one.layer.rule) == (other.layer.threshold, other.layer.rule)
    assert one.certificate == other.certificate
