"""One attention layer, exported by manyheads, as a HookedTransformer; config.json and model.safetensors lie beside it.

model, threshold, rule = load()
_, cache = model.run_with_cache(torch.tensor([[3, 14, 15]]))          # a context of items by their numbers
cache["blocks.0.attn.hook_attn_scores"].amax(1) > threshold           # rule max
cache["blocks.0.attn.hook_pattern"].sum(1) > threshold                # rule softmax

It needs TransformerLens 2 or 3; version 4 has no HookedTransformer any more.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING

import torch
from safetensors.torch import load_file

if TYPE_CHECKING:
    from transformer_lens import HookedTransformer


def load(directory: str | Path = Path(__file__).parent) -> tuple[HookedTransformer, float, str]:
    """The model, and the threshold and the rule by which its heads' scores are joined."""
    from transformer_lens import HookedTransformer, HookedTransformerConfig

    config = json.loads((Path(directory) / "config.json").read_text())
    said = config.pop("manyheads")
    model = HookedTransformer(HookedTransformerConfig.from_dict(config | {"dtype": getattr(torch, config["dtype"])}))
    weights = load_file(Path(directory) / "model.safetensors")
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.zero_()  # no positions, no values, no biases: only what the layer has
    unknown = model.load_state_dict(weights, strict=False).unexpected_keys
    if unknown:
        raise ValueError(f"this version of TransformerLens has no place for {', '.join(unknown)}")
    return model, float.fromhex(said["threshold"]), said["rule"]
