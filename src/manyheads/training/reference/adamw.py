"""AdamW for a batch of runs."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from jaxtyping import Bool
from torch import Tensor

from manyheads.training.protocol import Protocol


@dataclass(eq=False)
class AdamW:
    """AdamW as torch.optim has it, but with a count of updates for each run: runs skip and stop on their own."""

    protocol: Protocol
    parameters: Sequence[Tensor]  # the first axis of each is the run

    def __post_init__(self) -> None:
        self.first = [torch.zeros_like(p) for p in self.parameters]
        self.second = [torch.zeros_like(p) for p in self.parameters]
        self.updates = self.parameters[0].new_zeros(len(self.parameters[0]))

    @torch.no_grad()
    def update(self, gradients: Sequence[Tensor], moving: Bool[Tensor, " runs"]) -> None:
        """One update of the runs that move; the others keep their weights and moments."""
        protocol = self.protocol
        self.updates += moving
        rates = protocol.learning_rate / _short_of_one(protocol.beta1, self.updates)
        roots = _short_of_one(protocol.beta2, self.updates).sqrt()
        for p, g, m, v in zip(self.parameters, gradients, self.first, self.second, strict=True):
            moves, rate, root = (each.view(-1, *[1] * (p.ndim - 1)) for each in (moving, rates, roots))
            m.copy_(torch.where(moves, protocol.beta1 * m + (1 - protocol.beta1) * g, m))
            v.copy_(torch.where(moves, protocol.beta2 * v + (1 - protocol.beta2) * g * g, v))
            decayed = p * (1 - protocol.learning_rate * protocol.weight_decay)
            p.copy_(torch.where(moves, decayed - rate * m / (v.sqrt() / root + protocol.epsilon), p))


def _short_of_one(beta: float, updates: Tensor) -> Tensor:
    """1 − β^t without the loss of digits that the difference has in float32 (not every device has float64)."""
    return -torch.expm1(updates * torch.tensor(beta, dtype=torch.float64).log().item())
