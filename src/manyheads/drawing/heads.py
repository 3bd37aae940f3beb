"""The picture of the heads of a block: for every query, the head that finds its successor."""

from __future__ import annotations

import numpy as np
from matplotlib.figure import Figure
from matplotlib.ticker import PercentFormatter

from manyheads.block.head_roles import SERVES, HeadWork
from manyheads.drawing.style import BLUE, GREY, look


def draw_heads(work: HeadWork, *, title: str) -> Figure:
    """The attention of each head to the right pair for every query, and each head's share of the queries.

    Args:
        work: the attention of every head for every query.
        title: the beginning of the title.
    """
    heads, first = work.attention.shape[1], work.first
    # Queries that no head serves come last. The queries of a head are sorted by their attention, largest first.
    order = np.lexsort((-work.attention.max(axis=1), np.where(first < 0, heads, first)))
    shares = [float((first == head).mean()) for head in (*range(heads), -1)]
    with look():
        figure = Figure(figsize=(9.4, 1.9 + 0.36 * heads), layout="constrained")
        wide, narrow = figure.subplots(1, 2, width_ratios=(4, 1), sharey=True)
        edges = np.arange(heads + 1) - 0.5
        shown = wide.pcolormesh(
            np.arange(len(order) + 1), edges, work.attention[order].T, cmap="magma_r", vmin=0, vmax=1, rasterized=True
        )
        for border in np.cumsum(shares)[:-1] * len(order):
            wide.axvline(border, color=GREY, linewidth=0.6)
        wide.set(xlabel="queries, by the head that serves them most", ylabel="head", ylim=(heads - 0.5, -0.5))
        wide.set_yticks(range(heads))
        wide.grid(visible=False)
        figure.colorbar(shown, ax=wide, label="attention to π(q)'s pair", pad=0.01, aspect=12)
        narrow.barh(range(heads), shares[:-1], color=BLUE, height=0.7)
        for head, share in enumerate(shares[:-1]):
            narrow.annotate(f" {share:.0%}", (share, head), va="center", fontsize=8)
        narrow.set(xlabel="share of queries", xlim=(0, 1.25 * max(*shares[:-1], 0.05)))
        narrow.xaxis.set_major_formatter(PercentFormatter(1, decimals=0))
        narrow.grid(visible=False)
        several = float((work.servers > 1).mean())
        figure.suptitle(
            f"{title}: {shares[-1]:.0%} of the queries are served by no head (attention < {SERVES:g}), "
            f"{several:.0%} by several",
            x=0.01,
            ha="left",
            fontsize=10,
        )
    return figure
