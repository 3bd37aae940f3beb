"""Claim 6a: where one head stays below 0.99, is it impossible, or was it not found? Decided for each seed's problem."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

from matplotlib.figure import Figure

from manyheads.capacity.thresholds import TARGET
from manyheads.certificate.exclusion import exclude
from manyheads.drawing.style import BLUE, GREEN, VERMILLION, look, panels
from manyheads.papers.effort import Scale
from manyheads.papers.exhibit import Exhibit
from manyheads.papers.panel import BASE, Panel, complete, panel_runs
from manyheads.papers.rows import Rows
from manyheads.papers.trial import Scores, Trial
from manyheads.papers.verdict import Verdict, judged, missing
from manyheads.sweep.store.record import Storable

SAYS = "a single head fails to separate the signal from superposition noise: where it stays below 0.99, none can do it"
PRODUCTS = 1200  # matrix products of one search, about


@dataclass(frozen=True)
class OneHead(Trial):
    """Whether one head of any width can hold the problem that a seed draws at one point of the base grid."""

    KIND: ClassVar[str] = "one_head"

    items: int
    d_model: int
    seed: int

    def make(self) -> Scores:
        """1 for "excluded" or "held", and the key width of the layer that holds the graph."""
        answer = exclude(Panel(self.items, self.d_model).task.draw(self.seed), workers=1)
        width = None if answer.layer is None else answer.layer.key_width
        return {"excluded": int(answer.verdict == "excluded"), "held": int(width is not None), "key_width": width}

    def seconds(self, flops: float) -> float:
        """Counted are the products of m × m matrices with the rows."""
        return PRODUCTS * 4 * self.items**2 * self.d_model / flops


@dataclass(frozen=True)
class Decisions:
    """For how many seeds' problems one head is impossible, proved, and for how many possible, certified."""

    seeds: int
    excluded: int
    held: int
    key_budget: int | None  # the largest D_K of the layers that hold the graph

    @property
    def words(self) -> str:
        """The decisions in words."""
        told = []
        if self.excluded:
            told.append(f"impossible at every width, proved, for {self.excluded} of {self.seeds} seeds")
        if self.held:
            told.append(f"possible with D_K = {self.key_budget}, certified, for {self.held} of {self.seeds} seeds")
        return "; ".join(told) or "undecided"

    @property
    def title(self) -> str:
        """The decisions in a few words, for a panel in which one head fails."""
        if self.excluded == self.seeds:
            return "impossible at every width"
        return "possible, not found" if self.held == self.seeds else f"impossible for {self.excluded} of {self.seeds}"


def trials(some: Sequence[Panel], scale: Scale) -> list[OneHead]:
    """A trial for each seed of the panels that the scale includes."""
    here = [panel for panel in some if panel.runs(scale)]
    return [OneHead(panel.items, panel.d_model, seed) for panel in here for seed in panel.seeds(scale)]


def decisions(panel: Panel, rows: Rows, scale: Scale) -> Decisions | None:
    """The decisions on one head at a point of the base grid; None where a row is missing."""
    found = rows.of(wanted := trials([panel], scale))
    if not wanted or len(found) < len(wanted):
        return None
    excluded, held = (sum(int(row.scores[name] or 0) for row in found) for name in ("excluded", "held"))
    widths = [int(width) for row in found if (width := row.scores["key_width"]) is not None]
    return Decisions(len(found), excluded, held, max(widths, default=None))


def one_head_fails(panel: Panel, rows: Rows, scale: Scale) -> bool:
    """Whether the mean F1 of one head stays below 0.99 at every key budget of the panel."""
    return all(point.mean < TARGET for point in panel.points(rows, scale) if point.heads == 1)


def beside_failure(panel: Panel, rows: Rows, scale: Scale) -> Decisions | None:
    """The decisions on one head where training does not get it there; else None."""
    return decisions(panel, rows, scale) if one_head_fails(panel, rows, scale) else None


def runs(scale: Scale) -> list[Storable]:
    """The base grid, and a decision for each of its problems."""
    return [*panel_runs(BASE, scale), *trials(BASE, scale)]


def draw(rows: Rows, scale: Scale) -> Figure:
    """The base grid: where one head is impossible, found by training, or possible and not found."""
    known = _known(rows, scale)
    sizes = sorted({panel.items for panel in BASE})
    widths = sorted({panel.d_model for panel in BASE})
    with look():
        figure, ((axes,),) = panels(1, 1)
        axes.grid(visible=False)
        for panel, found in known:
            place = widths.index(panel.d_model), sizes.index(panel.items)
            trained = max(point.mean for point in panel.points(rows, scale) if point.heads == 1)
            if found.excluded == found.seeds:
                colour, word = VERMILLION, "impossible"
            elif one_head_fails(panel, rows, scale):
                colour, word = BLUE, "possible,\nnot found" if not found.excluded else "in part\nimpossible"
            else:
                colour, word = GREEN, "found"
            axes.text(*place, f"{word}\nF1 {trained:.2f}", ha="center", va="center", color=colour, weight="bold")
        axes.set(xlim=(-0.5, len(widths) - 0.5), ylim=(len(sizes) - 0.5, -0.5))
        axes.set_xticks(range(len(widths)), [str(d_model) for d_model in widths])
        axes.set_yticks(range(len(sizes)), [str(items) for items in sizes])
        axes.set(xlabel="$d_{model}$", ylabel="items m", title="one head, and its best F1 by training")
    return figure


def caption(rows: Rows, scale: Scale) -> str:
    """The points by their decision."""
    known = _known(rows, scale)
    if not known:
        return "No point is decided yet."
    return (
        f"One head: {_listed(known, rows, scale)}. Impossible: a proof that no head of any width recognises every pair "
        "(`manyheads exclude`). Possible: a layer of one head that is certified. Several heads cannot be excluded by "
        "this proof."
    )


def claims(rows: Rows, scale: Scale) -> list[Verdict]:
    """Claim 6a."""
    known = _known(rows, scale)
    failing = [(panel, found) for panel, found in known if one_head_fails(panel, rows, scale)]
    if len(known) < len([panel for panel in BASE if panel.runs(scale)]) or not failing:
        return [missing("6a", SAYS, f"{len(known)} of {len(BASE)} points are decided")]
    holds = all(found.excluded == found.seeds for _, found in failing)
    why = "yardstick: one head is proved impossible for every seed at every point where its mean F1 stays below 0.99"
    return [judged("6a", SAYS, _listed(known, rows, scale), holds, why)]


def _known(rows: Rows, scale: Scale) -> list[tuple[Panel, Decisions]]:
    """The points of the base grid whose runs and decisions all have a row."""
    found = [(panel, decisions(panel, rows, scale)) for panel in complete(BASE, rows, scale)]
    return [(panel, one) for panel, one in found if one is not None]


def _listed(known: Sequence[tuple[Panel, Decisions]], rows: Rows, scale: Scale) -> str:
    """The points, grouped by what is known of one head there."""
    groups: dict[str, list[str]] = {}
    for panel, found in known:
        fails, place = one_head_fails(panel, rows, scale), f"({panel.items}, {panel.d_model})"
        if found.excluded == found.seeds:
            word = "impossible at every width, proved"
        elif found.held == found.seeds:
            word = "possible, certified, but not found by training" if fails else "possible, and found by training"
            place += f" with D_K = {found.key_budget}" if fails else ""
        else:
            word = "different from seed to seed"
            place += f" {found.words}"
        groups.setdefault(word, []).append(place)
    return "; ".join(f"{word}: {', '.join(places)}" for word, places in groups.items())


ONE_HEAD = Exhibit(
    "One head: impossible, or not found", runs, draw, caption, claims, work=frozenset({"layer", "trial"})
)
