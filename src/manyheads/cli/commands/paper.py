"""`manyheads paper`: run the paper's figures, tables and claims again."""

from __future__ import annotations

import math
import shlex
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import tyro

from manyheads.cli.options.block_options import BlockOptions
from manyheads.cli.options.option_types import Dask, File, Flag, Json, StoreFile, WorkerCount, open_workers
from manyheads.cli.render.answer import Answer, say, shown_files, shown_notes
from manyheads.errors import InputError
from manyheads.machine import cores
from manyheads.text import shown_text

if TYPE_CHECKING:
    from collections.abc import Sequence
    from types import ModuleType

    from rich.console import RenderableType

    from manyheads.cli.options.block_options import BlockSelection
    from manyheads.papers import Collection, Rows, Scale, Verdict
    from manyheads.papers.effort import Speed
    from manyheads.papers.reproduction import Origin, Reproduction

Count = Annotated[int | None, tyro.conf.arg(metavar="INT", help_behavior_hint="(default: the paper's)")]
VERBS = ("list", "claims")


@dataclass(frozen=True, kw_only=True)
class PaperCommand:
    """Run the paper's experiments again, draw its figures, and compare each claim with the measurement.

    Name the exhibits: all, or some of fig1 … fig13, table1, table2 and the claims without a figure (split_cost, …);
    `beyond`, the exhibits that go beyond the paper; `retrieval`, the paper on head counts (arXiv 2510.06662). `list`
    shows all exhibits, their runs and the time they take here; `claims` shows the verdicts on the stored runs. fig7, a
    whole Transformer block, takes hours and is not part of all: ask for it by name. Every run is stored as soon as it
    ends: stop at any time, and the same command continues from there.
    """

    what: Annotated[tyro.conf.Positional[tuple[str, ...]], tyro.conf.arg(metavar="[WHAT …]")] = ("all",)
    """all, beyond, retrieval, list, claims, or names such as fig3 table1 beyond_exact."""
    quick: Flag = False
    """A rough version in minutes: 3 seeds, fewer points, no large or dense problems; the page and pictures say so."""
    seeds: Count = None
    """Seeds at every point."""
    up_to: Count = None
    """Leave out problems with more items."""
    steps: Count = None
    """Step limit of every run."""
    blocks: tyro.conf.OmitArgPrefixes[BlockOptions] = field(default_factory=BlockOptions)
    store: StoreFile = Path("paper.db")
    from_rows: File = None
    """Train nothing: take the rows of this file (.jsonl.gz)."""
    save_rows: File = None
    """Write the rows of the figures to this file (.jsonl.gz)."""
    force: Flag = False
    """Overwrite the file of --save-rows if it exists; page and pictures are always overwritten."""
    output: Annotated[Path, tyro.conf.arg(metavar="DIRECTORY", aliases=("-o",))] = Path("paper-output")
    """Folder for paper.md (head-count.md) and its folder of pictures, paper (head-count)."""
    workers: WorkerCount = None
    dask: Dask = None
    json: Json = False

    def run(self) -> Answer:
        """Train the missing runs, write the page and the pictures; or list the exhibits, or judge the claims."""
        from manyheads.papers import Scale, verdicts

        names, shown = self._names()
        self.blocks.check(shown if self.what[0] in VERBS else names)
        chosen = self.blocks.setting()
        scale = Scale(self.seeds, self.up_to, self.steps, self.quick, chosen.setting)
        if self.what == ("list",):
            return self._list(shown, scale)
        page = _page(shown)
        if self.what == ("claims",):
            found = verdicts(shown, self._rows(names, shown, scale, chosen), scale)
            sound = all(verdict.outcome != "failed" for verdict in found)
            return Answer({"claims": [vars(verdict) for verdict in found]}, shown_verdicts(found), yes=sound)
        self._check_outputs(page)
        rows = self._rows(names, shown, scale, chosen)
        return self._present((*shown, *self._also_complete(shown, rows, scale)), rows, scale, page)

    def _names(self) -> tuple[tuple[str, ...], tuple[str, ...]]:
        """The exhibits that are run, and those that are shown: also those that take hours, if they have rows.

        Raises:
            InputError: an unknown name, or a word that cannot be combined with others.
        """
        from manyheads.papers import exhibit_named, exhibit_names
        from manyheads.papers.exhibit import BEYOND, CAPACITY, COLLECTIONS, EXHIBITS

        words = tuple(dict.fromkeys(self.what))
        if len(words) > 1 and set(words) != {CAPACITY.word, BEYOND.word}:
            for verb in (CAPACITY.word, *VERBS):
                if verb in words:
                    others = ", ".join(word for word in words if word != verb)
                    raise InputError(f"'{verb}' cannot be combined with {others}")
        if words == ("list",):
            return tuple(EXHIBITS), tuple(EXHIBITS)
        collections = {collection.word: collection for collection in COLLECTIONS} | {"claims": CAPACITY}
        names, hours = dict[str, None](), dict[str, None]()
        for word in words:
            if word in collections:
                names.update(dict.fromkeys(exhibit_names(collections[word])))
                hours.update(dict.fromkeys(exhibit_names(collections[word], hours=True)))
            else:
                exhibit_named(word)  # refuses an unknown name
                names[word] = None
        return tuple(names), tuple(names | hours)

    def _rows(self, names: Sequence[str], shown: Sequence[str], scale: Scale, chosen: BlockSelection) -> Rows:
        """The rows of the shown exhibits, after the missing runs of the named ones were trained."""
        from manyheads.block.block_run import BlockRun
        from manyheads.cli.render.progress import progress, say_notes
        from manyheads.papers import exhibit_named, read_rows
        from manyheads.papers.reproduction import known_rows, measure_rows, missing_runs
        from manyheads.papers.trial import TORCH_WORK
        from manyheads.sweep import Store

        if self.from_rows is not None:
            return read_rows(self.from_rows)
        if self.what == ("claims",):
            with Store.read(self.store) as store:
                say_notes(store.state.notes, self.store)
                return known_rows(shown, store, scale)
        # Torch holds Python's lock between its kernels, so its runs need processes in place of threads.
        apart = all(exhibit_named(name).work <= TORCH_WORK for name in names)
        with open_workers(self.workers, self.dask, in_processes=apart) as workers, Store.write(self.store) as store:
            say_notes(store.state.notes, self.store)
            rows = known_rows(names, store, scale)
            missing = missing_runs(names, rows, scale)
            known, total = len(rows), len(rows) + len(missing)
            say(f"{known:,} of {total:,} runs are stored, {len(missing):,} are left")
            blocks = [run for run in missing if isinstance(run, BlockRun)]
            trainers = self.blocks.trainers(chosen, blocks)
            self.blocks.tell_cost(blocks, workers.slots)
            try:
                with progress("runs") as report:
                    made = measure_rows(
                        names,
                        store,
                        scale,
                        blocks=trainers,
                        workers=workers,
                        progress=lambda state: report(state.done, state.total),
                    )
                    rows = known_rows(shown, store, scale).joined(made)
                    if rows.failures and not len(rows):
                        raise InputError(f"no answer: {_failures(rows)}")
                    return rows
            except KeyboardInterrupt:
                rows = known_rows(names, store, scale)
                total = len(rows) + len(missing_runs(names, rows, scale))
                raise KeyboardInterrupt(
                    f"interrupted; {len(rows):,} of {total:,} runs are in {self.store}, "
                    "and the same command continues from there"
                ) from None

    def _also_complete(self, shown: Sequence[str], rows: Rows, scale: Scale) -> list[str]:
        """With `all`: the other exhibits of the same page whose rows are all in the file of rows."""
        from manyheads.papers import CAPACITY, exhibit_named
        from manyheads.papers.exhibit import EXHIBITS, is_complete

        if self.from_rows is None or self.what != (CAPACITY.word,):
            return []
        others = [name for name in EXHIBITS if name not in shown]
        same_page = [name for name in others if exhibit_named(name).collection.page_module == CAPACITY.page_module]
        return [name for name in same_page if is_complete(name, scale, rows)]

    def _check_outputs(self, page: ModuleType) -> None:
        """Refuse files that cannot be written before the work, which may take hours."""
        from manyheads.files.atomic_files import check_writable, new_directory

        with new_directory(self.output / page.PICTURES):
            check_writable(self.output / page.NAME, force=True)
            if self.save_rows is not None:
                check_writable(self.save_rows, force=self.force)

    def _origin(self) -> Origin:
        """The source of the rows, and the command that makes the same page."""
        from manyheads.papers.reproduction import Origin

        words = ["manyheads", "paper", *self.what]
        taken = ("quick", "seeds", "up_to", "steps", "scale", "embedding", "store", "from_rows", "output")
        for given in (self, self.blocks):
            for one in fields(given):
                value = getattr(given, one.name)
                if one.name in taken and value != one.default:
                    words.append(f"--{one.name.replace('_', '-')}")
                    words += [] if value is True else map(str, value if isinstance(value, tuple) else (value,))
        rows = "the rows alone" if self.from_rows is not None else f"the runs stored in {self.store}"
        return Origin(rows, shlex.join(words))

    def _present(self, names: Sequence[str], rows: Rows, scale: Scale, page: ModuleType) -> Answer:
        from manyheads.files.atomic_files import new_directory, write_together
        from manyheads.papers import needed
        from manyheads.papers.reproduction import draw_pictures, report
        from manyheads.papers.rows import pack_rows

        made = report(names, rows, scale, origin=self._origin())
        pictures = draw_pictures(made, self.output / page.PICTURES)
        files = pictures | {self.output / page.NAME: page.page(made).encode(errors="backslashreplace")}
        always = set(files)
        if self.save_rows is not None:
            files[self.save_rows] = pack_rows(rows, needed(names, scale, rows))
        with new_directory(self.output / page.PICTURES):
            write_together(files, force=self.force or always)
        verdicts = shown_verdicts(made.verdicts) if made.verdicts else []
        failed = [_failures(rows)] if rows.failures else []
        return Answer(
            facts=_facts(made, [*pictures]) | {"failed": len(rows.failures)},
            shown=[*verdicts, *_captions(made), *shown_notes(failed), *shown_files(files)],
            yes=not failed,
        )

    def _list(self, names: Sequence[str], scale: Scale) -> Answer:
        from rich.table import Table

        from manyheads.papers import Rows, exhibit_named, exhibit_names, read_rows
        from manyheads.papers.effort import Speed
        from manyheads.papers.exhibit import COLLECTIONS
        from manyheads.papers.reproduction import known_rows
        from manyheads.sweep import Store

        rows = Rows(())
        if self.from_rows is not None:
            rows = read_rows(self.from_rows)
        elif self.store.exists():
            with Store.read(self.store) as store:
                rows = known_rows(names, store, scale)
        speed = Speed()
        table = Table(box=None, padding=(0, 2, 0, 0))
        for heading in ("name", "runs", "stored", "time left", "what"):
            table.add_column(heading, justify="right" if heading in ("runs", "stored", "time left") else "left")
        facts = []
        lines: list[tuple[str, str, Sequence[str]]] = [(name, exhibit_named(name).title, (name,)) for name in names]
        lines += [(one.word, one.title, exhibit_names(one)) for one in COLLECTIONS]
        for name, title, group in lines:
            runs, missing, seconds = self._effort(group, rows, scale, speed)
            left = "needs torch" if math.isnan(seconds) else f"{seconds / 60:.1f} min"
            table.add_row(name, f"{runs:,}", f"{runs - missing:,}", left, title)
            facts.append({"name": name, "title": title, "runs": runs, "missing": missing, "seconds": seconds})
        return Answer({"exhibits": facts}, [table], yes=True)

    def _effort(self, names: Sequence[str], rows: Rows, scale: Scale, speed: Speed) -> tuple[int, int, float]:
        """The runs of these exhibits, the missing ones, and the time that they take here in seconds."""
        from manyheads.block.block_run import BlockRun
        from manyheads.papers import needed

        runs = needed(names, scale, rows, foresee=True)
        missing = [run for run in runs if run.id not in rows]
        blocks = [run for run in missing if isinstance(run, BlockRun)]
        if not blocks or self.blocks.device == "cpu":
            return len(runs), len(missing), speed.seconds(missing, workers=self.workers)
        others = [run for run in missing if not isinstance(run, BlockRun)]
        seconds = speed.seconds(others, workers=self.workers)
        return len(runs), len(missing), seconds + self.blocks.cost(blocks, self.workers or cores()).seconds


def _page(names: Sequence[str]) -> ModuleType:
    """The module of the page that shows these exhibits.

    Raises:
        InputError: they belong to different pages.
    """
    from manyheads.papers import exhibit_named

    collections: dict[str, Collection] = {}
    for name in names:
        collection = exhibit_named(name).collection
        collections.setdefault(collection.page_module, collection)
    if len(collections) > 1:
        words = " and ".join(collection.word for collection in collections.values())
        raise InputError(f"{words} are different papers with a page each: ask for one of them at a time")
    (collection,) = collections.values()
    return collection.page


def _failures(rows: Rows) -> str:
    """How many runs failed, and the reason of the first of them."""
    first = next(iter(rows.failures.values()))
    return f"{len(rows.failures)} runs failed ({first}); `manyheads results --status failed` lists them"


def shown_verdicts(verdicts: Sequence[Verdict]) -> list[RenderableType]:
    """The table of claims, and the number of verdicts of each kind."""
    from rich.table import Table
    from rich.text import Text

    from manyheads.papers.paper_page import tally

    table = Table(box=None, padding=(0, 2, 1, 0))
    for heading in ("#", "the paper says", "measured", "verdict"):
        table.add_column(heading, overflow="fold")
    for verdict in verdicts:
        cells = (verdict.claim, verdict.says, verdict.measured or verdict.why, verdict.outcome)
        table.add_row(*(Text(shown_text(cell)) for cell in cells))
    return [table, Text(tally(verdicts))]


def _captions(made: Reproduction) -> list[RenderableType]:
    """The captions of the exhibits that judge no claim: they have no line in the table of claims."""
    from rich.text import Text

    return [
        Text(shown_text(f"{one.title}. {one.caption}", most=5_000) + "\n")
        for one in made.exhibits
        if not one.exhibit.judges_claims
    ]


def _facts(made: Reproduction, pictures: Sequence[Path]) -> dict[str, object]:
    exhibits = [
        vars(one) | {"files": [str(path) for path in pictures if path.stem == one.name]} for one in made.exhibits
    ]
    return {"exhibits": exhibits, "claims": [vars(verdict) for verdict in made.verdicts]}
