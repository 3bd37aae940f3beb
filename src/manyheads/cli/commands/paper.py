"""`manyheads paper`: run the paper's figures, tables and claims again."""

from __future__ import annotations

import shlex
from dataclasses import dataclass, field, fields, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import tyro

from manyheads.cli.options.block_options import BlockOptions
from manyheads.cli.options.option_types import (
    Dask,
    File,
    Flag,
    Json,
    StoreFile,
    WorkerCount,
    open_workers,
    require_ending,
)
from manyheads.cli.render.answer import Answer, say, shown_files, shown_notes
from manyheads.errors import InputError
from manyheads.machine import cores

if TYPE_CHECKING:
    from collections.abc import Sequence
    from types import ModuleType

    from manyheads.capacity import StoredProblem
    from manyheads.cli.options.block_options import BlockSelection
    from manyheads.papers import Rows, Scale
    from manyheads.papers.effort import Speed
    from manyheads.papers.reproduction import Origin
    from manyheads.sweep.store.record import Storable

LIST_HEADING = f"{'name':<22}{'runs':>7}{'stored':>9}{'time left':>12}  what"
Count = Annotated[int | None, tyro.conf.arg(metavar="INT", help_behavior_hint="(default: the paper's)")]


@dataclass(frozen=True, kw_only=True)
class PaperCommand:
    """Run the paper's experiments again, draw its figures, and compare each claim with the measurement.

    Name the exhibits: all, or some of fig1 … fig13, table1, table2 and the claims without a figure (split_cost, …);
    `beyond`, the exhibits that go beyond the paper; `retrieval`, the paper on head counts (arXiv 2510.06662). `list`
    shows all exhibits, their runs and the time they take here; `claims` shows the verdicts on the stored runs; `rows`
    shows the published rows, and --export writes them with the fields of their runs. fig7, a whole Transformer block,
    takes hours and is not part of all: ask for it by name. Every run is stored as soon as it ends: stop at any time,
    and the same command continues from there. A page keeps the exhibits that earlier calls showed on it.
    """

    what: Annotated[tyro.conf.Positional[tuple[str, ...]], tyro.conf.arg(metavar="[WHAT …]")] = ("all",)
    """all, beyond, retrieval, list, claims, rows, or names such as fig3 table1 beyond_exact."""
    claim: Annotated[str | None, tyro.conf.arg(metavar="NUMBER", help_behavior_hint="")] = None
    """Run only what the claim with this number needs (docs/reference/claims.md), and show its verdict."""
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
    export: File = None
    """With `rows`: write every row with the fields of its run to this file: .csv, .jsonl or .parquet."""
    add: File = None
    """Draw the capacities of this store (`results --capacity`) into fig3, fig10 and, if m = 8·d_model, fig4."""
    force: Flag = False
    """Overwrite the file of --save-rows or --export if it exists; page and pictures are always overwritten."""
    output: Annotated[Path, tyro.conf.arg(metavar="DIRECTORY", aliases=("-o",))] = Path("paper-output")
    """Folder for paper.md (head-count.md) and its folder of pictures, paper (head-count)."""
    workers: WorkerCount = None
    dask: Dask = None
    json: Json = False

    def run(self) -> Answer:
        """Train the missing runs, write the page and the pictures; or list the exhibits, or judge the claims."""
        if self.what == ("list",) and not self.json:
            print(LIST_HEADING, flush=True)  # the imports take seconds
        from manyheads.cli.render.paper_table import claim_facts, rows_answer, shown_verdicts
        from manyheads.papers import Scale, read_rows, verdicts
        from manyheads.papers.exhibit import VERBS, shared_page
        from manyheads.papers.paper_page import earlier_exhibits
        from manyheads.papers.publication import published
        from manyheads.papers.reproduction import problems_of

        names, shown = self._names()
        self.blocks.check(shown if self.what[0] in VERBS else names)
        chosen = self.blocks.setting()
        scale = Scale(self.seeds, self.up_to, self.steps, self.quick, chosen.setting)
        self._check_options()
        added = [] if self.add is None else problems_of(self.add, shown)
        if self.what == ("list",):
            return self._list(shown, scale)
        if self.what == ("rows",):
            rows = published() if self.from_rows is None else read_rows(self.from_rows)
            return rows_answer(rows, scale, self.export, force=self.force)
        page = shared_page(shown)
        if self.what != ("claims",) and self.from_rows is None:
            self._check_torch(names, scale)
        if self.what == ("claims",) or self.claim is not None:
            found = verdicts(shown, self._rows(names, shown, scale, chosen), scale)
            sound = all(verdict.outcome != "failed" for verdict in found)
            return Answer({"claims": claim_facts(found)}, shown_verdicts(found), yes=sound)
        self._check_outputs(page)
        earlier = earlier_exhibits(self.output / page.NAME, page.PICTURES, without=shown)
        rows = self._rows(names, (*shown, *earlier), scale, chosen)
        asked = (*shown, *self._also_complete(shown, rows, scale))
        return self._present(asked, [name for name in earlier if name not in asked], rows, scale, page, added)

    def _names(self) -> tuple[tuple[str, ...], tuple[str, ...]]:
        """The exhibits that are run, and those that are shown: also those that take hours, if they have rows.

        Raises:
            InputError: an unknown name, or a word that cannot be combined with others.
        """
        from manyheads.papers import exhibit_named, exhibit_names
        from manyheads.papers.exhibit import BEYOND, CAPACITY, CLAIM, COLLECTIONS, EXHIBITS, VERBS

        words = tuple(dict.fromkeys(self.what))
        if self.claim is not None:
            if words != (CAPACITY.word,):
                raise InputError(f"--claim runs one claim alone: leave out {' '.join(words)}")
            exhibit_named(f"{CLAIM}{self.claim}")  # refuses an unknown number
            return (f"{CLAIM}{self.claim}",), (f"{CLAIM}{self.claim}",)
        if len(words) > 1 and set(words) != {CAPACITY.word, BEYOND.word}:
            for verb in (CAPACITY.word, *VERBS):
                if verb in words:
                    others = ", ".join(word for word in words if word != verb)
                    claim = next((f": --claim {word} runs a claim" for word in words if word[:1].isdigit()), "")
                    raise InputError(f"'{verb}' cannot be combined with {others}{claim}")
        if words in (("list",), ("rows",)):
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

    def _check_options(self) -> None:
        """Refuse --export without `rows`, and a file that cannot be written."""
        from manyheads.files import check_writable
        from manyheads.sweep.store.table_export import ENDINGS

        if self.export is not None:
            if self.what != ("rows",):
                raise InputError("--export writes the published rows: say `manyheads paper rows --export FILE`")
            require_ending("--export", self.export, tuple(ENDINGS))
            check_writable(self.export, force=self.force)

    def _check_torch(self, names: Sequence[str], scale: Scale) -> None:
        """Say which exhibits lack torch; refuse them unless they are a part of all or beyond.

        Raises:
            InputError: an exhibit that was asked for needs torch, and torch is not installed.
        """
        from manyheads.papers import BEYOND, CAPACITY
        from manyheads.papers.reproduction import without_torch

        lacking = without_torch(names, self.store, scale)
        if not lacking:
            return
        told = f"{', '.join(lacking)}: torch is not installed (pip install 'manyheads[torch]')"
        if self.claim is None and set(self.what) <= {CAPACITY.word, BEYOND.word}:
            say(f"note: incomplete without torch: {told}")
        else:
            raise InputError(f"nothing was run for {told}")

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

    def _origin(self, what: Sequence[str]) -> Origin:
        """The source of the rows, and the command that makes the same page."""
        from manyheads.papers.reproduction import Origin

        words = ["manyheads", "paper", *what]
        taken = ("quick", "seeds", "up_to", "steps", "scale", "embedding", "store", "from_rows", "output")
        for given in (self, self.blocks):
            for one in fields(given):
                value = getattr(given, one.name)
                if one.name in taken and value != one.default:
                    words.append(f"--{one.name.replace('_', '-')}")
                    words += [] if value is True else map(str, value if isinstance(value, tuple) else (value,))
        rows = "the rows alone" if self.from_rows is not None else f"the runs stored in {self.store}"
        return Origin(rows, shlex.join(words))

    def _present(
        self,
        asked: Sequence[str],
        earlier: Sequence[str],
        rows: Rows,
        scale: Scale,
        page: ModuleType,
        added: Sequence[StoredProblem],
    ) -> Answer:
        from manyheads.cli.render.paper_table import exhibit_facts, shown_captions, shown_verdicts
        from manyheads.files.atomic_files import new_directory, write_together
        from manyheads.papers import needed, verdicts
        from manyheads.papers.exhibit import EXHIBITS
        from manyheads.papers.reproduction import draw_pictures, report
        from manyheads.papers.rows import pack_rows

        kept = [name for name in earlier if rows.of(needed([name], scale, rows))]
        names = [name for name in EXHIBITS if name in {*asked, *kept}] if kept else asked
        made = report(names, rows, scale, origin=self._origin(names if kept else self.what))
        mine = replace(
            made,
            exhibits=tuple(one for one in made.exhibits if one.name in asked),
            verdicts=tuple(verdicts(asked, rows, scale)),
        )
        pictures = draw_pictures(mine, self.output / page.PICTURES, added=added, source=str(self.add))
        files = pictures | {self.output / page.NAME: page.page(made).encode(errors="backslashreplace")}
        always = set(files)
        if self.save_rows is not None:
            files[self.save_rows] = pack_rows(rows, needed(asked, scale, rows))
        with new_directory(self.output / page.PICTURES):
            write_together(files, force=self.force or always)
        claims = shown_verdicts(mine.verdicts) if mine.verdicts else []
        failed = [_failures(rows)] if rows.failures else []
        notes = [*failed, *_lost(earlier, kept, self.output / page.NAME)]
        return Answer(
            facts=exhibit_facts(mine, [*pictures]) | {"failed": len(rows.failures)},
            shown=[*claims, *shown_captions(mine), *shown_notes(notes), *shown_files(files)],
            yes=not failed,
        )

    def _list(self, names: Sequence[str], scale: Scale) -> Answer:
        from manyheads.cli.render.paper_table import list_answer
        from manyheads.files.door import exists
        from manyheads.papers import Rows, needed, read_rows
        from manyheads.papers.effort import Speed
        from manyheads.papers.reproduction import known_rows
        from manyheads.sweep import Store

        rows = Rows(())
        if self.from_rows is not None:
            rows = read_rows(self.from_rows)
        elif exists(self.store, any_kind=True):
            with Store.read(self.store) as store:
                rows = known_rows(names, store, scale)
        speed, known = Speed(), {}

        def effort(group: Sequence[str]) -> tuple[int, int, float]:
            known.update({name: needed([name], scale, rows, foresee=True) for name in group if name not in known})
            runs = {run.id: run for name in group for run in known[name]}
            return self._effort(list(runs.values()), rows, speed)

        return list_answer(names, effort, as_json=self.json)

    def _effort(self, runs: Sequence[Storable], rows: Rows, speed: Speed) -> tuple[int, int, float]:
        """The number of runs, the number of missing ones, and the time that they take here in seconds."""
        from manyheads.block.block_run import BlockRun

        missing = [run for run in runs if run.id not in rows]
        blocks = [run for run in missing if isinstance(run, BlockRun)]
        if not blocks or self.blocks.device == "cpu":
            return len(runs), len(missing), speed.seconds(missing, workers=self.workers)
        others = [run for run in missing if not isinstance(run, BlockRun)]
        seconds = speed.seconds(others, workers=self.workers)
        return len(runs), len(missing), seconds + self.blocks.cost(blocks, self.workers or cores()).seconds


def _lost(earlier: Sequence[str], kept: Sequence[str], path: Path) -> list[str]:
    """A note on exhibits that the page showed and that have no rows in this store at this scale."""
    lost = [name for name in earlier if name not in kept]
    return [f"{path} no longer shows {', '.join(lost)}: there are no rows of them here"] if lost else []


def _failures(rows: Rows) -> str:
    """How many runs failed, and the reason of the first of them."""
    first = next(iter(rows.failures.values()))
    return f"{len(rows.failures)} runs failed ({first}); `manyheads results --status failed` lists them"
