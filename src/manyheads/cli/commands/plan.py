"""`manyheads plan`: what must a layer cost, or what does a layer hold?"""

from __future__ import annotations

from dataclasses import Field, dataclass, fields
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import tyro

from manyheads.cli.options.problem_options import RuleOption
from manyheads.cli.render.answer import Answer, Flag
from manyheads.errors import InputError

if TYPE_CHECKING:
    from jaxtyping import Float32
    from numpy import ndarray

    from manyheads.problem.graph import Graph

Whole = Annotated[int | None, tyro.conf.arg(metavar="INT", help_behavior_hint="")]
File = Annotated[Path | None, tyro.conf.arg(metavar="FILE", help_behavior_hint="")]

IN_A_PLAN = ("context_length", "multiple", "save_heads", "save_map")  # to which the inverse questions have no answer
FEWEST_BITS, MOST_BITS = 0.01, 1024.0
MOST_BUDGET = 10**8


@dataclass(frozen=True, kw_only=True)
class Plan:
    """Say what is impossible, likely and guaranteed for a layer, and how to split it into heads.

    Given items, relations and d_model: the plan. Without relations, but with heads and key width: how many relations
    fit. Without d_model, but with a key budget: what d_model it would need. With --retrieve and --length another
    question: how many heads does a query need that must retrieve D things from T tokens (arXiv 2510.06662)?
    """

    items: Whole = None
    """Number of items m; a graph or an embedding file says it too."""
    relations: Whole = None
    """Number of relations m'; a graph file says it too."""
    d_model: Whole = None
    """Width of the embedding; an embedding file says it too."""
    rule: RuleOption = "max"
    """How heads are joined."""
    context_length: Whole = None
    """How many items a context has; the rule softmax asks for it."""
    graph: File = None
    """An edge list (.csv, .tsv), of which m', the largest degree and the skew are read off."""
    embedding: File = None
    """An embedding (.npy, .safetensors, .gguf), whose incoherence says what the constructions may promise on it."""
    tensor: Annotated[str | None, tyro.conf.arg(metavar="NAME", help_behavior_hint="")] = None
    """Which tensor is the embedding, where a safetensors file holds several."""
    heads: Whole = None
    """With --key-width: how many relations fit into so many heads?"""
    key_width: Whole = None
    """Width of each of these heads."""
    key_heads: Whole = None
    """Key heads that the query heads share in equal groups (GQA; 1 is MQA)."""
    key_budget: Whole = None
    """Instead of d_model: what d_model would this D_K need?"""
    bits: float = 16.0
    """Bits a weight is stored in, for what is impossible."""
    multiple: Whole = None
    """Also plan with key widths that are multiples of this, such as 8 or 16, and say what that costs."""
    measure: Flag = False
    """Train at the recommended point and its neighbours, and say whether the advice held (exit code 1 if not)."""
    seeds: int = 3
    """How many seeds --measure trains with."""
    retrieve: Whole = None
    """With --length: how many heads does a query need that must retrieve so many things, D?"""
    length: Whole = None
    """T, the tokens they are retrieved from."""
    input_width: Whole = None
    """With --retrieve: d, the width of a token, for the one head that memorises the sequence."""
    save_heads: File = None
    """Where to draw the key budget against the number of heads; .png and .svg are written."""
    save_map: File = None
    """Where to draw the capacity map: relations against d_model for several key budgets."""
    force: Flag = False
    """Overwrite files that exist."""
    json: Flag = False
    """Print JSON instead of a table."""

    def run(self) -> Answer:
        """Find out which of the three questions was asked, and answer it."""
        if self.retrieve is not None or self.length is not None or self.input_width is not None:
            return self._retrieve()
        from manyheads.cli.render import plan_table as planned

        graph, embedding = self.read()
        of_graph = (None, None) if graph is None else (graph.items, graph.relations)
        items = self._said("items", self.items, of_graph[0], None if embedding is None else len(embedding))
        relations = self._said("relations", self.relations, of_graph[1])
        d_model = self._said("d_model", self.d_model, None if embedding is None else embedding.shape[1])
        if items is None:
            raise InputError("how many items are there? give --items, or a graph or an embedding file")
        self._check_shape(relations, d_model)
        if relations is None and d_model is not None:
            return planned.relations_that_fit(self, items, d_model, embedding)
        if d_model is None and relations is not None:
            return planned.d_model_needed(self, items, relations, graph)
        if relations is None or d_model is None:
            raise InputError("a plan needs --relations and --d-model; leave out one of them to ask for it")
        return planned.planned(self, items, relations, d_model, graph, embedding)

    def _retrieve(self) -> Answer:
        """The other paper's question, to which the items, relations and files of this one say nothing."""
        from manyheads.cli.render.retrieval_table import retrieval_planned

        if self.retrieve is None or self.length is None:
            raise InputError("how many heads a query needs depends on two numbers: give --retrieve and --length")
        ours = {"retrieve", "length", "input_width", "key_width", "json"}
        strange = [field.name for field in fields(self) if field.name not in ours and _was_given(self, field)]
        if strange:
            raise InputError(f"--{strange[0].replace('_', '-')} says nothing about retrieval: leave it out")
        return retrieval_planned(self.retrieve, self.length, width=self.key_width, input_width=self.input_width)

    def read(self) -> tuple[Graph | None, Float32[ndarray, "items d_model"] | None]:
        """The graph and the embedding, where files were given."""
        from manyheads.files import read_embedding, read_graph

        if self.embedding is None and self.tensor is not None:
            raise InputError("--tensor names a tensor of the embedding's file: give --embedding")
        embedding = None if self.embedding is None else read_embedding(self.embedding, tensor=self.tensor)
        items = self.items if embedding is None else len(embedding)
        return None if self.graph is None else read_graph(self.graph, items=items), embedding

    def _said(self, name: str, *values: int | None) -> int | None:
        """What was said about a number, by an option or by a file; two different answers are a misunderstanding."""
        said = sorted({value for value in values if value is not None})
        if len(said) > 1:
            raise InputError(f"{name} is given as {said[0]} and as {said[1]}")
        return said[0] if said else None

    def _check_shape(self, relations: int | None, d_model: int | None) -> None:
        if self.seeds < 1:
            raise InputError(f"--seeds is at least 1, not {self.seeds}")
        if not FEWEST_BITS <= self.bits <= MOST_BITS:
            raise InputError(f"--bits is from {FEWEST_BITS:g} to {MOST_BITS:g}, not {self.bits:g}")
        asked_for_relations = relations is None and d_model is not None
        if asked_for_relations and (self.heads is None or self.key_width is None):
            raise InputError("how many relations fit depends on the heads: give --heads and --key-width")
        if not asked_for_relations and (self.heads is not None or self.key_width is not None):
            raise InputError("--heads and --key-width ask how many relations fit: leave out --relations")
        asked_for_d_model = d_model is None and relations is not None
        if asked_for_d_model and self.key_budget is None:
            raise InputError("what d_model is needed depends on the key budget: give --key-budget")
        if not asked_for_d_model and self.key_budget is not None:
            raise InputError("--key-budget asks what d_model is needed: leave out --d-model")
        if self.key_budget is not None and self.key_budget < 1:
            raise InputError(f"--key-budget is at least 1, not {self.key_budget}")
        if self.key_budget is not None and self.key_budget > MOST_BUDGET:
            raise InputError(f"--key-budget is at most {MOST_BUDGET:,}, not {self.key_budget:,}")
        if self.measure and (asked_for_relations or asked_for_d_model):
            raise InputError("--measure goes with a plan: give --relations and --d-model")
        inverse = asked_for_relations or asked_for_d_model
        strange = [name for name in IN_A_PLAN if inverse and getattr(self, name) is not None]
        if asked_for_d_model and self.key_heads is not None:
            strange.append("key_heads")
        if strange:
            raise InputError(f"--{strange[0].replace('_', '-')} goes with a plan: give --relations and --d-model")


def _was_given(asked: Plan, field: Field[Any]) -> bool:
    return bool(getattr(asked, field.name) != field.default)
