"""`manyheads explore`: a page on which a layer is trained and proved in the browser."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import tyro

from manyheads.cli.options.option_types import Flag, Force, Json, require_ending
from manyheads.cli.render.answer import Answer, shown_files


@dataclass(frozen=True, kw_only=True)
class ExploreCommand:
    """Write a page for the browser: move the sliders, train a layer, see F1 jump, prove the layer.

    The page is one file of about 0.4 MB. It works from the disk, and sends nothing anywhere. It trains with the same
    engine as `manyheads train`: the same runs have the same ids.
    """

    output: Annotated[Path, tyro.conf.arg(metavar="FILE", aliases=("-o",))] = Path("explore.html")
    """Where to write the page (.html)."""
    open: Flag = False
    """Open the page in the browser."""
    force: Force = False
    json: Json = False

    def run(self) -> Answer:
        """Write the page, and open it if asked."""
        import webbrowser

        from manyheads.files import check_writable
        from manyheads.files.atomic_files import write_whole
        from manyheads.page import explore_page

        require_ending("--output", self.output, (".html",))
        check_writable(self.output, force=self.force)
        write_whole(self.output, explore_page().encode(), force=self.force)
        opened = webbrowser.open(self.output.absolute().as_uri()) if self.open else None
        notes = [f"no browser could be started: open {self.output} yourself"] if opened is False else []
        return Answer(
            facts={"written": [self.output], "opened": opened},
            shown=[*shown_files([self.output]), *notes],
            yes=True,
        )
