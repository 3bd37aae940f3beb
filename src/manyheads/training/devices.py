"""Devices of torch by their names."""

from __future__ import annotations

import torch

from manyheads.errors import InputError


def device_named(name: str) -> torch.device:
    """The device of this name.

    Args:
        name: A device as torch names it, such as "cpu" or "cuda:0".

    Raises:
        InputError: This machine or this build of torch does not have the device.
    """
    try:
        return torch.empty(0, device=name).device
    except (RuntimeError, AssertionError):  # an unknown name, or a build of torch without that device
        raise InputError(f"PyTorch has no device '{name}' here") from None
