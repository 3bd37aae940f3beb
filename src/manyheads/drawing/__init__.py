"""Pictures from values, one function each, in the style of `style`. `draw` finds the picture of a value."""

from __future__ import annotations

from typing import TYPE_CHECKING

from manyheads.errors import InputError

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from manyheads.problem.problem import Problem

__all__ = ["draw"]


def draw(value: object, problem: Problem | None = None) -> Figure:
    """The picture of a value. In a notebook it shows itself; `figure.savefig("x.png")` writes it.

    Args:
        value: A capacity (scores against the key budget), a plan (key budgets against heads), the heads of a block, or
            a layer or fit (its scores, with the problem).
        problem: The problem of a layer.

    Returns:
        A figure of matplotlib.

    Raises:
        InputError: The value has no picture, or the problem is missing.
    """
    from manyheads.block.head_roles import HeadWork
    from manyheads.capacity import Capacity
    from manyheads.drawing.capacity import draw_capacity
    from manyheads.drawing.layer_pictures import draw_heads, draw_scores, layer_scores
    from manyheads.fitting import FitResult
    from manyheads.layer.layer import Layer

    layer = value.layer if isinstance(value, FitResult) else value
    if isinstance(layer, Layer):
        if problem is None:
            raise InputError("the picture of a layer shows its scores on a problem: draw(layer, problem)")
        return draw_scores([layer_scores(layer, problem)])
    if isinstance(value, Capacity):
        return draw_capacity(value)
    if isinstance(value, HeadWork):
        return draw_heads(value, title="heads")
    picture = getattr(value, "picture", None)
    if not callable(picture):
        kinds = "a Capacity, a Plan, a HeadWork, a Layer or a FitResult"
        raise InputError(f"a value of the type {type(value).__name__} has no picture: draw takes {kinds}")
    figure: Figure = picture()
    return figure
