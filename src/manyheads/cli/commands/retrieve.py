"""`manyheads retrieve`: heads that retrieve D things with a proved error, and an attempt to break the proof."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Annotated, Literal

import tyro

from manyheads.cli.options.option_types import Json, Number
from manyheads.cli.render.answer import Answer, pairs_table, shown_notes
from manyheads.errors import InputError
from manyheads.numbers import require_memory
from manyheads.tables import in_heads

if TYPE_CHECKING:
    from manyheads.retrieval import RetrievalTask, SharpHeads


@dataclass(frozen=True, kw_only=True)
class RetrieveCommand:
    """Build D sharp heads of width 2 for a retrieval task, say what error they guarantee, and try to refute it.

    The task is Σ_i max_t a_i·x(t) with D random directions a_i, or max_t x(t) + min_t x(t), over sequences of T tokens
    in [0, 1]^d. Give the inverse temperature β of the heads, or the error to stay below. The network is compared with
    the task itself on random and adversarial sequences; exit code 1 if one of them breaks the guarantee.
    """

    task: Literal["maxima", "max-and-min"] = "maxima"
    """The extrema that are retrieved."""
    retrieve: int = 4
    """D, the number of extrema; max-and-min has 2."""
    context_length: int = 64
    """T, the number of tokens in a sequence."""
    input_width: int = 4
    """d, the width of a token; max-and-min has 1."""
    inverse_temperature: Number = None
    """β, how sharp the heads are."""
    error: Number = None
    """Instead of β: the largest allowed error, which decides β."""
    subset: Annotated[int | None, tyro.conf.arg(metavar="INT", help_behavior_hint="(default: all)")] = None
    """Number of random places over which each maximum is taken."""
    sequences: int = 2_000
    """Number of random sequences that try to refute the guarantee."""
    seed: int = 0
    """Seed of directions, places and sequences."""
    json: Json = False

    def run(self) -> Answer:
        """Build the heads, prove their error, try to refute it; yes if it is not refuted."""
        from manyheads.retrieval import challenge

        self._check()
        sharp, task = self._built()
        try:
            from manyheads.retrieval.network_weights import sharp_weights
            from manyheads.retrieval.retrieval_network import network_function
        except ModuleNotFoundError:
            raise InputError("a retrieval network needs torch: pip install 'manyheads[torch]'") from None
        guarantee = sharp.guarantee
        found = challenge(
            network_function(sharp_weights(sharp), task),
            task,
            guarantee.error + guarantee.rounding,
            inverse_temperature=sharp.inverse_temperature,
            seed=self.seed,
            sequences=self.sequences,
        )
        from rich.text import Text

        said = {"stands": "not refuted", "refuted": "refuted: the construction is wrong"}[found.verdict]
        each = f"{max(guarantee.per_extremum):.3g}"
        tried = f"{found.sequences:,} sequences ({found.sequence_kind})"
        rows = [
            ("task", f"{task.dimension} extrema of sequences of {task.length} tokens of width {task.width}"),
            ("network", f"{in_heads(task.dimension, 2)}, inverse temperature {sharp.inverse_temperature:.6g}"),
            ("guaranteed", f"error at most {guarantee.error:.6g} ({each} for each extremum), in every sequence"),
            ("rounding", f"{guarantee.rounding:.2g} more in float64"),
            ("found", f"{found.worst:.6g}, {found.share:.0%} of it, over {tried}"),
        ]
        facts = {
            "task": self.task, "dimension": task.dimension, "length": task.length, "width": task.width,
            "inverse_temperature": sharp.inverse_temperature, "guarantee": asdict(guarantee), "caveat": task.caveat,
            "verdict": found.verdict, "worst": found.worst, "by": found.sequence_kind, "sequences": found.sequences,
            "witness": found.witness.tolist(),
        }  # fmt: skip
        notes = [task.caveat] if task.caveat else []
        shown = [Text(said, style="bold"), pairs_table(rows), *shown_notes(notes)]
        return Answer(facts, shown, yes=found.verdict == "stands")

    def _check(self) -> None:
        if (self.inverse_temperature is None) == (self.error is None):
            raise InputError("give either --inverse-temperature or --error")
        if self.task == "max-and-min" and self.subset is not None:
            raise InputError("--subset is for maxima: max and min are taken over every place")
        if self.subset is not None and not 1 <= self.subset <= self.context_length:
            raise InputError(
                f"--subset lies between 1 and --context-length {self.context_length}, not at {self.subset}"
            )
        count, width = (2, 1) if self.task == "max-and-min" else (self.retrieve, self.input_width)
        # the places of every extremum and their permutation, the sequences, the directions
        numbers = self.context_length * (count + 2 + self.sequences * width) + count * width
        require_memory(
            8 * numbers, f"{count:,} extrema of {self.sequences:,} sequences of {self.context_length:,} tokens"
        )

    def _built(self) -> tuple[SharpHeads, RetrievalTask]:
        import warnings

        import numpy as np

        from manyheads.retrieval import SharpHeads, TheoremWarning, max_and_min, sharp_heads, sum_of_maxima
        from manyheads.retrieval.retrieval_task import unit_directions

        if self.task == "max-and-min":
            task = max_and_min(self.context_length)
        else:
            rng = np.random.default_rng(self.seed)
            directions = unit_directions(self.retrieve, self.input_width, rng)
            size = self.subset or self.context_length
            places = tuple(np.sort(rng.permutation(self.context_length)[:size]) for _ in range(self.retrieve))
            with warnings.catch_warnings():
                warnings.simplefilter("ignore", TheoremWarning)  # shown as a note
                task = sum_of_maxima(directions, self.context_length, subsets=places)
        if self.error is not None:
            return sharp_heads(task, error=self.error), task
        assert self.inverse_temperature is not None
        return SharpHeads(task, self.inverse_temperature), task
