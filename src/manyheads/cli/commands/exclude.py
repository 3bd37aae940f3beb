"""`manyheads exclude`: whether one head of any width can hold a graph, with a proof either way."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import tyro

from manyheads.cli.options.option_types import (
    File,
    Force,
    Json,
    Output,
    TimeLimit,
    require_ending,
)
from manyheads.cli.options.problem_options import ProblemOptions, RuleName
from manyheads.cli.render.answer import Answer, shown_files, shown_notes
from manyheads.errors import InputError
from manyheads.numbers import require_memory

if TYPE_CHECKING:
    from manyheads.certificate.exclusion_proof import Exclusion
    from manyheads.problem.problem import Problem

ARRAYS = 4  # matrices of float64 numbers that the search holds, one number for each pair


@dataclass(frozen=True, kw_only=True)
class ExcludeCommand:
    """Decide whether one head, however wide, can hold a graph; prove it either way.

    The answer is one of three. "impossible at every width, proved": no single head recognises every pair, and --proof
    writes the proof, which `manyheads certify --exclusion` checks again. "possible": a layer of one head was found and
    certified, and -o writes it. "undecided": neither was found within the limits. Under the rule sum the answer is the
    same for any number of heads. Two heads and more under the rule max cannot be excluded in this way: they can hold
    more than one head can. The exit code is 0 if the graph is excluded, 1 if it is possible or undecided, 2 for bad
    input.
    """

    problem: tyro.conf.OmitArgPrefixes[ProblemOptions]
    heads: int = 1
    """Number of heads that the question is about: 1, or any number with --rule sum."""
    rule: RuleName = "max"
    proof: File = None
    """Where to write the proof (.safetensors), if the graph is excluded."""
    output: Output = None
    """Where to write the layer (.safetensors), if one head holds the graph."""
    time_limit: TimeLimit = None
    """Stop undecided after this number of seconds."""
    workers: Annotated[int | None, tyro.conf.arg(metavar="INT", help_behavior_hint="(default: one a core)")] = None
    """Threads that share each step."""
    force: Force = False
    json: Json = False

    def run(self) -> Answer:
        """Decide, write; yes where the graph is excluded."""
        from manyheads.cli.render.exclusion_table import decided, exclusion_facts, shown_exclusion
        from manyheads.layer.rules import rule_named

        self._check()
        problem = self.problem.load()
        require_memory(ARRAYS * 8 * problem.items**2, f"the search over all pairs of {problem.items:,} items")
        exclusion = decided(problem, time_limit=self.time_limit, workers=self.workers)
        written, notes = self._write(problem, exclusion)
        return Answer(
            facts=exclusion_facts(exclusion) | {"written": written},
            shown=[*shown_exclusion(exclusion, rule_named(self.rule)), *shown_notes(notes), *shown_files(written)],
            yes=exclusion.verdict == "excluded",
        )

    def _write(self, problem: Problem, exclusion: Exclusion) -> tuple[list[Path], list[str]]:
        """Write the proof or the layer; a note for the file that was asked for and has no content."""
        from manyheads.certificate import described
        from manyheads.files import write_exclusion, write_layer
        from manyheads.layer.rules import rule_named

        written, notes = [], []
        provenance = self._provenance()
        if self.proof is not None and exclusion.matrix is not None:
            write_exclusion(self.proof, exclusion, problem, provenance=provenance, force=self.force)
            written.append(self.proof)
        elif self.proof is not None:
            notes.append(f"{self.proof} is not written: there is no proof of an exclusion")
        if self.output is not None and exclusion.layer is not None:
            assert exclusion.certificate is not None, "a layer of exclude has a certificate"
            rule = rule_named(self.rule)  # max and sum are the same for one head
            layer = described(replace(exclusion.layer, rule=rule), problem, replace(exclusion.certificate, rule=rule))
            write_layer(self.output, layer, provenance=provenance, force=self.force)
            written.append(self.output)
        elif self.output is not None:
            notes.append(f"{self.output} is not written: there is no layer that holds the graph")
        return written, notes

    def _provenance(self) -> dict[str, str | int]:
        """The origin of the proof or the layer, and the limits of the search."""
        limits = {name: str(value) for name in ("time_limit", "workers") if (value := getattr(self, name)) is not None}
        return self.problem.provenance() | {"construction": "exclude"} | limits

    def _check(self) -> None:
        """Refuse heads that cannot be excluded, and files that could not be written."""
        from manyheads.cli.render.exclusion_table import is_one_form
        from manyheads.files import check_writable
        from manyheads.layer.rules import rule_named

        rule = rule_named(self.rule)
        if not is_one_form(rule, 1):
            raise InputError(f"--rule {rule} cannot be excluded: its scores depend on the context")
        if not is_one_form(rule, self.heads):
            raise InputError(
                f"{self.heads} heads under the rule {rule} cannot be excluded: the proof is about one form x_iᵀAx_j, "
                f"and {self.heads} heads have {self.heads}. Give --heads 1; `manyheads plan budget` has bounds for more"
            )
        require_ending("--proof", self.proof, (".safetensors",))
        require_ending("--output", self.output, (".safetensors",))
        paths = [path for path in (self.proof, self.output) if path is not None]
        if len({path.absolute() for path in paths}) < len(paths):
            raise InputError("two of the files to write have the same name")
        for path in paths:
            check_writable(path, force=self.force)
