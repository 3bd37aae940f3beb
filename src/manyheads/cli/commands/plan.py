"""`manyheads plan`: what must a layer cost, what does it hold, which d_model does it need, how many heads?"""

from __future__ import annotations

from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import tyro

from manyheads.cli.options.option_types import (
    Flag,
    Force,
    Json,
    KeyWidth,
    Picture,
    Tensor,
    Whole,
    check_pictures,
    refuse_other_picture,
)
from manyheads.cli.options.problem_options import MaybeEmbeddingWords, MaybeGraphWords, RuleName, load_parts
from manyheads.cli.render.answer import Answer, shown_files
from manyheads.errors import InputError

if TYPE_CHECKING:
    from numpy import ndarray
    from rich.console import RenderableType

    from manyheads.planning import Plan, Promise
    from manyheads.problem.embedding import Embedding
    from manyheads.problem.graph import Graph

CONTEXT_LENGTH = 16  # context length of the cost, if none is given

Items = Annotated[Whole, tyro.conf.arg(help="Number of items m; a graph or an embedding says it too.")]
Relations = Annotated[Whole, tyro.conf.arg(help="Number of relations m'; a graph says it too.")]
ModelWidth = Annotated[Whole, tyro.conf.arg(help="Width of the embedding; an embedding says it too.")]
KeyHeads = Annotated[Whole, tyro.conf.arg(help="Key heads that the query heads share in equal groups (GQA; 1 is MQA).")]


@dataclass(frozen=True, kw_only=True)
class StorageOptions:
    """How heads are joined and weights are stored."""

    rule: RuleName = "max"
    bits: float = 16.0
    """Bits in which a weight is stored; they decide what is impossible."""


@dataclass(frozen=True, kw_only=True)
class PlanBudgetCommand:
    """Say what a layer must cost that holds a number of relations, and how to split it into heads.

    The answer has the key budget that is impossible, likely and guaranteed, a recommended split and its alternatives.
    """

    items: Items = None
    relations: Relations = None
    d_model: ModelWidth = None
    heads: Whole = None
    """Number of heads, if it is fixed: how wide must these heads be? By default the number with the least D_K."""
    graph: MaybeGraphWords = None
    embedding: MaybeEmbeddingWords = None
    tensor: Tensor = None
    storage: tyro.conf.OmitArgPrefixes[StorageOptions] = field(default_factory=StorageOptions)
    context_length: Whole = None
    """Number of items in a context; the rule softmax needs it."""
    key_heads: KeyHeads = None
    multiple: Whole = None
    """Also plan with key widths that are multiples of this number, e.g. 8 or 16, and say what that costs."""
    measure: Flag = False
    """Train the recommended split and its neighbours; exit code 1 if the recommended split stays below F1 0.99."""
    seeds: int = 3
    """Number of seeds of --measure."""
    picture: Picture = None
    """Draw the key budget by heads (STEM-heads) and relations by d_model (STEM-map), as .png and .svg."""
    force: Force = False
    json: Json = False

    def run(self) -> Answer:
        """Plan, train if --measure is given, draw."""
        from manyheads.bounds import neighbours
        from manyheads.cli.render.advice_table import cost_of, shown_checks, shown_plan, shown_promise
        from manyheads.cli.render.progress import progress
        from manyheads.layer.rules import rule_named
        from manyheads.planning import AdviceCheck, check_advice, plan

        refuse_other_picture(self.picture)
        stems = [] if self.picture is None else [_suffixed(self.picture, "heads"), _suffixed(self.picture, "map")]
        check_pictures(stems, force=self.force)
        graph, embedding = load_parts(graph=self.graph, embedding=self.embedding, tensor=self.tensor, items=self.items)
        items, relations, d_model = _sizes(self.items, self.relations, self.d_model, graph, embedding)
        if relations is None or d_model is None:
            raise InputError(f"plan budget needs {'--relations' if relations is None else '--d-model'}")
        rows = None if embedding is None else embedding.rows
        advice = plan(
            items=items,
            relations=relations,
            d_model=d_model,
            heads=self.heads,
            rule=rule_named(self.storage.rule),
            context_length=self.context_length,
            max_degree=None if graph is None else graph.max_degree,
            permutation=None if graph is None else graph.is_permutation,
            bits=self.storage.bits,
            multiple=self.multiple,
            key_heads=self.key_heads,
            embedding=rows,
        )
        promise = None if rows is None else _promise(graph, rows, relations)
        one_head, notes = self._one_head(graph, embedding)
        checks: list[AdviceCheck] = []
        if self.measure:
            with progress("train") as report:
                checks = check_advice(advice, seeds=range(self.seeds), graph=graph, embedding=rows, progress=report)
        written = [] if not stems else _draw(advice, *stems, force=self.force)
        length = self.context_length or CONTEXT_LENGTH
        held = checks[0].reached if checks else None
        facts = asdict(advice) | {
            "promise": None if promise is None else asdict(promise),
            "checks": [asdict(check) | {"mean": check.mean, "reached": check.reached} for check in checks],
            "held": held,
            "one_head": one_head,
            "neighbours": [asdict(one) for one in neighbours(advice.shape, context_length=length)],
            "cost": cost_of(advice, length),
            "written": written,
        }
        shown = [*shown_plan(advice, length), *shown_promise(promise), *notes, *shown_checks(checks)]
        shown += shown_files(written)
        return Answer(facts=facts, shown=shown, yes=held is not False)

    def _one_head(
        self, graph: Graph | None, embedding: Embedding | None
    ) -> tuple[dict[str, object] | None, list[RenderableType]]:
        """Whether one head can hold this graph over this embedding; nothing where one of the two is not given."""
        from rich.text import Text

        from manyheads.cli.render.exclusion_table import beside, is_one_form
        from manyheads.layer.rules import rule_named
        from manyheads.problem.problem import Problem

        rule = rule_named(self.storage.rule)
        if graph is None or embedding is None or not is_one_form(rule, 1):
            return None, []
        given = {"graph": self.graph, "embedding": self.embedding, "tensor": self.tensor}
        facts, sentence = beside(Problem(graph, embedding), rule, given)
        return facts, [Text(sentence)]


@dataclass(frozen=True, kw_only=True)
class PlanRelationsCommand:
    """Say how many relations a layer of given heads holds: impossible beyond, likely, guaranteed."""

    items: Items = None
    d_model: ModelWidth = None
    embedding: MaybeEmbeddingWords = None
    tensor: Tensor = None
    heads: int
    """Number of query heads."""
    key_width: KeyWidth
    key_heads: KeyHeads = None
    latent: Whole = None
    """Width of a latent from which the keys of all heads are made (MLA)."""
    storage: tyro.conf.OmitArgPrefixes[StorageOptions] = field(default_factory=StorageOptions)
    json: Json = False

    def run(self) -> Answer:
        """Read the laws and bounds backwards."""
        from manyheads.bounds import Shape
        from manyheads.cli.render.advice_table import shown_relations
        from manyheads.layer.rules import rule_named
        from manyheads.planning import relations_that_fit

        _, embedding = load_parts(graph=None, embedding=self.embedding, tensor=self.tensor, items=self.items)
        items, _, d_model = _sizes(self.items, None, self.d_model, None, embedding)
        if d_model is None:
            raise InputError("plan relations needs --d-model, or an embedding, which says it too")
        shape = Shape(
            d_model=d_model,
            heads=self.heads,
            key_width=self.key_width,
            key_heads=self.key_heads,
            latent=self.latent,
        )
        rows = None if embedding is None else embedding.rows
        answer = relations_that_fit(
            shape, items=items, rule=rule_named(self.storage.rule), bits=self.storage.bits, embedding=rows
        )
        return Answer(facts=asdict(answer), shown=shown_relations(answer, bits=self.storage.bits), yes=True)


@dataclass(frozen=True, kw_only=True)
class PlanWidthCommand:
    """Say which d_model a key budget needs to hold a number of relations."""

    items: Items = None
    relations: Relations = None
    graph: MaybeGraphWords = None
    key_budget: int
    """D_K, the sum of the heads' widths."""
    storage: tyro.conf.OmitArgPrefixes[StorageOptions] = field(default_factory=StorageOptions)
    json: Json = False

    def run(self) -> Answer:
        """Read the laws and bounds backwards."""
        from manyheads.cli.render.advice_table import shown_width
        from manyheads.layer.rules import rule_named
        from manyheads.planning import d_model_needed

        graph, _ = load_parts(graph=self.graph, embedding=None, items=self.items)
        items, relations, _ = _sizes(self.items, self.relations, None, graph, None)
        if relations is None:
            raise InputError("plan width needs --relations, or a graph, which says it too")
        answer = d_model_needed(
            items=items,
            relations=relations,
            key_budget=self.key_budget,
            rule=rule_named(self.storage.rule),
            bits=self.storage.bits,
            permutation=None if graph is None else graph.is_permutation,
        )
        return Answer(facts=asdict(answer), shown=shown_width(answer), yes=True)


@dataclass(frozen=True, kw_only=True)
class PlanRetrievalCommand:
    """Say how many heads a query needs that must retrieve D things from T tokens (arXiv 2510.06662)."""

    retrieve: int
    """D, how many things are retrieved."""
    context_length: int
    """T, the number of tokens."""
    key_width: Whole = None
    """Width of each head, for the bounds on fewer than D heads."""
    input_width: Whole = None
    """d, the width of a token, for the one head that memorises the sequence."""
    json: Json = False

    def run(self) -> Answer:
        """The theorems' bounds for these numbers."""
        from manyheads.bounds.head_bounds import SUFFICIENT_WIDTH, retrieval_bounds
        from manyheads.cli.render.advice_table import shown_retrieval

        bounds = retrieval_bounds(
            dimension=self.retrieve,
            length=self.context_length,
            width=SUFFICIENT_WIDTH if self.key_width is None else self.key_width,
            input_width=self.input_width,
        )
        return Answer(facts=asdict(bounds), shown=shown_retrieval(bounds), yes=True)


def _sizes(
    items: int | None, relations: int | None, d_model: int | None, graph: Graph | None, embedding: Embedding | None
) -> tuple[int, int | None, int | None]:
    """Items, relations and d_model, by the options or by graph and embedding; a contradiction is refused."""
    counts = {"items": [items], "relations": [relations], "d_model": [d_model]}
    if graph is not None:
        counts["items"].append(graph.items)
        counts["relations"].append(graph.relations)
    if embedding is not None:
        counts["items"].append(embedding.items)
        counts["d_model"].append(embedding.d_model)
    agreed = {name: _agreed(name, values) for name, values in counts.items()}
    if agreed["items"] is None:
        raise InputError("the number of items is missing: give --items, a graph or an embedding")
    return agreed["items"], agreed["relations"], agreed["d_model"]


def _agreed(name: str, values: list[int | None]) -> int | None:
    said = sorted({value for value in values if value is not None})
    if len(said) > 1:
        raise InputError(f"{name} is given as {said[0]} and as {said[1]}")
    return said[0] if said else None


def _promise(graph: Graph | None, rows: ndarray, relations: int) -> Promise | None:
    """The block size that the constructions reach on the rows; for a random graph if no graph is given."""
    from manyheads.planning.guarantee import MOST_ITEMS, promise
    from manyheads.problem.graph_generators import random_graph

    if len(rows) > MOST_ITEMS:
        return None
    return promise(random_graph(len(rows), relations, seed=0) if graph is None else graph, rows)


def _suffixed(stem: Path, what: str) -> Path:
    from manyheads.files.atomic_files import picture_files

    return stem.with_name(f"{picture_files(stem)[0].stem}-{what}")


def _draw(advice: Plan, heads: Path, map: Path, *, force: bool) -> list[Path]:
    from manyheads.drawing.plan import draw_capacity_map, draw_head_curve
    from manyheads.drawing.style import pack_picture
    from manyheads.files import write_together
    from manyheads.planning.answers import head_curve, map_around

    files = pack_picture(draw_head_curve(head_curve(advice)), heads)
    files |= pack_picture(draw_capacity_map(map_around(advice)), map)
    write_together(files, force=force)
    return list(files)
