"""Calibrate: a threshold from what a certificate found, in place of the one a theorem fixes beforehand."""

from __future__ import annotations

from dataclasses import replace

from manyheads.certificate import Certificate
from manyheads.layer import Layer


def calibrate(layer: Layer, certificate: Certificate) -> Layer:
    """The same weights with the threshold in the middle of the certificate's window; unchanged where that is empty."""
    low, high = certificate.window
    return replace(layer, threshold=(low + high) / 2) if low < high else layer
