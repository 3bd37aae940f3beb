"""`manyheads audit`: how many relations can a layer of a real model hold?"""

from __future__ import annotations

from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import tyro

from manyheads.cli.options.option_types import (
    File,
    Force,
    Json,
    Picture,
    Whole,
    check_pictures,
)
from manyheads.cli.render.answer import Answer, shown_files
from manyheads.errors import InputError

if TYPE_CHECKING:
    from manyheads.bounds.shape import Architecture
    from manyheads.planning.model_audit import WeightGeometry


@dataclass(frozen=True, kw_only=True)
class AuditCommand:
    """Say what the query–key channel of a real model can hold, layer by layer, and whether its split is a good one.

    The answer is about one layer, on frozen rows like random ones: what its shape allows, not what the model knows.
    `audit list` lists the known models. `audit compare A B` puts two models or shapes side by side.
    """

    words: Annotated[
        tyro.conf.Positional[tuple[str, ...]],
        tyro.conf.arg(metavar="MODEL | list | compare A B", help_behavior_hint=""),
    ]
    """A name such as gpt2, llama3-8b or smollm2-135m, or a file: config.json, .safetensors or .gguf. For compare also
    a shape such as d_model=4096,heads=32,key_width=128,key_heads=8 (latent=512 for keys from a latent)."""
    items: Annotated[int | None, tyro.conf.arg(metavar="INT", help_behavior_hint="(default: its vocabulary)")] = None
    """Number of items."""
    key_width: Whole = None
    """Width of a head, if a safetensors header does not say it."""
    weights: File = None
    """The model's weights (.safetensors, .gguf), to measure its embedding and its heads."""
    seed: int = 0
    """Seed of the tokens whose pairs are measured."""
    picture: Picture = None
    """Draw the measured geometry into STEM.png and STEM.svg."""
    force: Force = False
    json: Json = False

    def run(self) -> Answer:
        """Look the architecture up or read it, and apply the laws to it."""
        from manyheads.cli.render.advice_table import shown_audit, shown_geometry
        from manyheads.cli.render.progress import progress
        from manyheads.planning.architectures import ARCHITECTURES, find_architecture
        from manyheads.planning.model_audit import audit, measure_weights

        if self.words[:1] in (("list",), ("compare",)):
            return self._side_by_side()
        if len(self.words) != 1:
            known = "`audit list` shows the known ones, `audit compare A B` takes two"
            raise InputError(f"audit is about one model, not {len(self.words)}: {known}")
        (model,) = self.words
        if self.picture is not None and self.weights is None:
            raise InputError("--picture draws the measured geometry: give --weights")
        check_pictures([self.picture], force=self.force)
        if self.key_width is not None and model.lower() in ARCHITECTURES:
            raise InputError(f"--key-width does not apply: {model} is known by its name")
        architecture = find_architecture(model, key_width=self.key_width)
        report = audit(architecture, items=self.items)
        facts: dict[str, object] = asdict(report) | {
            "is_near_best": report.is_near_best,
            "sharing_loss": report.sharing_loss,
        }
        shown, written = shown_audit(report), list[Path]()
        if self.weights is not None:
            with progress("measure") as report_layer:
                geometry = measure_weights(architecture, self.weights, seed=self.seed, progress=report_layer)
            facts |= asdict(geometry)
            shown += shown_geometry(architecture, geometry)
            if self.picture is not None:
                written += _draw(architecture, geometry, self.picture, force=self.force)
        return Answer(facts | {"written": written}, [*shown, *shown_files(written)], yes=True)

    def _side_by_side(self) -> Answer:
        """The known models, or two of them."""
        from manyheads.cli.render.advice_table import shown_architectures, shown_comparison
        from manyheads.planning.architectures import ARCHITECTURES
        from manyheads.planning.sharing import compare

        given = {"--key-width": self.key_width, "--weights": self.weights, "--picture": self.picture}
        if unused := [name for name, value in given.items() if value is not None]:
            raise InputError(f"{unused[0]} does not go with audit {self.words[0]}")
        if self.words == ("list",):
            models = list(ARCHITECTURES.values())
            return Answer({"models": [asdict(model) for model in models]}, shown_architectures(models), yes=True)
        if self.words[0] == "list" or len(self.words) != 3:
            raise InputError("audit list takes no further word, and audit compare takes two models or shapes")
        comparison = compare(*self.words[1:], items=self.items)
        return Answer(asdict(comparison), shown_comparison(comparison), yes=True)


def _draw(architecture: Architecture, geometry: WeightGeometry, stem: Path, *, force: bool) -> list[Path]:
    import numpy as np

    from manyheads.drawing.layer_pictures import GeometryRows, draw_geometry
    from manyheads.drawing.style import save

    shape = (architecture.layers, architecture.heads)
    ranks = np.array([head.effective_rank for head in geometry.heads]).reshape(shape)
    scores = np.array([head.scores for head in geometry.heads]).reshape(*shape, -1)
    rows = GeometryRows(architecture.name, architecture.key_width, ranks, scores)
    return list(save(draw_geometry(rows), stem, force=force))
