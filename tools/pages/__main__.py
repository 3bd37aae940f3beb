"""Write result pages from their rows: python -m tools.pages [NAME …] [--measure], from the root of the repository."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated

import tyro

from manyheads.cli import main as manyheads
from tools.pages.catalogue import PAGES, PAPERS, Settings, add_trials, load, write

NAMES_HELP = f"Pages by name: {', '.join(PAGES)}; {' and '.join(PAPERS)}, which the command `manyheads paper` writes."


def main(
    names: Annotated[tyro.conf.Positional[tuple[str, ...]], tyro.conf.arg(metavar="[NAME …]", help=NAMES_HELP)] = (),
    *,
    measure: Annotated[bool, tyro.conf.FlagCreatePairsOff] = False,
    settings: Annotated[Settings, tyro.conf.OmitArgPrefixes] = Settings(),  # noqa: B008
) -> None:
    """Write docs/results/NAME.md and its pictures for each NAME, by default for every page.

    Args:
        names: the pages.
        measure: first make the rows that are missing, which may take minutes to hours; of the paper only those that
            need no training (all others: `manyheads paper`).
        settings: how rows are measured.
    """
    unknown = [name for name in names if name not in (*PAGES, *PAPERS)]
    if unknown:
        sys.exit(f"there is no page {', '.join(unknown)}: choose from {', '.join((*PAGES, *PAPERS))}")
    for name in names or (*PAGES, *PAPERS):
        if name in PAPERS:
            if measure and name != "paper":
                sys.exit(f"rows of {name} are made by `manyheads {' '.join(PAPERS[name][:2])}`, not here")
            if measure:
                print(f"{add_trials(settings)} trials were missing")
            manyheads(list(PAPERS[name]))
            continue
        if measure:
            page = load(name)
            if settings.only is not None and settings.only not in page.PARTS:
                sys.exit(f"{name} has no part {settings.only}: choose from {', '.join(page.PARTS) or 'none'}")
            page.measure(settings)
        for path in write(name):
            print("wrote", path.relative_to(Path.cwd()) if path.is_relative_to(Path.cwd()) else path)


if __name__ == "__main__":
    tyro.cli(main)
