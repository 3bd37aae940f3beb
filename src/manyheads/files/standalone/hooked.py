"""One attention layer, exported by manyheads, as a HookedTransformer; config.json and model.safetensors are beside it.

model, threshold, rule = load()
_, cache = model.run_with_cache(torch.tensor([[3, 14, 15]]))          # a context of items by their numbers
cache["blocks.0.attn.hook_attn_scores"].amax(1) > threshold           # rule max
cache["blocks.0.attn.hook_pattern"].sum(1) > threshold                # rule softmax

It needs TransformerLens 2 or 3; version 4 does not have HookedTransformer.
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
    """Load the model, the threshold, and the rule that joins the scores of the heads."""
    from transformer_lens import HookedTransformer, HookedTransformerConfig

    config = json.loads((Path(directory) / "config.json").read_text())
    layer = config.pop("manyheads")
    model = HookedTransformer(HookedTransformerConfig.from_dict(config | {"dtype": getattr(torch, config["dtype"])}))
    weights = load_file(Path(directory) / "model.safetensors")
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.zero_()  # positions, values and biases stay zero; the queries and keys follow
    unknown = model.load_state_dict(weights, strict=False).unexpected_keys
    if unknown:
        raise ValueError(f"this version of TransformerLens does not have the weights {', '.join(unknown)}")
    return model, float.fromhex(layer["threshold"]), layer["rule"]
