"""One attention layer, exported by manyheads, as a HookedTransformer; config.json and model.safetensors are beside it.

model, threshold, rule = load()
_, cache = model.run_with_cache(torch.tensor([[3, 14, 15]]))          # a context of items by their numbers
cache["blocks.0.attn.hook_attn_scores"].amax(1) > threshold           # rule max
cache["blocks.0.attn.hook_pattern"].sum(1) > threshold                # rule softmax

It needs TransformerLens 2 or 3; version 4 does not have HookedTransformer.
"""

from __future__ import annotations

import hashlib
import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch
from safetensors.torch import load as load_tensors
from torch import Tensor

if TYPE_CHECKING:
    from transformer_lens import HookedTransformer


def load(directory: str | Path = Path(__file__).parent) -> tuple[HookedTransformer, float, str]:
    """Load the model, the threshold, and the rule that joins the scores of the heads."""
    from transformer_lens import HookedTransformer, HookedTransformerConfig

    config, weights = read(directory)
    layer = config.pop("manyheads")
    model = HookedTransformer(HookedTransformerConfig.from_dict(config | {"dtype": getattr(torch, config["dtype"])}))
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.zero_()  # positions, values and biases stay zero; the queries and keys follow
    unknown = model.load_state_dict(weights, strict=False).unexpected_keys
    if unknown:
        raise ValueError(f"this version of TransformerLens does not have the weights {', '.join(unknown)}")
    return model, float.fromhex(layer["threshold"]), layer["rule"]


def read(directory: str | Path) -> tuple[dict[str, Any], dict[str, Tensor]]:
    """The config and the weights in the files of a directory, which must have their checksum."""
    config = json.loads((Path(directory) / "config.json").read_text(encoding="utf-8"))
    model = (Path(directory) / "model.safetensors").read_bytes()
    checksum = config.pop("sha256", None)
    if checksum != hashlib.sha256(json.dumps(config, sort_keys=True).encode() + model).hexdigest():
        raise ValueError(f"{directory} is damaged: its files do not match their checksum")
    return config, load_tensors(model)
