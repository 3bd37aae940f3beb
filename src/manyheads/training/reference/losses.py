"""Scores, losses and tallies as the paper writes them, for a batch: the first axis of every tensor is the run."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor
from torch.nn.functional import logsigmoid

from manyheads.layer.rules import Rule
from manyheads.training.outcome import Tally

Scores = Float[Tensor, "runs contexts context context"]
Relations = Bool[Tensor, "runs contexts context context"]


def scores(
    query: Float[Tensor, "runs heads d_model d_k"],
    key: Float[Tensor, "runs key_heads d_model d_k"],
    x: Float[Tensor, "runs contexts context d_model"],
    rule: Rule,
) -> Scores:
    """S(p, q) of every ordered pair of every context (Sec. 6; for `softmax` Sec. 7.1)."""
    queries = torch.einsum("rcpd,rhdk->rchpk", x, query)
    keys = torch.einsum("rcqd,rhdk->rchqk", x, key)
    if key.shape[1] != query.shape[1]:  # heads in a row share a key head
        keys = keys.repeat_interleave(query.shape[1] // key.shape[1], dim=2)
    return rule.join_tensor(queries @ keys.mT / rule.divisor(query.shape[-1]))


def edge_losses(
    S: Scores, related: Relations, threshold: Float[Tensor, " runs"], *, sharpness: float, weight: float | str
) -> Float[Tensor, "runs contexts"]:
    """The weighted logistic loss of App. A.1; a "balanced" weight is #negatives/#positives of the context (Eq. 30)."""
    y = related.to(S.dtype)
    z = sharpness * (S - threshold[:, None, None, None])
    posweight: Tensor | float
    if weight == "balanced":
        posweight = (1 - y).sum(dim=(2, 3), keepdim=True) / y.sum(dim=(2, 3), keepdim=True).clamp(min=1)
    else:
        posweight = float(weight)
    # softplus(z) = −logsigmoid(−z), exact for every z; torch's own softplus is cut off at 20
    return -(posweight * y * logsigmoid(z) + (1 - y) * logsigmoid(-z)).mean(dim=(2, 3))


def message_errors(
    S: Scores, related: Relations, messages: Float[Tensor, "runs contexts context d_msg"]
) -> Float[Tensor, "runs contexts context"]:
    """‖ŷ_p − y_π(p)‖² with ŷ = S·V (Eq. 3 and 4), and 0 where π(p) is not in the context."""
    targets = related.to(S.dtype) @ messages  # each row of `related` has at most one entry
    return (S @ messages - targets).square().sum(dim=-1) * related.any(dim=-1)


class LearnedWeights(NamedTuple):
    """The learned parameters."""

    query: Float[Tensor, "runs heads d_model d_k"]
    key: Float[Tensor, "runs key_heads d_model d_k"]
    threshold: Float[Tensor, " runs"]


@dataclass(frozen=True, eq=False)
class LossTerms:
    """The data of the losses: the rows of the items, their relations, and their messages in a value channel."""

    rule: Rule
    sharpness: float
    positive_weight: float | str
    embedding: Float[Tensor, "runs items d_model"]
    related: Bool[Tensor, "runs items items"]
    messages: Float[Tensor, "runs items d_msg"] | None

    def losses(
        self, weights: LearnedWeights, contexts: Int[Tensor, "runs context"]
    ) -> tuple[Float[Tensor, " runs"], Bool[Tensor, " runs"]]:
        """Each run's loss on its context, and whether the context teaches (with messages: has a valid position)."""
        S, related = self._look(weights, contexts[:, None])
        if self.messages is None:
            losses = edge_losses(S, related, weights.threshold, sharpness=self.sharpness, weight=self.positive_weight)[
                :, 0
            ]
            return losses, torch.ones_like(losses, dtype=torch.bool)
        valid = related.any(dim=-1).sum(dim=(1, 2))
        errors = message_errors(S, related, _rows(self.messages, contexts[:, None]))
        return errors.sum(dim=(1, 2)) / valid.clamp(min=1), valid > 0

    @torch.no_grad()
    def tallies(self, weights: LearnedWeights, contexts: Int[Tensor, "runs contexts context"]) -> list[Tally]:
        """Each run's right and wrong decisions over its contexts, or the distances of its messages."""
        S, related = self._look(weights, contexts)
        if self.messages is None:
            found = weights.threshold[:, None, None, None] < S
            kinds = (found & related, found & ~related, ~found & related)
            counts = torch.stack([pairs.sum(dim=(1, 2, 3)) for pairs in kinds], dim=1).tolist()
            return [Tally(hits, false_alarms, misses, 0.0, 0.0, 0) for hits, false_alarms, misses in counts]
        messages = _rows(self.messages, contexts)
        errors = [message_errors(s, related, messages).sum(dim=2) for s in (S, torch.zeros_like(S))]
        distances = [e.cpu().to(torch.float64).sum(dim=1).tolist() for e in errors]
        positions = related.any(dim=-1).sum(dim=(1, 2)).tolist()
        return [Tally(0, 0, 0, *run) for run in zip(*distances, positions, strict=True)]

    def _look(self, weights: LearnedWeights, contexts: Int[Tensor, "runs n context"]) -> tuple[Scores, Relations]:
        run = torch.arange(len(contexts), device=contexts.device)[:, None, None, None]
        related = self.related[run, contexts[..., :, None], contexts[..., None, :]]
        return scores(weights.query, weights.key, _rows(self.embedding, contexts), self.rule), related


def _rows(table: Float[Tensor, "runs items width"], contexts: Int[Tensor, "runs n context"]) -> Tensor:
    return table[torch.arange(len(contexts), device=contexts.device)[:, None, None], contexts]
