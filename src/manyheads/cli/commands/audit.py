"""`manyheads audit`: how many relations can a layer of a real model hold?"""

from __future__ import annotations

from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import tyro

from manyheads.cli.render.answer import Answer, Flag
from manyheads.errors import InputError

if TYPE_CHECKING:
    from manyheads.bounds.shape import Architecture

Whole = Annotated[int | None, tyro.conf.arg(metavar="INT", help_behavior_hint="")]


@dataclass(frozen=True, kw_only=True)
class Audit:
    """Say what the query–key channel of a real model can hold, layer by layer, and whether its split is a good one.

    Of one layer alone, on frozen rows like random ones: what its shape allows, not what the model knows.
    """

    model: Annotated[tyro.conf.Positional[str], tyro.conf.arg(metavar="MODEL")]
    """A name such as gpt2, llama3-8b or smollm2-135m, or a file: config.json, .safetensors or .gguf."""
    items: Annotated[int | None, tyro.conf.arg(metavar="INT", help_behavior_hint="(default: its vocabulary)")] = None
    """Among how many items."""
    key_width: Whole = None
    """The width of a head, where a safetensors header does not say it."""
    weights: Annotated[Path | None, tyro.conf.arg(metavar="FILE", help_behavior_hint="")] = None
    """The model's weights (.safetensors, .gguf), to measure its embedding and its heads."""
    seed: int = 0
    """Seed of the tokens whose pairs are measured."""
    save_figure: Annotated[Path | None, tyro.conf.arg(metavar="FILE", help_behavior_hint="")] = None
    """Where to draw what was measured; .png and .svg are written."""
    force: Flag = False
    """Overwrite files that exist."""
    json: Flag = False
    """Print JSON instead of a table."""

    def run(self) -> Answer:
        """Look the architecture up or read it, and hold it against the laws."""
        from manyheads.cli.render.audit_table import measured, shown_audit
        from manyheads.cli.render.certificate_table import shown_files
        from manyheads.files import check_writable
        from manyheads.files.atomic_files import picture_files
        from manyheads.planning import audit

        if self.items is not None and self.items < 2:
            raise InputError(f"--items is at least 2, not {self.items}")
        if self.seed < 0:
            raise InputError(f"--seed is a whole number from 0 on, not {self.seed}")
        if self.save_figure is not None:
            if self.weights is None:
                raise InputError("--save-figure draws what is measured: give --weights")
            for path in picture_files(self.save_figure):
                check_writable(path, force=self.force)
        architecture = self.architecture()
        report = audit(architecture, items=self.items)
        facts: dict[str, object] = asdict(report) | {
            "is_near_best": report.is_near_best,
            "sharing_loss": report.sharing_loss,
        }
        shown, written = shown_audit(report), []
        if self.weights is not None:
            found = measured(architecture, self.weights, seed=self.seed, stem=self.save_figure)
            facts, shown, written = facts | found.facts, [*shown, *found.shown], found.written
        return Answer(facts | {"written": list(map(str, written))}, [*shown, *shown_files(written)], yes=True)

    def architecture(self) -> Architecture:
        """By its name, or from a file."""
        from manyheads.files.model_files import read_architecture
        from manyheads.planning.architectures import ARCHITECTURES, architecture

        path = Path(self.model)
        if self.model.lower() in ARCHITECTURES or not (
            path.suffix in (".json", ".safetensors", ".gguf") or path.exists()
        ):
            if self.key_width is not None:
                raise InputError(f"--key-width does not apply: {self.model} is known by its name")
            return architecture(self.model)
        return read_architecture(path, key_width=self.key_width)
