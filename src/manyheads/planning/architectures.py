"""Architectures: the query–key channels of well-known models, as their authors published them."""

from __future__ import annotations

import difflib
from pathlib import Path

from manyheads.bounds.shape import Architecture
from manyheads.errors import InputError, path_of
from manyheads.files.door import exists
from manyheads.files.model_files import read_architecture

GPT2 = "Radford et al. 2019, Table 2; openai-community/gpt2* config.json"
GPT3 = "Brown et al. 2020 (arXiv 2005.14165), Table 2.1; vocabulary of GPT-2"
LLAMA3 = "Llama Team 2024 (arXiv 2407.21783), Table 3; vocabulary of meta-llama/Meta-Llama-3-* config.json"
QWEN3 = "Qwen Team 2025 (arXiv 2505.09388), Table 1; widths and vocabulary of Qwen/Qwen3-* config.json"
MISTRAL = "Jiang et al. 2023 (arXiv 2310.06825), Table 1"
GEMMA = "Gemma Team 2024 (arXiv 2403.08295), Table 1; vocabulary of google/gemma-* config.json"
GEMMA2 = "Gemma Team 2024 (arXiv 2408.00118), Table 1; vocabulary of google/gemma-2-* config.json"
SMOLLM2 = "Allal et al. 2025 (arXiv 2502.02737); HuggingFaceTB/SmolLM2-* config.json"
DEEPSEEK3 = (
    "DeepSeek-AI 2024 (arXiv 2412.19437), Sec. 4.2; vocabulary of deepseek-ai/DeepSeek-V3 config.json; the 64 further "
    "dimensions of a head for positions are counted apart"
)
BERT = "Devlin et al. 2018 (arXiv 1810.04805), Sec. 3; google-bert/bert-*-uncased config.json"

# name, layers, d_model, heads, key heads, key width, vocabulary, source
_TABLE = [
    ("gpt2", 12, 768, 12, 12, 64, 50_257, GPT2),
    ("gpt2-medium", 24, 1024, 16, 16, 64, 50_257, GPT2),
    ("gpt2-large", 36, 1280, 20, 20, 64, 50_257, GPT2),
    ("gpt2-xl", 48, 1600, 25, 25, 64, 50_257, GPT2),
    ("gpt3-175b", 96, 12_288, 96, 96, 128, 50_257, GPT3),
    ("llama3-8b", 32, 4096, 32, 8, 128, 128_256, LLAMA3),
    ("llama3-70b", 80, 8192, 64, 8, 128, 128_256, LLAMA3),
    ("qwen3-0.6b", 28, 1024, 16, 8, 128, 151_936, QWEN3),
    ("qwen3-1.7b", 28, 2048, 16, 8, 128, 151_936, QWEN3),
    ("qwen3-4b", 36, 2560, 32, 8, 128, 151_936, QWEN3),
    ("qwen3-8b", 36, 4096, 32, 8, 128, 151_936, QWEN3),
    ("qwen3-14b", 40, 5120, 40, 8, 128, 151_936, QWEN3),
    ("qwen3-32b", 64, 5120, 64, 8, 128, 151_936, QWEN3),
    ("mistral-7b", 32, 4096, 32, 8, 128, 32_000, MISTRAL),
    ("gemma-2b", 18, 2048, 8, 1, 256, 256_000, GEMMA),
    ("gemma-7b", 28, 3072, 16, 16, 256, 256_000, GEMMA),
    ("gemma2-2b", 26, 2304, 8, 4, 256, 256_000, GEMMA2),
    ("gemma2-9b", 42, 3584, 16, 8, 256, 256_000, GEMMA2),
    ("gemma2-27b", 46, 4608, 32, 16, 128, 256_000, GEMMA2),
    ("smollm2-135m", 30, 576, 9, 3, 64, 49_152, SMOLLM2),
    ("smollm2-360m", 32, 960, 15, 5, 64, 49_152, SMOLLM2),
    ("smollm2-1.7b", 24, 2048, 32, 32, 64, 49_152, SMOLLM2),
    ("bert-base", 12, 768, 12, 12, 64, 30_522, BERT),
    ("bert-large", 24, 1024, 16, 16, 64, 30_522, BERT),
]
ARCHITECTURES: dict[str, Architecture] = {
    name: Architecture(
        name=name,
        layers=layers,
        d_model=d_model,
        heads=heads,
        key_heads=key_heads,
        key_width=key_width,
        vocabulary=vocabulary,
        source=source,
    )
    for name, layers, d_model, heads, key_heads, key_width, vocabulary, source in _TABLE
}
ARCHITECTURES["deepseek-v3"] = Architecture(
    name="deepseek-v3",
    layers=61,
    d_model=7168,
    heads=128,
    key_heads=128,
    key_width=128,
    vocabulary=129_280,
    source=DEEPSEEK3,
    latent=512,
    query_latent=1536,
    position_width=64,
)


def find_architecture(model: str | Path, *, key_width: int | None = None) -> Architecture:
    """The architecture of a model by its name, or from its file.

    Args:
        model: A name in `ARCHITECTURES`, or a config.json, .safetensors or .gguf file.
        key_width: The width of a head, if a safetensors header does not say it.

    Returns:
        The architecture.

    Raises:
        InputError: The name is not known, the file cannot be read, or a width is given for a name.
    """
    path = path_of(model)
    is_file = path.suffix in (".json", ".safetensors", ".gguf") or exists(path)
    if str(model).lower() in ARCHITECTURES or not is_file:
        if key_width is not None:
            raise InputError(f"a key width does not apply: {model} is known by its name")
        return architecture(str(model))
    return read_architecture(path, key_width=key_width)


def architecture(name: str) -> Architecture:
    """Look up a model by its name.

    Args:
        name: Name in `ARCHITECTURES`; upper and lower case are the same.

    Returns:
        The architecture.

    Raises:
        InputError: The name is not known; the message has the nearest names.

    >>> architecture("llama3-8b").shape.key_budget
    1024
    """
    known = ARCHITECTURES.get(name.lower())
    if known is not None:
        return known
    near = difflib.get_close_matches(name.lower(), ARCHITECTURES, n=3, cutoff=0.4)
    hint = f"did you mean {' or '.join(near)}?" if near else f"known are {', '.join(ARCHITECTURES)}"
    raise InputError(f"there is no architecture '{name}' here: {hint}")
