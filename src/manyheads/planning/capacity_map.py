"""What the pictures of a plan show, as rows."""

from __future__ import annotations

import numpy as np

from manyheads.bounds import Shape, constraint_positives, freedom_needed
from manyheads.bounds.inverse import relations_by_bits
from manyheads.drawing.plan import CapacityMap, HeadCurve
from manyheads.planning.advice import Plan

HEADS = (1, 2, 3, 4, 6, 8, 12, 16, 24, 32, 48, 64, 96, 128, 192, 256)


def capacity_map(*, items: int, widest: int, key_budgets: tuple[int, ...]) -> CapacityMap:
    """The relations one layer holds over d_model, for each key budget; what is likely ends at half of all pairs."""
    d_models = np.geomspace(16, widest, 25)
    impossible, likely = np.empty((2, len(key_budgets), len(d_models)))
    for row, budget in enumerate(key_budgets):
        for column, d_model in enumerate(np.rint(d_models).astype(int).tolist()):
            shapes = [
                Shape(d_model=d_model, heads=heads, key_width=budget // heads)
                for heads in HEADS
                if d_model >= budget // heads >= 1
            ]
            if not shapes:
                shapes = [Shape(d_model=d_model, heads=budget // d_model, key_width=d_model)]
            impossible[row, column] = relations_by_bits(shapes[0], items=items)
            heads, freedom = np.array([(shape.heads, shape.freedom) for shape in shapes]).T
            held = heads * items**2 * constraint_positives(freedom / items**2)
            likely[row, column] = min(float(held.max()), items * (items - 1) / 2)
    return CapacityMap(items, d_models, key_budgets, impossible, likely, np.array(key_budgets, dtype=np.float64))


def map_around(advice: Plan) -> CapacityMap:
    """The map for a quarter, half, all and twice of the recommended key budget."""
    budget = advice.recommended.key_budget
    budgets = tuple(max(1, budget * part // 4) for part in (1, 2, 4, 8))
    return capacity_map(items=advice.items, widest=max(256, 4 * advice.d_model), key_budgets=budgets)


def head_curve(advice: Plan) -> HeadCurve:
    """The law's key budget for each head count, beside what the plan says."""
    counts = np.array([heads for heads in HEADS if heads <= max(32, 4 * advice.recommended.heads)])
    needed = np.asarray(freedom_needed(items=advice.items, relations=advice.relations, heads=counts))
    room = advice.d_model**2 - needed
    widths = advice.d_model - np.sqrt(np.maximum(room, 0.0))
    return HeadCurve(
        title=f"{advice.relations:,} relations, {advice.items:,} items, d_model {advice.d_model}, rule {advice.rule}",
        heads=counts.astype(np.float64),
        law=np.where(room >= 0, counts * np.maximum(1.0, np.ceil(widths)), np.inf),
        predicted=advice.predicted.key_budget,
        low=advice.predicted.low,
        high=advice.predicted.high,
        bit_bound=advice.bit_bound,
        paper_law=advice.paper_law,
        recommended=(advice.recommended.heads, advice.recommended.key_budget),
    )
