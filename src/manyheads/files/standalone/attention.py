"""One attention layer, exported by manyheads; this file needs torch and safetensors, and layer.safetensors beside it.

layer = AttentionLayer.load()       # or AttentionLayer.load("another/layer.safetensors")
layer(x)                            # scores of a context with rows x: (..., n, d_model) to (..., n, n)
layer.recognise(x)                  # whether each ordered pair exceeds the threshold
layer(layer.rows([3, 14, 15]))      # scores of items by their numbers, if the embedding was exported too
"""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Sequence
from pathlib import Path

import torch
from safetensors import SafetensorError
from safetensors.torch import load as load_tensors
from torch import Tensor, nn


class AttentionLayer(nn.Module):
    """Heads of query and key weights; a pair (p, q) of a context is recognised if its score exceeds the threshold.

    Let s_k = (x_p W_Q^k)·(x_q W_K^k) be the score of head k. The rule `max` takes the largest s_k, `sum` adds them, and
    `logsumexp` is log Σ exp s_k. `softmax` adds, over the heads, exp(s_k/√d_k) divided by its sum over all items q of
    the context, p included.
    """

    embedding: Tensor | None  # (items, d_model)

    def __init__(
        self, query: Tensor, key: Tensor, threshold: float, rule: str = "max", embedding: Tensor | None = None
    ) -> None:
        super().__init__()
        if rule not in ("max", "softmax", "sum", "logsumexp"):
            raise ValueError(f"unknown rule '{rule}'")
        self.query = nn.Parameter(query)  # (heads, d_model, key_width)
        self.key = nn.Parameter(key)  # (key_heads, d_model, key_width); head k of h reads key head ⌊k·key_heads/h⌋
        self.register_buffer("threshold", torch.tensor(threshold, dtype=torch.float64))
        self.register_buffer("embedding", embedding)
        self.rule = rule

    @classmethod
    def load(cls, path: str | Path = Path(__file__).parent / "layer.safetensors") -> AttentionLayer:
        """Load the layer from a file that manyheads wrote; a file in which a bit has changed raises a ValueError."""
        content = Path(path).read_bytes()
        try:
            tensors, text = load_tensors(content), checked_text(content)
        except (SafetensorError, KeyError, TypeError, AttributeError, ValueError) as error:
            raise ValueError(f"{path} is damaged, or is not a layer that manyheads wrote: {error}") from error
        threshold = float.fromhex(text["threshold"])
        return cls(tensors["query"], tensors["key"], threshold, text["rule"], tensors.get("embedding"))

    def rows(self, items: Sequence[int] | Tensor) -> Tensor:
        """The embedding's rows of a context of items."""
        if self.embedding is None:
            raise ValueError("this layer was exported without its embedding")
        return self.embedding[torch.as_tensor(items, device=self.embedding.device)]

    def head_scores(self, x: Tensor) -> Tensor:
        """The score s_k of every head and every ordered pair: (..., n, d_model) to (..., heads, n, n)."""
        rows = x.to(self.query.dtype).unsqueeze(-3)
        keys = (rows @ self.key).repeat_interleave(len(self.query) // len(self.key), dim=-3)
        return (rows @ self.query) @ keys.mT

    def forward(self, x: Tensor) -> Tensor:
        """The score of every ordered pair of the context: (..., n, d_model) to (..., n, n)."""
        scores = self.head_scores(x)
        if self.rule == "max":
            return scores.amax(dim=-3)
        if self.rule == "sum":
            return scores.sum(dim=-3)
        if self.rule == "logsumexp":
            return scores.logsumexp(dim=-3)
        return torch.softmax(scores / math.sqrt(self.query.shape[-1]), dim=-1).sum(dim=-3)

    def recognise(self, x: Tensor) -> Tensor:
        """Whether each ordered pair of the context is recognised as a relation."""
        return self(x) > self.threshold


def checked_text(content: bytes) -> dict[str, str]:
    """The metadata of a layer's file, whose checksum must be that of the other metadata, the shapes and the weights."""
    length = int.from_bytes(content[:8], "little")
    header, data = json.loads(content[8 : 8 + length]), memoryview(content)[8 + length :]
    text = header.pop("__metadata__")
    checksum = text.pop("manyheads.sha256", None)
    shapes = {name: [entry["dtype"], entry["shape"]] for name, entry in header.items()}
    digest = hashlib.sha256(json.dumps([text, shapes], sort_keys=True).encode())
    for name in sorted(header):
        start, stop = header[name]["data_offsets"]
        digest.update(data[start:stop])
    if checksum != digest.hexdigest():
        raise ValueError("its content does not match its checksum")
    return text
