"""`manyheads heads`: the queries that each head of a trained block serves."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import tyro

from manyheads.cli.options.option_types import Device, Force, Json, Picture, check_pictures
from manyheads.cli.render.answer import Answer, shown_files
from manyheads.tables import in_heads

if TYPE_CHECKING:
    from rich.console import RenderableType

    from manyheads.block.head_roles import HeadWork


@dataclass(frozen=True, kw_only=True)
class HeadsCommand:
    """Tell which head of a trained block serves which query: the share of its attention on the successor's pair.

    Heads are numbered from 0.
    """

    block: Annotated[tyro.conf.Positional[Path], tyro.conf.arg(metavar="BLOCK")]
    """A block that `manyheads block -o` wrote."""
    per_query: int = 16
    """Mean number of test contexts for each query."""
    device: Device = "cpu"
    picture: Picture = None
    """Draw which head serves which query into STEM.png and STEM.svg."""
    force: Force = False
    json: Json = False

    def run(self) -> Answer:
        """Read the block, compute its attention on test contexts, draw."""
        from manyheads.block.head_roles import head_work
        from manyheads.files.layer_files import read_block

        check_pictures([self.picture], force=self.force)
        block = read_block(self.block)
        work = head_work(block.run, block.weights, block.table, per_query=self.per_query, device=self.device)
        written: list[Path] = []
        if self.picture is not None:
            from manyheads.drawing.layer_pictures import draw_heads
            from manyheads.drawing.style import save

            title = f"{block.embedding}, m = {block.run.items}, {in_heads(block.run.heads, block.run.key_width)}"
            written += save(draw_heads(work, title=title), self.picture, force=self.force)
        facts = {
            "run": block.run.id,
            "embedding": block.embedding,
            "mean_attention": work.mean.tolist(),
            "queries": work.queries.tolist(),
            "served_by": work.first.tolist(),
            "heads_a_query": work.servers.tolist(),
            "written": written,
        }
        return Answer(facts, [*_shown(work), *shown_files(written)], yes=True)


def _shown(work: HeadWork) -> list[RenderableType]:
    from rich.table import Table
    from rich.text import Text

    from manyheads.block.head_roles import SERVES

    table = Table(box=None, padding=(0, 2, 0, 0))
    for heading in ("head", "serves first", "serves", "attention to π(q)'s pair", "where it serves"):
        table.add_column(heading, justify="right")
    first, count = work.first, len(work.queries)
    for head, column in enumerate(work.attention.T):
        served = column >= SERVES
        there = f"{column[served].mean():.3f}" if served.any() else ""
        shares = (f"{(first == head).sum() / count:.1%}", f"{served.mean():.1%}")
        table.add_row(str(head), *shares, f"{column.mean():.3f}", there)
    by = [float((work.servers == number).mean()) for number in (0, 1)]
    text = (
        f"of {count:,} queries {by[0]:.1%} are served by no head, {by[1]:.1%} by one, {1 - sum(by):.1%} by several; "
        f"a head serves a query if {SERVES:.0%} of its attention or more goes to the pair of π(q)"
    )
    return [table, Text(text)]
