"""The three answers of `manyheads plan`: a plan, the relations that fit, the d_model that is needed."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path

from jaxtyping import Float32
from numpy import ndarray
from rich.console import RenderableType
from rich.table import Table
from rich.text import Text

from manyheads.bounds import Shape, inverse, neighbours
from manyheads.cli.commands import plan as command
from manyheads.cli.render.answer import Answer
from manyheads.cli.render.certificate_table import impossible, in_heads, pairs_table, shown_files, shown_notes
from manyheads.cli.render.progress_line import progress
from manyheads.errors import InputError
from manyheads.files import check_writable
from manyheads.files.atomic_files import picture_files
from manyheads.planning import Plan, Trial, plan, trials
from manyheads.planning.guarantee import ROWS, one_each_objection
from manyheads.planning.promise import MOST_ITEMS, Promise, promise
from manyheads.problem.graph import Graph
from manyheads.problem.graph_generators import random_graph


def planned(
    asked: command.Plan,
    items: int,
    relations: int,
    d_model: int,
    graph: Graph | None,
    embedding: Float32[ndarray, "items d_model"] | None,
) -> Answer:
    """The plan, with what the embedding promises and what training says where that was asked for."""
    stems = _stems(asked)
    advice = plan(
        relations=relations,
        items=items,
        d_model=d_model,
        rule=asked.rule,
        context_length=asked.context_length,
        max_degree=None if graph is None else graph.max_degree,
        bits=asked.bits,
        multiple=asked.multiple,
        key_heads=asked.key_heads,
        embedding=embedding,
    )
    promised = None if embedding is None else _promised(items, relations, graph, embedding)
    tried: list[Trial] = []
    if asked.measure:
        with progress("train") as report:
            tried = trials(advice, seeds=range(asked.seeds), graph=graph, embedding=embedding, progress=report)
    written = _draw(stems, advice)
    facts = asdict(advice) | {
        "promise": None if promised is None else asdict(promised),
        "trials": [asdict(trial) | {"mean": trial.mean, "reached": trial.reached} for trial in tried],
        "held": tried[0].reached if tried else None,
        "neighbours": [asdict(one) for one in neighbours(_shape(advice), context_length=asked.context_length or 16)],
        "cost": _cost(advice, asked.context_length or 16),
        "written": [str(path) for path in written],
    }
    shown = [*_shown(advice), *_shown_promise(promised), *_shown_trials(tried), *shown_files(written)]
    return Answer(facts=facts, shown=shown, yes=not tried or tried[0].reached)


def relations_that_fit(
    asked: command.Plan, items: int, d_model: int, embedding: Float32[ndarray, "items d_model"] | None
) -> Answer:
    """How many relations fit into given heads."""
    if asked.heads is None or asked.key_width is None:
        raise InputError("how many relations fit depends on the heads: give --heads and --key-width")
    shape = Shape(d_model=d_model, heads=asked.heads, key_width=asked.key_width, key_heads=asked.key_heads)
    beyond = inverse.relations_by_bits(shape, items=items, bits=asked.bits)
    # a head of width 1 for each relation; heads that share keys have a dimension of them each
    one_each = shape.groups * min(shape.heads // shape.groups, shape.key_width)
    objection = one_each_objection(d_model, rule=asked.rule, embedding=embedding)
    counts: dict[str, int | None] = {
        "impossible beyond": beyond,
        "likely": inverse.relations_by_freedom(shape, items=items),
        "paper's law": inverse.relations_by_paper(shape, items=items),
        "guaranteed": min(one_each, items * (items - 1)) if objection is None else None,
    }
    rule = _law_rule(asked)
    why = {
        "likely": f"the degrees-of-freedom law, an estimate for rows like random ones{rule}",
        "paper's law": f"D_K·d_model/(0.46·log2 m), read backwards{rule}",
        "guaranteed": f"one for each {'head' if one_each == shape.heads else 'dimension of the keys'}, {ROWS}",
    }
    bits = f"{asked.bits:g} bits in each of {shape.parameters:,} weights"
    rows = [
        ("impossible", impossible(beyond, items, bits)),
        *(
            (name, str(objection) if counts[name] is None else f"{counts[name]:,} relations: {says}")
            for name, says in why.items()
        ),
    ]
    sides = f"D_K {shape.query_budget}"
    if shape.groups != shape.heads:
        sides = f"D_Q {shape.query_budget}, D_K {shape.key_budget}"
    head = f"{in_heads(shape.heads, shape.key_width)}, {sides}, d_model {d_model}, {items:,} items"
    return Answer(
        facts={"items": items, "shape": asdict(shape), "relations": counts},
        shown=[Text(head), pairs_table(rows)],
        yes=True,
    )


def d_model_needed(asked: command.Plan, items: int, relations: int) -> Answer:
    """What d_model a key budget would need."""
    if asked.key_budget is None:
        raise InputError("what d_model is needed depends on the key budget: give --key-budget")
    if not 1 <= relations <= items * (items - 1):
        most = items * (items - 1)
        raise InputError(f"{relations} relations do not fit {items} items, which have {most} ordered pairs")
    budget = asked.key_budget
    widths = {
        "impossible below": inverse.d_model_by_bits(
            items=items, relations=relations, key_budget=budget, bits=asked.bits
        ),
        "likely from": inverse.d_model_by_freedom(items=items, relations=relations, key_budget=budget),
        "paper's law": inverse.d_model_by_paper(
            items=items, relations=relations, key_budget=budget, slope=1.19 if relations == items else 0.46
        ),
    }
    rule = _law_rule(asked)
    why = ("the bit budget", f"the degrees-of-freedom law at its best split{rule}", f"slope·m'·log2 m/D_K{rule}")
    rows = [
        (name, f"d_model {width:,}: {how}" if width is not None else f"no d_model: {how}")
        for (name, width), how in zip(widths.items(), why, strict=True)
    ]
    head = f"{relations:,} relations among {items:,} items in a key budget of D_K {budget}"
    return Answer(
        facts={"items": items, "relations": relations, "key_budget": budget, "d_model": widths},
        shown=[Text(head), pairs_table(rows)],
        yes=True,
    )


def _law_rule(asked: command.Plan) -> str:
    return "" if asked.rule == "max" else f"; for the rule max, and {asked.rule} takes more"


def _shown(advice: Plan) -> list[RenderableType]:
    predicted, best = advice.predicted, advice.recommended
    log = f"{advice.regime.name}: D_K grows as {advice.regime.form}"
    margin = "" if advice.margin_bound is None else f", < {advice.margin_bound:.3g} (margin 1/(2·d_model))"
    rows = [
        ("impossible", f"D_K < {advice.bit_bound:.3g} (bit budget){margin}"),
        ("regime", log),
        ("laws", f"D_K {advice.freedom_law:.0f} (degrees of freedom), {advice.paper_law:.0f} (the paper's fit)"),
        ("predicted", f"D_K* {predicted.key_budget:.0f}, from {predicted.low:.0f} to {predicted.high:.0f} in 9 of 10"),
        ("guaranteed", _guaranteed(advice)),
        ("recommended", f"{in_heads(best.heads, best.key_width)}, D_K {best.key_budget}: {advice.reason}"),
    ]
    rows += [("or", _loss(one.heads, one.key_width, one.loss)) for one in advice.alternatives]
    if advice.friendly is not None and advice.price is not None:
        friendly = advice.friendly
        text = f"{in_heads(friendly.heads, friendly.key_width)}, D_K {friendly.key_budget}"
        rows.append(("friendly", f"{text}: {advice.price:+.0%}"))
    if advice.grouped is not None:
        shape = advice.grouped
        sides = f"D_Q {shape.query_budget}, D_K {shape.key_budget}, {shape.parameters:,} weights"
        rows.append(("grouped", f"{in_heads(shape.heads, shape.key_width)}, {shape.groups} for keys: {sides}"))
    cost = _cost(advice, advice.context_length or 16)
    weights, multiplied, length = cost["parameters"], cost["multiply_adds"], cost["context_length"]
    rows.append(
        (
            "cost",
            f"{weights:,} weights, {multiplied:,} multiply-adds for {length} items, D_Q + D_K {2 * best.key_budget}",
        )
    )
    return [pairs_table(rows), *shown_notes(advice.notes)]


def _loss(heads: int, key_width: int, loss: float) -> str:
    change = f"{loss:.0%} fewer" if loss >= 0 else f"{-loss:.0%} more"
    return f"{in_heads(heads, key_width)}: holds {change} relations by the law"


def _guaranteed(advice: Plan) -> str:
    proof = advice.guaranteed
    return str(advice.unproved) if proof is None else f"D_K {proof.key_budget:,}: {proof.proof}"


def _shape(advice: Plan) -> Shape:
    return Shape(d_model=advice.d_model, heads=advice.recommended.heads, key_width=advice.recommended.key_width)


def _cost(advice: Plan, context_length: int) -> dict[str, int]:
    shape = _shape(advice)
    return {
        "context_length": context_length,
        "parameters": shape.parameters,
        "multiply_adds": shape.multiply_adds(context_length),
    }


def _promised(
    items: int, relations: int, graph: Graph | None, embedding: Float32[ndarray, "items d_model"]
) -> Promise | None:
    if items > MOST_ITEMS:
        return None
    return promise(random_graph(items, relations, seed=0) if graph is None else graph, embedding)


def _shown_promise(promised: Promise | None) -> list[RenderableType]:
    if promised is None:
        return []
    worst = promised.worst
    profile = f"ε_d {worst.epsilon:.3g}, ρ {worst.rho:.3g}, γ {worst.gamma:.3g} over sets of {worst.block_size}"
    if promised.block_size is None:
        says = f"nothing: no width works at any block size of {', '.join(map(str, promised.tried))}"
    else:
        says = f"blocks of {promised.block_size} in {promised.heads} heads, once these are wide enough"
    return [pairs_table([("incoherence", profile), ("constructions promise", says)])]


def _shown_trials(tried: list[Trial]) -> list[RenderableType]:
    if not tried:
        return []
    table = Table(box=None, padding=(0, 2, 0, 0))
    for name, justify in (
        ("trained", "left"),
        ("heads", "right"),
        ("width", "right"),
        ("D_K", "right"),
        ("F1", "right"),
    ):
        table.add_column(name, justify=justify)  # type: ignore[arg-type]
    for trial in tried:
        mean = "unfinished" if trial.mean is None else f"{trial.mean:.4f}"
        table.add_row(trial.what, str(trial.heads), str(trial.key_width), str(trial.key_budget), mean)
    verdict = "the advice held" if tried[0].reached else "the advice did not hold: F1 stayed below 0.99"
    return [Text(), table, Text(verdict, style="bold")]


def _stems(asked: command.Plan) -> dict[str, Path]:
    given = {"heads": asked.save_heads, "map": asked.save_map}
    stems = {what: path for what, path in given.items() if path is not None}
    files = [file for path in stems.values() for file in picture_files(path)]
    if len(set(files)) < len(files):
        raise InputError(f"--save-heads and --save-map would both write {files[0]}: give them different names")
    for file in files:
        check_writable(file, force=asked.force)
    return stems


def _draw(stems: dict[str, Path], advice: Plan) -> list[Path]:
    if not stems:
        return []
    from manyheads.drawing.plan import draw_capacity_map, draw_head_curve
    from manyheads.drawing.style import save
    from manyheads.planning.capacity_map import head_curve, map_around

    figures = {
        "heads": lambda: draw_head_curve(head_curve(advice)),
        "map": lambda: draw_capacity_map(map_around(advice)),
    }
    return [path for what, stem in stems.items() for path in save(figures[what](), stem)]
