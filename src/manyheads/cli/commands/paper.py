"""`manyheads paper`: the paper's figures, tables and claims, run again."""

from __future__ import annotations

import math
import shlex
import sys
from dataclasses import dataclass, field, fields
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import tyro

from manyheads.cli.options.figure7 import Figure7
from manyheads.cli.options.vocabulary import Dask, File, Flag, Json, StoreFile, WorkerCount, open_workers
from manyheads.cli.render.answer import Answer, shown_files
from manyheads.errors import InputError
from manyheads.machine import cores

if TYPE_CHECKING:
    from collections.abc import Sequence
    from types import ModuleType

    from rich.console import RenderableType

    from manyheads.cli.options.figure7 import Chosen
    from manyheads.papers import Rows, Scale, Verdict
    from manyheads.papers.reproduction import Origin, Reproduction

Count = Annotated[int | None, tyro.conf.arg(metavar="INT", help_behavior_hint="(default: the paper's)")]
VERBS = ("list", "claims")
TITLES = {
    "all": "the whole paper, each run once",
    "beyond": "everything past the paper; searches, so about as many runs",
    "retrieval": "the paper on head counts, arXiv 2510.06662; needs torch",
}


@dataclass(frozen=True, kw_only=True)
class PaperCommand:
    """Run the paper's experiments again, draw its figures, and put each claim beside what was measured.

    Say what: all, some of fig1 … fig13, table1, table2 and the claims without a picture (split_cost, …); `beyond`, all
    that goes past the paper; `retrieval`, another paper, on head counts (arXiv 2510.06662); or `list` (what there is,
    what each needs and how long it takes here) or `claims` (the verdicts on what is there). fig7, a whole Transformer
    block, takes hours and is no part of all: ask for it by name. Every run is stored as soon as it ends: stop at any
    time, and the same command goes on where it stopped.
    """

    what: Annotated[tyro.conf.Positional[tuple[str, ...]], tyro.conf.arg(metavar="[WHAT …]")] = ("all",)
    """all, beyond, retrieval, list, claims, or names such as fig3 table1 beyond_exact."""
    quick: Flag = False
    """A sketch in minutes: 3 seeds, fewer points, no large, dense or crowded problems; marked as such."""
    seeds: Count = None
    """Seeds at every point."""
    up_to: Count = None
    """Leave out problems with more items."""
    steps: Count = None
    """Step limit of every run."""
    figure7: tyro.conf.OmitArgPrefixes[Figure7] = field(default_factory=Figure7)
    store: StoreFile = Path("paper.db")
    from_rows: File = None
    """Run nothing: take what is in this file of rows (.jsonl.gz)."""
    save_rows: File = None
    """Write the rows behind the figures (.jsonl.gz)."""
    force: Flag = False
    """Overwrite the file of --save-rows if it exists; page and pictures are always drawn anew."""
    output: Annotated[Path, tyro.conf.arg(metavar="DIRECTORY", aliases=("-o",))] = Path("paper-output")
    """Where paper.md (head-count.md) is written, and beside it a folder paper (head-count) with the pictures."""
    workers: WorkerCount = None
    dask: Dask = None
    json: Json = False

    def run(self) -> Answer:
        """Run what is missing, draw, judge, tell."""
        from manyheads.papers import BEYOND, HOURS, Scale, exhibit
        from manyheads.papers.exhibit import is_complete

        names = self._names()
        for name in names:
            exhibit(name)
        # what takes hours is not made with the rest, but shown with it
        shown = tuple(dict.fromkeys((*names, *HOURS))) if {*self.what} & {"all", "claims", "list"} else names
        self.figure7.check(shown if self.what[0] in VERBS else names)
        chosen = self.figure7.setting()
        scale = Scale(self.seeds, self.up_to, self.steps, self.quick, chosen.setting)
        if self.what == ("list",):
            return self._list(shown, scale)
        if self.what != ("claims",):
            self._check_outputs(shown)
        rows = self._rows(names, shown, scale, chosen)
        if self.what == ("claims",):
            from manyheads.papers import verdicts

            found = verdicts(shown, rows, scale)
            return Answer({"claims": [vars(verdict) for verdict in found]}, shown_verdicts(found), yes=True)
        if self.from_rows is not None and self.what == ("all",):  # nothing has to be trained for more than the paper
            shown += tuple(name for name in BEYOND if is_complete(name, scale, rows))
        return self._present(shown, rows, scale)

    def _names(self) -> tuple[str, ...]:
        """The exhibits asked for."""
        from manyheads.papers import BEYOND, NAMES, RETRIEVAL

        words = tuple(dict.fromkeys(self.what))
        if len(words) > 1 and set(words) != {"all", "beyond"}:
            for verb in ("all", *VERBS):
                if verb in words:
                    raise InputError(f"'{verb}' stands alone, without {', '.join(w for w in words if w != verb)}")
        if "list" in words:
            return (*NAMES, *BEYOND, *RETRIEVAL)
        groups = {"all": NAMES, "claims": NAMES, "beyond": BEYOND, "retrieval": RETRIEVAL}
        names = tuple(dict.fromkeys(name for word in words for name in groups.get(word, (word,))))
        if 0 < len(set(names) & set(RETRIEVAL)) < len(names):
            raise InputError("retrieval is another paper, with a page of its own: ask for it alone")
        return names

    def _rows(self, names: Sequence[str], shown: Sequence[str], scale: Scale, chosen: Chosen) -> Rows:
        """The rows of what is shown, once those of the names have been made."""
        from manyheads.papers import HOURS, RETRIEVAL, read_rows, stored_rows
        from manyheads.papers.exhibits.fig7 import runs as block_runs
        from manyheads.papers.reproduction import known_rows, left, measure_rows
        from manyheads.sweep import Store

        if self.from_rows is not None:
            return read_rows(self.from_rows)
        if self.what == ("claims",):
            with Store.read(self.store) as store:
                return known_rows(shown, store, scale)
        apart = set(names) <= {*RETRIEVAL, *HOURS}  # torch holds Python's lock between its kernels
        with open_workers(self.workers, self.dask, in_processes=apart) as workers, Store.write(self.store) as store:

            def standing() -> tuple[int, int]:
                rows = known_rows(names, store, scale)
                return len(rows), len(left(names, rows, scale))

            stored, missing = standing()
            print(f"{stored:,} of {stored + missing:,} runs are stored, {missing:,} are left", file=sys.stderr)
            wanted = block_runs(scale) if set(names) & set(HOURS) else []
            there = stored_rows(store, wanted)
            blocks = [run for run in wanted if run.id not in there]
            trainers = self.figure7.trainers(chosen, blocks)
            self.figure7.tell_cost(blocks, workers.slots)
            try:
                from manyheads.cli.render.progress import progress

                with progress("runs") as report:
                    made = measure_rows(
                        names,
                        store,
                        scale,
                        blocks=trainers,
                        workers=workers,
                        progress=lambda told: report(told.done, told.total),
                    )
                    return known_rows(shown, store, scale).joined(made)
            except KeyboardInterrupt:
                stored, missing = standing()
                raise KeyboardInterrupt(
                    f"interrupted; {stored:,} of {stored + missing:,} runs are in {self.store}, "
                    "and the same command goes on from there"
                ) from None

    def _check_outputs(self, names: Sequence[str]) -> None:
        """Refuse before the work, which may take hours, what could not be written after it."""
        from manyheads.files.atomic_files import check_writable, tried_directory

        written_as = _written_as(names)
        with tried_directory(self.output / written_as.PICTURES):
            check_writable(self.output / written_as.NAME, force=True)
            if self.save_rows is not None:
                check_writable(self.save_rows, force=self.force)

    def _origin(self) -> Origin:
        """The rows and the words that make the same page of them."""
        from manyheads.papers.reproduction import Origin

        words = ["manyheads", "paper", *self.what]
        taken = ("quick", "seeds", "up_to", "steps", "scale", "embedding", "store", "from_rows", "output")
        for given in (self, self.figure7):
            for one in fields(given):
                value = getattr(given, one.name)
                if one.name in taken and value != one.default:
                    words.append(f"--{one.name.replace('_', '-')}")
                    words += [] if value is True else map(str, value if isinstance(value, tuple) else (value,))
        rows = "the rows alone" if self.from_rows is not None else f"the runs stored in {self.store}"
        return Origin(rows, shlex.join(words))

    def _present(self, names: Sequence[str], rows: Rows, scale: Scale) -> Answer:
        from manyheads.files.atomic_files import write_whole
        from manyheads.papers import needed, write_rows
        from manyheads.papers.reproduction import draw, report

        written_as = _written_as(names)
        made = report(names, rows, scale, origin=self._origin())
        pictures = draw(made, self.output / written_as.PICTURES)
        told = self.output / written_as.NAME
        write_whole(told, written_as.page(made).encode(), force=True)
        written = [*pictures, told]
        if self.save_rows is not None:
            write_rows(self.save_rows, rows, needed(names, scale, rows), force=self.force)
            written.append(self.save_rows)
        verdicts = shown_verdicts(made.verdicts) if made.verdicts else []
        return Answer(
            facts=_facts(made, pictures), shown=[*verdicts, *_shown_past(made), *shown_files(written)], yes=True
        )

    def _list(self, names: Sequence[str], scale: Scale) -> Answer:
        from rich.table import Table

        from manyheads.block.block_run import BlockRun
        from manyheads.papers import BEYOND, NAMES, RETRIEVAL, exhibit, needed, read_rows
        from manyheads.papers.estimate import Speed
        from manyheads.papers.reproduction import known_rows
        from manyheads.sweep import Store

        if self.from_rows is not None:
            rows = read_rows(self.from_rows)
        elif self.store.exists():
            with Store.read(self.store) as store:
                rows = known_rows(names, store, scale)
        else:
            from manyheads.papers import Rows

            rows = Rows(())
        speed = Speed()
        table = Table(box=None, padding=(0, 2, 0, 0))
        for heading in ("name", "runs", "stored", "time left", "what"):
            table.add_column(heading, justify="right" if heading in ("runs", "stored", "time left") else "left")
        facts = []
        for name in (*names, "all", "beyond", "retrieval"):
            group = {"all": NAMES, "beyond": BEYOND, "retrieval": RETRIEVAL}.get(name, (name,))
            runs = needed(group, scale, rows, foresee=True)
            missing = [run for run in runs if run.id not in rows]
            blocks = [run for run in missing if isinstance(run, BlockRun)]
            if blocks and find_spec("torch") is None:  # nobody knows how long what cannot be done takes
                seconds = math.nan
            elif blocks:
                seconds = self.figure7.cost(blocks, self.workers or cores()).seconds
            else:
                seconds = speed.seconds(missing, workers=self.workers)
            title = TITLES[name] if name in TITLES else exhibit(name).TITLE
            left = "needs torch" if math.isnan(seconds) else f"{seconds / 60:.1f} min"
            table.add_row(name, f"{len(runs):,}", f"{len(runs) - len(missing):,}", left, title)
            facts.append({"name": name, "title": title, "runs": len(runs), "missing": len(missing), "seconds": seconds})
        return Answer({"exhibits": facts}, [table], yes=True)


def _written_as(names: Sequence[str]) -> ModuleType:
    """The page that shows these exhibits."""
    from manyheads.papers import RETRIEVAL, page
    from manyheads.papers.head_count import head_count_page

    return head_count_page if set(names) <= set(RETRIEVAL) else page


def shown_verdicts(verdicts: Sequence[Verdict]) -> list[RenderableType]:
    """The table of claims, and the tally."""
    from rich.table import Table
    from rich.text import Text

    from manyheads.papers.page import tally

    table = Table(box=None, padding=(0, 2, 1, 0))
    for heading in ("#", "the paper says", "measured", "verdict"):
        table.add_column(heading, overflow="fold")
    for verdict in verdicts:
        table.add_row(*map(Text, (verdict.claim, verdict.says, verdict.measured or verdict.why, verdict.outcome)))
    return [table, Text(tally(verdicts))]


def _shown_past(made: Reproduction) -> list[RenderableType]:
    """What goes past the paper judges no claim: its captions are what it found."""
    from rich.text import Text

    from manyheads.papers import BEYOND

    return [Text(f"{one.title}. {one.caption}\n") for one in made.shown if one.name in BEYOND]


def _facts(made: Reproduction, pictures: Sequence[Path]) -> dict[str, object]:
    exhibits = [vars(one) | {"files": [str(path) for path in pictures if path.stem == one.name]} for one in made.shown]
    return {"exhibits": exhibits, "claims": [vars(verdict) for verdict in made.verdicts]}
