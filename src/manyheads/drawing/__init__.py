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
        value: A capacity (scores against the key budget), an outcome (its course of training), a plan (key budgets
            against heads), its capacity map, an audit (relations against heads), an answer of `paper`, the heads of a
            block; or, with the problem, a layer, a fit, a search or an exclusion that found a layer (scores of pairs).
        problem: The problem of a layer.

    Returns:
        A figure of matplotlib.

    Raises:
        InputError: The value has no picture, or the problem is missing.
    """
    from manyheads.block.head_roles import HeadWork
    from manyheads.capacity import Capacity
    from manyheads.certificate.exclusion_proof import Exclusion
    from manyheads.drawing.capacity import draw_capacity
    from manyheads.drawing.layer_pictures import draw_heads, draw_scores, draw_training, layer_scores
    from manyheads.errors import require_type
    from manyheads.fitting import FitResult
    from manyheads.fitting.options import FitSearchResult
    from manyheads.layer.layer import Layer
    from manyheads.problem.problem import Problem
    from manyheads.training import Outcome

    layer = value.layer if isinstance(value, (FitResult, FitSearchResult, Exclusion)) else value
    if layer is None:
        raise InputError(f"the {type(value).__name__} has no layer, so there are no scores to draw")
    if isinstance(layer, Layer):
        if problem is None:
            raise InputError("the picture of a layer shows its scores on a problem: draw(layer, problem)")
        require_type(problem, Problem, "the second argument of draw")
        return draw_scores([layer_scores(layer, problem)])
    if isinstance(value, Capacity):
        return draw_capacity(value)
    if isinstance(value, Outcome):
        return draw_training(value)
    if isinstance(value, HeadWork):
        return draw_heads(value, title="heads")
    picture = getattr(value, "picture", None)
    if not callable(picture):
        kinds = "a Capacity, an Outcome, a Plan, an Audit, a PaperAnswer, a HeadWork, or a Layer or FitResult"
        raise InputError(f"a value of the type {type(value).__name__} has no picture: draw takes {kinds}")
    figure: Figure = picture()
    return figure
