"""Tables of advice: plans, the relations that fit, the d_model that is needed, retrieval bounds, and audits."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from rich.console import RenderableType
from rich.table import Table
from rich.text import Text

from manyheads.bounds.head_bounds import FewerHeads, RetrievalBounds
from manyheads.bounds.shape import Architecture, Shape
from manyheads.cli.render.answer import pairs_table, shown_notes
from manyheads.layer.rules import MAX, Rule
from manyheads.planning import AdviceCheck, Plan, Promise, RelationsThatFit, WidthNeeded
from manyheads.planning.guarantee import ROWS
from manyheads.planning.layer_plan import alternative
from manyheads.planning.model_audit import REACH, Audit, WeightGeometry
from manyheads.planning.sharing import CONTEXT_LENGTH, Comparison, LayerCost, sharing_price
from manyheads.problem.graph_kinds import RELATION_SLOPE
from manyheads.tables import counted, in_heads
from manyheads.text import shown_text

NO_ASSUMPTION = "any real weights, no assumption"


def shown_plan(advice: Plan, context_length: int) -> list[RenderableType]:
    """A plan: what is impossible, likely and guaranteed, the recommended split, its alternatives and its cost."""
    predicted, best, cost = advice.predicted, advice.recommended, cost_of(advice, context_length)
    margin = "" if advice.margin_bound is None else f", < {advice.margin_bound:.3g} (margin 1/(2·d_model))"
    weights, products = cost["parameters"], cost["multiply_adds"]
    rows = [
        ("impossible", f"D_K < {advice.bit_bound:.3g} (bit budget){margin}"),
        *_unconditional(advice),
        ("regime", f"{advice.regime.name}: D_K grows as {advice.regime.form}"),
        ("laws", f"D_K {advice.freedom_law:.0f} (degrees of freedom), {advice.paper_law:.0f} (the paper's fit)"),
        ("predicted", f"D_K* {predicted.key_budget:.0f}, from {predicted.low:.0f} to {predicted.high:.0f} in 9 of 10"),
        ("guaranteed", _guaranteed(advice)),
        ("recommended", f"{in_heads(best.heads, best.key_width)}, D_K {best.key_budget}: {advice.reason}"),
        *(("or", alternative(one)) for one in advice.alternatives),
        *_friendly(advice),
        (
            "cost",
            f"{weights:,} weights, {products:,} multiply-adds for {context_length} items, "
            f"D_Q + D_K {2 * best.key_budget}",
        ),
        ("bits per weight", str(advice.bits_per_weight)),
        *_grouped(advice),
    ]
    return [pairs_table(rows), *shown_notes(advice.notes)]


def _unconditional(advice: Plan) -> list[tuple[str, str]]:
    """The bound without an assumption, and the share of graphs that the largest budget below it holds."""
    least, share = advice.unconditional_bound, advice.log2_share_below
    if least is None:
        return []
    below = "" if share is None else f"; D_K {least - 1} holds at most 2^{share:.0f} of all such graphs"
    return [("", f"D_K < {least} ({NO_ASSUMPTION}){below}")]


def _unconditional_beyond(answer: RelationsThatFit) -> list[tuple[str, str]]:
    most = answer.unconditional_beyond
    if most is None:
        return []
    if most == answer.items * (answer.items - 1):
        return [("", f"nothing: {NO_ASSUMPTION}")]
    return [("", impossible(most, answer.items, NO_ASSUMPTION))]


def cost_of(advice: Plan, context_length: int) -> dict[str, int]:
    """The weights and multiply-adds of the recommended layer."""
    shape = advice.shape
    return {
        "context_length": context_length,
        "parameters": shape.parameters,
        "multiply_adds": shape.multiply_adds(context_length),
    }


def shown_promise(promise: Promise | None) -> list[RenderableType]:
    """The embedding's incoherence, and the matching sizes at which the constructions work on it."""
    if promise is None:
        return []
    worst = promise.worst
    profile = f"ε_d {worst.epsilon:.3g}, ρ {worst.rho:.3g}, γ {worst.gamma:.3g} over sets of {worst.matching_size}"
    if promise.matching_size is None:
        says = f"nothing: no width works at any matching size of {', '.join(map(str, promise.tried))}"
    else:
        says = (
            f"matchings of {promise.matching_size} in {counted(promise.heads or 0, 'head')}, once these are wide enough"
        )
    return [pairs_table([("incoherence", profile), ("constructions promise", says)])]


def shown_checks(checks: Sequence[AdviceCheck]) -> list[RenderableType]:
    """The splits that were trained, and whether the advice held."""
    if not checks:
        return []
    table = Table(box=None, padding=(0, 2, 0, 0))
    table.add_column("trained")
    for name in ("heads", "width", "D_K", "F1"):
        table.add_column(name, justify="right")
    for check in checks:
        mean = "unfinished" if check.mean is None else f"{check.mean:.4f}"
        table.add_row(check.name, str(check.heads), str(check.key_width), str(check.key_budget), mean)
    verdict = "the advice held" if checks[0].reached else "the advice did not hold: F1 stayed below 0.99"
    return [Text(), table, Text(verdict, style="bold")]


def shown_relations(answer: RelationsThatFit, *, bits: float) -> list[RenderableType]:
    """The number of relations that fit into given heads."""
    shape, other = answer.shape, _other_rule(answer.rule)
    each = "head" if answer.guaranteed_by_heads else "dimension of the keys"
    proved = f"{answer.guaranteed:,} relations: one for each {each}, {ROWS}" if answer.guaranteed is not None else ""
    storage = f"{bits:g} bits in each of {shape.parameters:,} weights"
    side = "half the weights" if shape.is_shared else "D_K·d_model"
    rows = [
        ("impossible", impossible(answer.impossible_beyond, answer.items, storage)),
        *_unconditional_beyond(answer),
        (
            "likely",
            f"{answer.likely:,} relations: the degrees-of-freedom law, an estimate for rows like random ones{other}",
        ),
        (
            "paper's law",
            f"{answer.paper_law:,} relations: {side}/({RELATION_SLOPE}·log2 m), the law solved for m'{other}",
        ),
        ("guaranteed", proved or str(answer.unproved)),
        ("bits per weight", f"{answer.bits_per_weight}, by the degrees-of-freedom law"),
        *cost_rows(shape, answer.cost),
    ]
    sides = f"D_Q {shape.query_budget}, D_K {shape.key_budget}" if shape.is_shared else f"D_K {shape.query_budget}"
    return [Text(f"{shape.words()}, {sides}, d_model {shape.d_model}, {answer.items:,} items"), pairs_table(rows)]


def cost_rows(shape: Shape, cost: LayerCost) -> list[tuple[str, str]]:
    """The cached numbers and degrees of freedom of a layer, and the loss by shared keys."""
    rows = [
        ("cache", f"{cost.key_budget:,} numbers for each token; {cost.bits_per_cached_number:.3g} bits in each number"),
        ("freedom", f"{cost.freedom:,} degrees of freedom in {cost.weights:,} weights"),
    ]
    if cost.loss is not None:
        saved = f"saves {1 - cost.key_budget / shape.query_budget:.0%} of the cache"
        saved += f" and {1 - cost.weights / shape.unshared.parameters:.0%} of the weights"
        rows.append(("shared keys", f"{saved}, and holds {cost.loss}"))
    return rows


def shown_architectures(architectures: Sequence[Architecture]) -> list[RenderableType]:
    """Every known model, with the shape of its layers."""
    table = Table(box=None, padding=(0, 1, 0, 0))
    table.add_column("model", no_wrap=True)
    for name in ("layers", "d_model", "heads", "key heads", "key width", "latent", "cached", "tokens"):
        table.add_column(name, justify="right", no_wrap=" " not in name)
    for model in architectures:
        shape = model.shape
        groups = "" if shape.latent else str(shape.groups)
        numbers = (model.layers, shape.d_model, shape.heads, groups, shape.key_width, shape.latent or "")
        table.add_row(model.name, *map(str, numbers), f"{shape.key_budget:,}", f"{model.vocabulary or 0:,}")
    return [table]


def shown_comparison(comparison: Comparison) -> list[RenderableType]:
    """Two layers side by side, and the second over the first."""
    first, second = comparison.costs
    table = Table(box=None, padding=(0, 2, 0, 0))
    table.add_column("")
    for name in (*comparison.names, "second / first"):
        table.add_column(shown_text(name).replace(",", ", "), justify="right", overflow="fold")
    table.add_row("shape", *(shape.words() for shape in comparison.shapes), "")
    table.add_row("d_model", *(f"{shape.d_model:,}" for shape in comparison.shapes), "")
    for label, name in COSTS.items():
        one, other = getattr(first, name), getattr(second, name)
        table.add_row(label, _cost_text(one), _cost_text(other), f"{other / one:.3g}" if one else "")
    losses = [cost.loss for cost in comparison.costs]
    if any(losses):
        table.add_row("of own keys, measured", *("own keys" if loss is None else str(loss) for loss in losses), "")
    head = f"one layer of each, {comparison.items:,} items; relations and bits by the degrees-of-freedom law"
    return [Text(head), table]


COSTS = {
    "D_Q": "query_budget",
    "D_K, cached for each token": "key_budget",
    "weights": "weights",
    "degrees of freedom": "freedom",
    f"multiply-adds a token, over {CONTEXT_LENGTH:,}": "multiply_adds",
    "relations, likely": "relations",
    "bits per weight": "bits_per_weight",
    "bits per cached number": "bits_per_cached_number",
}


def _cost_text(value: int | float) -> str:
    return f"{value:,}" if isinstance(value, int) else f"{value:.3g}"


def shown_width(answer: WidthNeeded) -> list[RenderableType]:
    """The d_model that a key budget needs."""
    other = _other_rule(answer.rule)
    likely = "no d_model" if answer.likely_from is None else f"d_model {answer.likely_from:,}"
    rows = [
        ("impossible below", f"d_model {answer.impossible_below:,}: the bit budget"),
        *(
            [("", f"d_model {answer.unconditional_below:,}: {NO_ASSUMPTION}")]
            if answer.unconditional_below is not None
            else []
        ),
        ("likely from", f"{likely}: the degrees-of-freedom law at its best split{other}"),
        ("paper's law", f"d_model {answer.paper_law:,}: slope·m'·log2 m/D_K{other}"),
        *(
            [("bits per weight", f"{answer.bits_per_weight}, by the degrees-of-freedom law")]
            if answer.bits_per_weight is not None
            else []
        ),
    ]
    head = f"{answer.relations:,} relations among {answer.items:,} items in a key budget of D_K {answer.key_budget}"
    return [Text(head), pairs_table(rows)]


def impossible(relations: int, items: int, bits: str) -> str:
    """The relations that a number of bits excludes; none if the bits are enough for every pair."""
    if relations == items * (items - 1):
        return f"nothing: {bits} tell all graphs on {items:,} items apart"
    return f"more than {relations:,} relations among {items:,} items: {bits}"


def shown_retrieval(bounds: RetrievalBounds) -> list[RenderableType]:
    """The bounds of arXiv 2510.06662 for one task, in its symbols where it states no constant."""
    dimension, length = bounds.dimension, bounds.length
    enough = in_heads(bounds.sufficient_heads, bounds.sufficient_width)
    width = f"{length:,}·d" if bounds.memorising_width is None else f"{bounds.memorising_width:,}"
    rows = [
        ("sufficient", f"{enough}: M > C/ε^γ, whatever the length"),
        *((in_heads(one.heads, bounds.width), _fewer(one)) for one in bounds.fewer),
        ("one that memorises", f"1 head of width T·d = {width}: M > C/ε^(1+γ)"),
    ]
    notes = [
        f"the theorems ask that every S_i has at least {bounds.least_subset} of the {length} tokens, a quarter",
        "M counts the parameters of the two MLPs; C, γ and the constant in Ω depend on f_i and F0 and are not stated",
    ]
    if bounds.fewer:
        notes.append("the paper conjectures, without a proof, that L layers of h heads are enough if L·h ≥ D")
    things = f"{dimension} thing{'' if dimension == 1 else 's'}"
    head = f"retrieve {things} from {length:,} tokens, with an error of at most ε"
    return [Text(head), pairs_table(rows), *shown_notes(notes)]


def shown_audit(report: Audit) -> list[RenderableType]:
    """A model's shape, the laws, and what they say of its split and of shared keys."""
    model, shape = report.architecture, report.architecture.shape
    best = in_heads(report.best_heads, shape.query_budget // report.best_heads)
    held = f"{report.by_best_split / max(1, report.without_sharing):.2f} times as many"
    held += ", both with own keys" if shape.is_shared else ""
    near = "near the best by the law" if report.is_near_best else "not the best by the law"
    rows = [
        ("layers", f"{model.layers}, all alike"),
        ("shape", f"{shape.words()}, d_model {shape.d_model}"),
        ("key budget", f"D_Q {shape.query_budget:,}, D_K {shape.key_budget:,}"),
        ("impossible", impossible(report.by_bits, report.items, "16 bits a weight")),
        (
            "likely",
            f"{report.by_freedom:,} relations, {report.by_freedom / report.items:.3g} an item: degrees-of-freedom law",
        ),
        ("paper's law", f"{report.by_paper:,} relations"),
        ("bits per weight", f"{report.bits_per_weight}, by the degrees-of-freedom law"),
        ("split", f"{near}: {best} would hold {held}"),
    ]
    rows += cost_rows(shape, report.cost)
    if model.position_width:
        rows.append(
            (
                "positions",
                f"{model.position_width} further dimensions of each head, whose keys all heads share, carry positions: "
                f"{model.position_width} more numbers to cache; they are not counted here",
            )
        )
    rows += [("source", model.source), ("reach", REACH)]
    return [Text(shown_text(model.name), style="bold"), pairs_table(rows)]


def shown_geometry(architecture: Architecture, geometry: WeightGeometry) -> list[RenderableType]:
    """The geometry of a model's embedding, and a row for the heads of each layer."""
    embedding, profile = geometry.embedding, geometry.embedding.profile
    rows = [
        ("embedding", f"{embedding.rows:,} rows, {embedding.sampled:,} of them measured"),
        (
            "anisotropy",
            f"mean cosine {embedding.mean_cosine:.3f}, {embedding.mean_share:.1%} of the length along the mean",
        ),
        ("effective rank", f"{embedding.effective_rank:.0f} of {profile.d_model}"),
        (
            "incoherence",
            f"ρ {profile.rho:.3g} over sets of {profile.matching_size}; Gaussian rows {embedding.random_rho:.3g}",
        ),
    ]
    table = Table(box=None, padding=(0, 2, 0, 0))
    for name in ("layer", "effective rank, least … most of d_k", "raw score/√d_k, 1 % … 99 %, median head"):
        table.add_column(name, justify="right")
    for number in range(architecture.layers):
        here = [head for head in geometry.heads if head.layer == number]
        ranks = [head.effective_rank for head in here]
        low, high = (float(np.median([head.scores[place] for head in here])) for place in (0, -1))
        table.add_row(
            str(number), f"{min(ranks):.1f} … {max(ranks):.1f} of {architecture.key_width}", f"{low:.3g} … {high:.3g}"
        )
    return [Text(), pairs_table(rows), table]


def _guaranteed(advice: Plan) -> str:
    proof = advice.guaranteed
    return str(advice.unproved) if proof is None else f"D_K {proof.key_budget:,}: {proof.proof}"


def _friendly(advice: Plan) -> list[tuple[str, str]]:
    """The split into key widths that are multiples of the number given, and its price."""
    friendly = advice.friendly
    if friendly is None:
        return []
    shape = f"{in_heads(friendly.heads, friendly.key_width)}, D_K {friendly.key_budget}"
    return [("friendly", f"{shape}: {advice.price:+.0%}")]


def _grouped(advice: Plan) -> list[tuple[str, str]]:
    """The layer with shared key heads, its cost, and the bits that its weights and its cache hold."""
    if advice.grouped is None:
        return []
    shape = advice.grouped
    weights, cached, (low, _, high) = shape.parameters, shape.key_budget, sharing_price(shape)
    words = f"{shape.words()}, D_Q {shape.query_budget}, D_K {cached}; measured layers needed {low:.2f} to {high:.2f}"
    cost = f"{weights:,} weights, {shape.all_freedom:,} degrees of freedom, {cached} numbers to cache for each token"
    bits = advice.bits_per_weight.log2_graphs
    held = f"{bits / weights:.3g} bits per weight, {bits / advice.items / cached:.3g} bits per cached number"
    return [("shared keys", f"{words} times these weights"), ("", cost), ("", held)]


def _fewer(one: FewerHeads) -> str:
    layers = f"{one.layers} layers may be enough"
    if not one.exponent:
        return f"the bound says nothing before T = {one.from_length:,}; {layers}"
    return f"M = Ω(ε^−{one.exponent:.3g}), the exponent growing with T; {layers}"


def _other_rule(rule: Rule) -> str:
    """The laws are measured for the rule max."""
    return "" if rule is MAX else f"; for the rule max, and {rule} takes more"
