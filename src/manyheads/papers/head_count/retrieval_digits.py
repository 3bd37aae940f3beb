"""In place of MS MARCO and CIFAR-10: four extrema over the patches of hand-written digits, padded to growing T."""

from __future__ import annotations

from matplotlib.figure import Figure

from manyheads.papers.head_count.retrieval_setting import Setting, heads_and_lengths
from manyheads.papers.rows import Rows
from manyheads.papers.scale import Scale
from manyheads.papers.verdict import Verdict
from manyheads.retrieval.retrieval_run import RetrievalRun

TITLE = "Four edges of a hand-written digit"
SETTING = Setting("digits, n = 8, D = 4", head_width=8, task="digits", lengths=(16, 32, 64, 128), examples=(1_437, 360))


def settings(scale: Scale) -> list[Setting]:
    """The one table."""
    return [SETTING]


def runs(scale: Scale) -> list[RetrievalRun]:
    """Every point."""
    return SETTING.runs(scale)


def draw(rows: Rows, scale: Scale) -> Figure:
    """Over the heads and over the length."""
    return heads_and_lengths(SETTING, rows, scale)


def caption(rows: Rows, scale: Scale) -> str:
    """What the data are, and where the error falls."""
    found, length = SETTING.nmse(rows, scale), max(SETTING.measured_lengths(scale))
    line = [f"h = {h} {min(found[h, length]):.1e}" for h in SETTING.heads if (h, length) in found]
    return (
        "Not the paper's data, which cannot be fetched here: scikit-learn's 1,797 digits of 8×8 pixels as 16 patches "
        "of 2×2, padded with blank ones to T; the target is the sum of the strongest edges in four directions. "
        f"{SETTING.examples[0]:,} images train, {SETTING.examples[1]} validate. T = {length}, the best of "
        f"{len(SETTING.seeds(scale))} seeds: {', '.join(line) or 'not run'}."
    )


def claims(rows: Rows, scale: Scale) -> list[Verdict]:
    """The paper's real tasks are others."""
    return []
