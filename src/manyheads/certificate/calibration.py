"""Calibrate: a threshold from what a certificate found, in place of the one a theorem fixes beforehand."""

from __future__ import annotations

import math
from dataclasses import replace

from manyheads.certificate import Certificate
from manyheads.layer.layer import Layer


def calibrate(layer: Layer, certificate: Certificate) -> Layer:
    """The same weights with the threshold in the middle of the certificate's window; unchanged where that is empty.

    A graph without relations, or without any other pair, leaves the window open on one side: then one past its end.
    """
    low, high = certificate.window
    return replace(layer, threshold=middle(low, high)) if low < high else layer


def middle(low: float, high: float) -> float:
    """The middle of a window; of one that is open on one side, one past its end."""
    if math.isinf(low) or math.isinf(high):
        return high - 1 if math.isinf(low) else low + 1
    return (low + high) / 2
