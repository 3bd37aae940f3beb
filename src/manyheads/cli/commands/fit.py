"""`manyheads fit`: the compact compiler, which fits the smallest layer that it can certify."""

from __future__ import annotations

from dataclasses import asdict, dataclass, field, replace
from typing import TYPE_CHECKING, Annotated, Literal

import tyro

from manyheads.cli.options.option_types import (
    CERTIFIED_LENGTH_HELP,
    Dask,
    Device,
    File,
    Flag,
    Json,
    LengthRange,
    Outputs,
    open_workers,
    parse_context_length,
    refuse,
)
from manyheads.cli.options.problem_options import ProblemOptions, RuleName
from manyheads.cli.render.answer import Answer, pairs_table, shown_files, shown_notes
from manyheads.errors import InputError

if TYPE_CHECKING:
    from collections.abc import Callable

    from manyheads.fitting import FitOptions, FitProgress, FitResult, FitSearchResult, Map, ShapeTrial
    from manyheads.problem.incoherence import IncoherenceProfile
    from manyheads.problem.problem import ContextLength, Problem

MapName = Literal["auto", "none", "whiten", "project", "project+whiten"]
PROFILE_BLOCK = 16
MAP_HELP = (
    "A linear map of the embedding, folded into the weights: whiten it, project its mean direction out, or both. auto "
    "whitens where a few directions dominate."
)


@dataclass(frozen=True, kw_only=True)
class FitCommand:
    """Fit the smallest layer that is certified to recognise a graph.

    The shape is fixed by --heads and --key-width, or --key-budget finds the best split of a key budget into heads, or
    --smallest searches for the smallest key budget. Without any of them, the laws predict the shape. With --key-heads,
    heads share keys.
    """

    problem: tyro.conf.OmitArgPrefixes[ProblemOptions]
    heads: Annotated[int | None, tyro.conf.arg(metavar="INT", help_behavior_hint="(default: by the laws)")] = None
    """Number of heads; with --smallest, only layers of this number of heads are tried."""
    key_width: Annotated[int | None, tyro.conf.arg(metavar="INT", help_behavior_hint="(default: by the laws)")] = None
    """Width of each head, d_k."""
    key_heads: Annotated[int | None, tyro.conf.arg(metavar="INT", help_behavior_hint="(default: as many as heads)")] = (
        None
    )
    """Number of key heads, which divides the number of heads: the heads share the keys of this number of key heads.
    --smallest then searches for the fewest weights, and --key-budget for the fewest heads."""
    latent: Annotated[int | None, tyro.conf.arg(metavar="R", help_behavior_hint="")] = None
    """Width of a latent from which the keys of all heads are made (MLA), with --heads and --key-width. The layer has
    its absorbed form: one key head of this width, and queries of rank at most the key width."""
    key_budget: Annotated[int | None, tyro.conf.arg(metavar="D_K", help_behavior_hint="")] = None
    """Split this key budget into heads in every way, and keep the layer with the widest margin."""
    smallest: Flag = False
    """Search for the smallest key budget that certifies within --time-limit."""
    max_key_budget: Annotated[
        int | None, tyro.conf.arg(metavar="INT", help_behavior_hint="(default: m', or the predicted one if larger)")
    ] = None
    """The largest key budget that --smallest tries; where heads share keys, the largest (D_Q + D_K)/2."""
    rule: RuleName = "max"
    context_length: Annotated[LengthRange, tyro.conf.arg(help=CERTIFIED_LENGTH_HELP)] = None
    precision: Literal["float64", "float32", "bfloat16"] = "float64"
    """Widen the margin until the certificate also holds where PyTorch computes in this number type."""
    map: Annotated[MapName, tyro.conf.arg(help=MAP_HELP)] = "auto"
    seed: int = 2
    """Seed of the random starts."""
    restarts: Annotated[int | None, tyro.conf.arg(metavar="INT", help_behavior_hint="(default: 12)")] = None
    """The most attempts, by turns from a random start and from the weights of the attempt before."""
    steps: Annotated[int | None, tyro.conf.arg(metavar="INT", help_behavior_hint="(default: 2000)")] = None
    """The most steps of one attempt, each over all pairs."""
    trials: Annotated[int | None, tyro.conf.arg(metavar="INT", help_behavior_hint="(default: no limit)")] = None
    """Stop a search after this number of trials. It then ends at the same layer on all machines and all workers."""
    time_limit: Annotated[
        float | None,
        tyro.conf.arg(
            metavar="SECONDS", help_behavior_hint="(default: 60 for a search without --trials, else no limit)"
        ),
    ] = None
    """Stop after this number of seconds, and keep the best layer so far."""
    workers: Annotated[
        int | None, tyro.conf.arg(metavar="INT", help_behavior_hint="(default: one a core; for one shape 1 or 2)")
    ] = None
    """Number of shapes that a search tries at once; for one shape, the threads that share each step."""
    dask: Annotated[Dask, tyro.conf.arg(help="Search on the Dask cluster at this address, e.g. tcp://host:8786.")] = (
        None
    )
    engine: Literal["native", "torch"] = "native"
    """The C++ kernels, or the same steps by PyTorch (needs the torch extra), e.g. on a GPU."""
    device: Device = "cpu"
    warm_start: Annotated[File, tyro.conf.arg(metavar="LAYER")] = None
    """Begin with the weights of this certified layer, after relations were added or removed."""
    files: tyro.conf.OmitArgPrefixes[Outputs] = field(default_factory=Outputs)
    json: Json = False

    def run(self) -> Answer:
        """Fit one shape or search, write; yes if the layer holds the graph."""
        from manyheads.fitting import suitable_map

        length = parse_context_length(self.context_length)
        self._check()
        self.files.check()
        problem = self.problem.load()
        map: Map = suitable_map(problem.rows) if self.map == "auto" else self.map
        return (self._search if self._is_search else self._fit)(problem, length, map)

    @property
    def _is_search(self) -> bool:
        return self.smallest or self.key_budget is not None

    def _fit(self, problem: Problem, length: ContextLength, map: Map) -> Answer:
        from manyheads.cli.render.layer_table import fit_effort, layer_facts, shown_certificate, shown_profiles
        from manyheads.cli.render.progress import status

        with status("fit") as line:
            fitted = self._fitted(problem, self._options(problem, length, map, lambda look: line(str(look))))
        provenance = self._provenance() | fitted.certificate.record()
        written = self.files.write(problem, fitted.layer, provenance)
        one_head, sentence = self._one_head(problem, fitted.layer.heads, held=fitted.certificate.holds)
        if not fitted.certificate.holds and (self.heads, self.key_width, self.warm_start) == (None, None, None):
            sentence = ["the laws predicted this shape: --smallest searches for one that can be certified", *sentence]
        profiles = _profiles(problem, map)
        return Answer(
            facts={
                "layer": layer_facts(fitted.layer, provenance),
                "certificate": asdict(fitted.certificate),
                "map": map,
                "incoherence": {name: asdict(profile) for name, profile in profiles.items()},
                "attempts": fitted.attempts,
                "steps": fitted.steps,
                "seconds": fitted.seconds,
                "trace": [asdict(look) | {"margin": look.margin} for look in fitted.trace],
                "one_head": one_head,
                "written": written,
            },
            shown=[
                *shown_certificate(fitted.certificate),
                pairs_table([("fitted", fit_effort(fitted)), *self._latent_row(problem), *shown_profiles(profiles)]),
                *shown_notes(sentence),
                *shown_files(written),
            ],
            yes=fitted.certificate.holds_in(self.precision),
        )

    def _latent_row(self, problem: Problem) -> list[tuple[str, str]]:
        """The weights and the cached numbers of a latent, which the absorbed form does not show."""
        from manyheads.bounds import Shape, bits_per_weight

        if self.latent is None or self.heads is None or self.key_width is None:
            return []
        shape = Shape(d_model=problem.d_model, heads=self.heads, key_width=self.key_width, latent=self.latent)
        bits = bits_per_weight(problem.graph, weights=shape.parameters).value
        return [
            (
                "latent",
                f"{shape.words()}: {shape.parameters:,} weights in W_Q, W_U and W_D, {bits:.3g} bits per weight, "
                f"{self.latent:,} numbers to cache for each token; the layer is its absorbed form",
            )
        ]

    def _fitted(self, problem: Problem, options: FitOptions) -> FitResult:
        from manyheads.files import read_layer
        from manyheads.fitting import fit, grow
        from manyheads.layer.rules import MAX

        if self.warm_start is None:
            return fit(problem, heads=self.heads, key_width=self.key_width, key_heads=self.key_heads, options=options)
        start = read_layer(self.warm_start)
        if options.rule is not MAX and options.rule is not start.rule:
            raise InputError(f"--warm-start keeps the rule of its layer, {start.rule}: --rule does not go with it")
        return grow(start, problem, options=options)

    def _search(self, problem: Problem, length: ContextLength, map: Map) -> Answer:
        from manyheads.cli.render.layer_table import layer_facts, shown_certificate, shown_trials

        found = self._found(problem, length, map)
        provenance = self._provenance() | (found.certificate.record() if found.certificate else {})
        written = self.files.write(problem, found.layer, provenance)
        one_head, sentence = self._one_head(problem, self.heads or 0, held=found.layer is not None)
        return Answer(
            facts={
                "layer": found.layer and layer_facts(found.layer, provenance),
                "certificate": found.certificate and asdict(found.certificate),
                "map": map,
                "trials": [
                    asdict(trial) | {"key_budget": trial.key_budget, "both_budgets": trial.both_budgets}
                    for trial in found.trials
                ],
                "seconds": found.seconds,
                "one_head": one_head,
                "written": written,
            },
            shown=[
                *shown_trials(found, by_margin=self.key_budget is not None and self.key_heads is None),
                *(shown_certificate(found.certificate) if found.certificate else []),
                *shown_notes(sentence),
                *shown_files(written),
            ],
            yes=found.layer is not None,
        )

    def _found(self, problem: Problem, length: ContextLength, map: Map) -> FitSearchResult:
        from manyheads.cli.render.layer_table import budget_words
        from manyheads.cli.render.progress import status
        from manyheads.fitting import best_split, smallest

        with status("search") as line:
            best = "nothing certified yet"

            def report(trial: ShapeTrial) -> None:
                nonlocal best
                if trial.certified:
                    best = f"certified {budget_words(trial)}"
                line(f"{best}; {trial.heads} × {trial.key_width}: {trial.wrong:,} pairs wrong, {trial.seconds:.1f} s")

            options = self._options(problem, length, map, lambda look: line(f"{best}; {look}"), report)
            with open_workers(self.workers, self.dask) as workers:
                options = replace(options, workers=workers)
                if self.key_budget is not None:
                    return best_split(problem, key_budget=self.key_budget, key_heads=self.key_heads, options=options)
                return smallest(
                    problem, max_budget=self.max_key_budget, heads=self.heads, key_heads=self.key_heads, options=options
                )

    def _one_head(self, problem: Problem, heads: int, *, held: bool) -> tuple[dict[str, object] | None, list[str]]:
        """Where one head was fitted, or heads under sum, and nothing holds: whether anything can hold the graph.

        Args:
            problem: The graph and the embedding.
            heads: Of the layers that were fitted; 0 for several numbers of heads.
            held: Whether a layer holds the graph.
        """
        from manyheads.cli.render.exclusion_table import beside, is_one_form
        from manyheads.layer.rules import rule_named

        if held or not is_one_form(rule := rule_named(self.rule), heads):
            return None, []
        facts, sentence = beside(problem, rule, vars(self.problem))
        return facts, [sentence]

    def _options(
        self,
        problem: Problem,
        length: ContextLength,
        map: Map,
        progress: Callable[[FitProgress], None],
        report: Callable[[ShapeTrial], None] | None = None,
    ) -> FitOptions:
        """The options of the command as those of the library."""
        from manyheads.fitting import FitOptions
        from manyheads.fitting.options import RESTARTS, suitable_descent
        from manyheads.layer.rules import rule_named

        descent = suitable_descent(problem.items, problem.d_model)
        return FitOptions(
            seed=self.seed,
            restarts=self.restarts or RESTARTS,
            trials=self.trials,
            time_limit=self.time_limit,
            rule=rule_named(self.rule),
            context_length=length,
            precision=self.precision,
            latent=self.latent,
            map=map,
            descent=replace(descent, steps=self.steps or descent.steps),
            workers=self.workers,
            engine=self.engine,
            device=self.device,
            progress=progress,
            report=report,
        )

    def _provenance(self) -> dict[str, str | int]:
        """The origin of the layer, for its file."""
        names = (
            "heads", "key_heads", "latent", "key_budget", "rule", "map", "restarts", "steps", "trials", "time_limit",
            "workers", "warm_start",
        )  # fmt: skip
        # a search does not depend on its workers; the native engine on the CPU is the rule
        left_out = {"workers"} if self._is_search else set[str]()
        left_out |= {"engine", "device"} if self.engine == "native" else set()
        given = {
            name: str(value) for name in names if (value := getattr(self, name)) is not None and name not in left_out
        }
        return self.problem.provenance() | {"construction": "fit", "seed": self.seed} | given

    def _check(self) -> None:
        """Refuse options that do not go together, and numbers out of range."""
        from manyheads.bounds.shape import require_even_sharing
        from manyheads.layer.rules import SUM, rule_named
        from manyheads.numbers import check_numbers

        check_numbers(heads=self.heads, key_heads=self.key_heads, latent=self.latent)
        if self.latent is not None and (self.heads is None or self.key_width is None or self.warm_start is not None):
            raise InputError("--latent fits one shape: give --heads and --key-width with it, and no --warm-start")
        if self.latent is not None and self.key_heads is not None:
            raise InputError("all heads make their keys from the latent: --key-heads does not go with --latent")
        if self.heads is not None:
            require_even_sharing(heads=self.heads, key_heads=self.key_heads)
        shape_given = self.heads is not None or self.key_width is not None
        searching = self._is_search
        for option in () if searching else ("trials", "dask"):
            refuse(option, getattr(self, option), because="it goes with --smallest or --key-budget")
        if self.smallest and self.key_budget is not None:
            raise InputError("--key-budget fixes the key budget that --smallest searches for: give one of them")
        if self.key_budget is not None and shape_given:
            raise InputError("--key-budget finds the split into heads: --heads and --key-width do not go with it")
        if self.smallest and self.key_width is not None:
            raise InputError("--smallest finds the key width: --key-width does not go with it")
        if self.max_key_budget is not None and not self.smallest:
            raise InputError("--max-key-budget goes with --smallest")
        if searching and self.warm_start is not None:
            raise InputError("--warm-start keeps the shape of its layer: --smallest and --key-budget do not go with it")
        if searching and self.restarts is not None:
            raise InputError("--smallest and --key-budget try until their time is up: --restarts does not go with them")
        if self.warm_start is not None and (shape_given or self.key_heads is not None):
            raise InputError(
                "--warm-start keeps the shape of its layer: --heads, --key-width and --key-heads do not go with it"
            )
        if rule_named(self.rule) is SUM:
            raise InputError(
                "fit makes layers of the rule max or softmax, not 'sum': heads under sum add up to one head, and "
                "`manyheads exclude --rule sum` decides whether any number of them can hold the graph"
            )


def _profiles(problem: Problem, map: Map) -> dict[str, IncoherenceProfile]:
    """The incoherence of the rows before and after the map; nothing without a map."""
    from manyheads.fitting import linear_map, map_rows
    from manyheads.problem.incoherence import incoherence_profile

    if map == "none":
        return {}
    block = min(PROFILE_BLOCK, problem.items)
    after = map_rows(problem.rows, linear_map(problem.rows, map))
    return {
        name: incoherence_profile(rows, matching_size=block)
        for name, rows in (("before", problem.rows), ("after", after))
    }
