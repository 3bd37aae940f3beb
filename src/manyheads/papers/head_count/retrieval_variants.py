"""Tables 3 to 5 of the paper on head counts: E = 32 fixed, D = 3, and two layers."""

from __future__ import annotations

from matplotlib.figure import Figure

from manyheads.drawing.style import look, panels
from manyheads.papers.head_count.retrieval_heads import transition
from manyheads.papers.head_count.retrieval_setting import Setting, over_heads
from manyheads.papers.rows import Rows
from manyheads.papers.scale import Scale
from manyheads.papers.verdict import Verdict, missing
from manyheads.retrieval.retrieval_run import RetrievalRun

TITLE = "A fixed embedding, three things, and two layers"
FIXED = Setting(
    "E = 32, D = 4",
    embedding=32,
    paper={
        (1, 8): 1.75e-2, (1, 128): 3.03e-2, (2, 8): 7.17e-3, (2, 128): 1.02e-2,
        (3, 8): 2.11e-4, (3, 128): 4.77e-4, (4, 8): 1.32e-6, (4, 128): 5.70e-7,
    },
)  # fmt: skip
THREE = Setting("E = 32, D = 3", dimension=3, embedding=32, heads=(1, 2, 3, 4))
TWO_LAYERS = Setting(
    "E = 32, D = 4, two layers",
    layers=2,
    embedding=32,
    heads=(1, 2, 3, 4),
    paper={(1, 8): 2e-4},
)
SETTINGS = (FIXED, THREE, TWO_LAYERS)


def settings(scale: Scale) -> list[Setting]:
    """The three tables."""
    return list(SETTINGS)


def runs(scale: Scale) -> list[RetrievalRun]:
    """Every point of the three; those of two layers first, which take longest."""
    return [run for setting in reversed(SETTINGS) for run in setting.runs(scale)]


def draw(rows: Rows, scale: Scale) -> Figure:
    """Side by side; the dotted line is where the heads suffice."""
    with look():
        figure, (line,) = panels(1, 3)
        for axes, setting in zip(line, SETTINGS, strict=True):
            over_heads(axes, setting, rows, scale)
        line[0].set_ylabel("NMSE, the best seed")
        handles = {
            label: handle for axes in line for handle, label in zip(*axes.get_legend_handles_labels(), strict=True)
        }
        order = sorted(handles, key=lambda label: int(label.split()[-1]))
        figure.legend([handles[label] for label in order], order, loc="outside right center")
    return figure


def caption(rows: Rows, scale: Scale) -> str:
    """Where each of them falls."""
    parts = []
    for setting in SETTINGS:
        found, length = setting.nmse(rows, scale), max(setting.measured_lengths(scale))
        line = [f"h = {h} {min(found[h, length]):.1e}" for h in setting.heads if (h, length) in found]
        parts.append(f"{setting.title}, T = {length}: {', '.join(line) or 'not run'}")
    return (
        f"The best of {len(FIXED.seeds(scale))} seeds. {'; '.join(parts)}. The paper, of E = 32 and D = 3: about 2e-2, "
        "1e-3 and 2e-7 for h = 1, 2, 3; of two layers: 2e-4 to 4e-4 for h = 1, 2e-6 to 8e-6 for h ≥ 2."
    )


def claims(rows: Rows, scale: Scale) -> list[Verdict]:
    """The transition stays at h = D whatever is fixed, moves with D, and with L layers to L·h = D."""
    said = {
        "R4": "with E = 32 fixed, so that more heads are narrower ones, NMSE still falls sharply at h = D = 4",
        "R5": "the transition follows D: at D = 3 it is at h = 3",
        "R6": "two layers need half the heads: the transition moves to L·h = D, h = 2 at D = 4",
    }
    return [
        transition(claim, says, one, rows, scale) if one.complete(rows, scale) else missing(claim, says, "not run")
        for (claim, says), one in zip(said.items(), SETTINGS, strict=True)
    ]
