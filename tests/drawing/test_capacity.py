"""The picture of a capacity shows the measurement."""

from __future__ import annotations

from matplotlib.collections import LineCollection
from matplotlib.patches import Rectangle
from support.pictures import coordinates, legend_labels

from manyheads import permutation_graph, random_graph
from manyheads.capacity import Capacity, Goal, Point, threshold
from manyheads.drawing.capacity import draw_capacity
from manyheads.layer.rules import MAX
from manyheads.training import Protocol, Task

POINTS = (
    Point(1, 14, ((0, 0.5), (1, 0.6))),  # given up after two of three seeds
    Point(2, 8, ((0, 0.97), (1, 0.98), (2, 0.99))),
    Point(2, 10, ((0, 0.995), (1, 1.0), (2, 0.999))),
)


TASK = Task("permutation:64", "gaussian:16")


def capacity(*points: Point, task: Task = TASK) -> Capacity:
    return Capacity(task, MAX, Protocol(), Goal(), 3, threshold(points[1:]), points, 8, 0, 100, 0, True)


def test_the_picture_has_a_line_a_head_count_and_every_threshold() -> None:
    (axes,) = draw_capacity(capacity(*POINTS)).axes
    labels = legend_labels(axes)
    assert {"1 head", "2 heads", "goal: F1 ≥ 0.99", "95 % range, 16 to 20"} < set(labels)
    assert "$D_K^*$ = 20 at 2 heads" in labels
    lines = {line.get_label(): coordinates(line) for line in axes.lines}
    assert lines["2 heads"] == ([16.0, 20.0], [0.98, POINTS[2].mean])
    # the names of the laws are in the legend: beside their lines another line may hide them
    assert {"degrees-of-freedom law: 16", "the paper's law: 29"} < set(labels)
    assert not axes.texts
    # error bars for the points with all seeds only
    bars = [len(bar.get_segments()) for bar in axes.collections if isinstance(bar, LineCollection)]
    assert [count for count in bars if count] == [2]


def test_a_range_without_an_upper_end_goes_on_to_the_last_budget() -> None:
    """With the upper end at D_K* the picture would say more than the table, which has a question mark."""
    uncertain = Point(1, 12, ((0, 0.98), (1, 1.0), (2, 1.0))), Point(1, 16, ((0, 0.9), (1, 0.95), (2, 0.99)))
    (axes,) = draw_capacity(capacity(POINTS[0], *uncertain)).axes
    assert {"95 % range, 12 to ?", "$D_K^*$ = 12 at 1 head"} < set(legend_labels(axes))
    (span,) = [patch for patch in axes.patches if isinstance(patch, Rectangle)]
    assert (span.get_x(), span.get_x() + span.get_width()) == (12, 16)


def test_the_papers_law_of_a_given_graph_is_its_own() -> None:
    """The slope of permutations is 1.19, of every other graph 0.46: also where it has as many relations as items."""
    for graph, law in ((permutation_graph(64, seed=0), 29), (random_graph(64, 64, seed=0), 11)):
        (axes,) = draw_capacity(capacity(*POINTS, task=Task(graph, "gaussian:16"))).axes
        assert f"the paper's law: {law}" in legend_labels(axes)
        assert "one given graph" in axes.get_title("left")


def test_the_picture_of_nothing_that_works() -> None:
    (axes,) = draw_capacity(capacity(POINTS[0])).axes
    assert not any("D_K^*" in label for label in legend_labels(axes))
