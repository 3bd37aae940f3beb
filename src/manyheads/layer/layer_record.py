"""LayerRecord: the origin of a layer and the certificate that it was given, for its file and for later questions."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from jaxtyping import Float
from numpy import ndarray

from manyheads.errors import InputError

VERDICTS = ("holds", "refuted", "not proved")


@dataclass(frozen=True, eq=False, kw_only=True)
class LayerRecord:
    """The origin and the certificate of a layer. They are about its weights, threshold and rule, and no others.

    The record of a file is a statement of the file, and no proof: `manyheads.certify` proves it again.

    Attributes:
        weights: `Layer.fingerprint` of the layer that the record is about; a layer with another one drops the record.
        graph: `Graph.fingerprint` of the graph of the certificate.
        embedding: `Embedding.fingerprint` of the rows of the certificate.
        certificate: The certificate as plain JSON values (`Certificate.to_json`).
        provenance: Facts on the origin of the layer, by name.
        rows: The rows of the items. They stay in memory: a file does not have them, and then this is None.

    Raises:
        InputError: The certificate has no verdict, sizes or context lengths that make sense.
    """

    weights: str
    graph: str
    embedding: str
    certificate: Mapping[str, object]
    provenance: Mapping[str, str | int]
    rows: Float[ndarray, "items d_model"] | None = None

    def __post_init__(self) -> None:
        lengths, precisions = self.certificate.get("context_lengths"), self.certificate.get("precisions", {})
        sizes = [self.certificate.get(name) for name in ("items", "relations")]
        sound = (
            self.certificate.get("verdict") in VERDICTS
            and all(type(size) is int and size >= 0 for size in sizes)
            and (lengths is None or _is_range(lengths))
            and isinstance(precisions, Mapping)
            and all(type(value) is bool for value in precisions.values())
            and all(isinstance(text, str) for text in (self.weights, self.graph, self.embedding))
        )
        if not sound:
            raise InputError("the certificate of the layer has no verdict, sizes and context lengths that make sense")

    @property
    def holds(self) -> bool:
        """Whether the certificate says that the layer recognises the graph."""
        return self.certificate["verdict"] == "holds"

    @property
    def context_lengths(self) -> tuple[int, int] | None:
        """The least and the greatest length of a context of the certificate; None: every length."""
        lengths = self.certificate.get("context_lengths")
        return (lengths[0], lengths[1]) if isinstance(lengths, (list, tuple)) else None

    def covers(self, length: int) -> bool:
        """Whether the certificate says that the layer is right in every context of this length.

        Args:
            length: The number of items of the context.
        """
        lengths = self.context_lengths
        return self.holds and (lengths is None or lengths[0] <= length <= lengths[1])

    @property
    def contexts(self) -> str:
        """The contexts of the certificate in words."""
        return contexts_in_words(self.context_lengths)

    def __str__(self) -> str:
        """The verdict in words, e.g. "holds 64 relations of 64 items in every context of length 8"."""
        sizes = f"{self.certificate['relations']:,} relations of {self.certificate['items']:,} items"
        words = "holds" if self.holds else f"{self.certificate['verdict']}:"
        return f"{words} {sizes} in {self.contexts}"


def contexts_in_words(lengths: tuple[int, int] | None) -> str:
    """The contexts between a least and a greatest length in words; None: of every length."""
    if lengths is None:
        return "every context of every length"
    shortest, longest = lengths
    return f"every context of length {shortest}" + (f" to {longest}" if longest > shortest else "")


def _is_range(lengths: object) -> bool:
    """Whether a value is the least and the greatest length of a context."""
    whole = isinstance(lengths, (list, tuple)) and len(lengths) == 2 and all(type(one) is int for one in lengths)
    return whole and 1 <= lengths[0] <= lengths[1]  # type: ignore[index]
