"""The text of docs/results/one-head.md, from stored rows."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from statistics import median

from manyheads.bounds.laws import freedom_needed
from tools.pages.rows import Row, Tables, fill, machine_text, matching, number, table

TABLES = ("one-head", "one-head-missed", "one-head-hubs", "one-head-machine")
TITLES = {
    "permutation": "permutation",
    "regular:2": "2-regular",
    "regular:4": "4-regular",
    "wordnet": "WordNet over SmolLM2",
}


@dataclass(frozen=True)
class Transition:
    """The decisions of one family, size and seed."""

    family: str
    items: int
    seed: int
    law: float
    """The d_model of the law d² = m²·g*(m'/m²)."""
    excluded: int
    """The largest d_model at which no head holds the graph."""
    held: int
    """The smallest d_model at which one head holds the graph."""
    undecided: tuple[int, ...]

    @property
    def decided(self) -> bool:
        """Whether the two sides lie at most one dimension apart, and nothing was left open."""
        return self.held - self.excluded <= 1 and not self.undecided


def law(items: int, relations: int) -> float:
    """The d_model of the law d² = m²·g*(m'/m²)."""
    return math.sqrt(float(freedom_needed(items=items, relations=relations, heads=1)))


def transitions(rows: Sequence[Row]) -> Iterator[Transition]:
    """The transition of every family, size and seed that has rows on both sides."""
    for family, items, seed in dict.fromkeys((row["family"], row["items"], row["seed"]) for row in rows):
        own = matching(rows, family=family, items=items, seed=seed)
        by_verdict = {
            verdict: [row["d_model"] for row in matching(own, verdict=verdict)]
            for verdict in ("excluded", "held", "undecided")
        }
        if by_verdict["excluded"] and by_verdict["held"]:
            at = law(items, own[0]["relations"])
            ends = max(by_verdict["excluded"]), min(by_verdict["held"])
            yield Transition(family, items, seed, at, *ends, tuple(sorted(by_verdict["undecided"])))


def page(tables: Tables) -> str:
    """The text of the page."""
    rows, missed, hubs, machine = (tables[name] for name in TABLES)
    found = list(transitions(rows))
    gaussian = [one for one in found if one.family != "wordnet"]
    decided = [one for one in gaussian if one.decided]
    opened = [one for one in found if not one.decided]
    crossed = [one for one in found if one.held < one.excluded]
    distances = [(one.excluded + one.held) / 2 - one.law for one in decided]
    proved = [row for row in rows if row["share"] is not None]
    largest = max(proved, key=lambda row: (row["items"], row["d_model"]))
    facts = dict(
        decisions=len(rows),
        excluded=len(matching(rows, verdict="excluded")),
        held=len(matching(rows, verdict="held")),
        undecided=len(matching(rows, verdict="undecided")),
        undecided_list="; ".join(
            f"{TITLES[row['family']]} ({row['items']}, {row['d_model']}), seed {row['seed']}"
            for row in matching(rows, verdict="undecided")
        )
        or "none",
        places=len(gaussian),
        decided=len(decided),
        open_list="; ".join(f"{TITLES[one.family]}, m = {one.items}, seed {one.seed}" for one in opened) or "none",
        crossed=len(crossed),
        crossed_list="; ".join(f"{TITLES[one.family]}, m = {one.items}, seed {one.seed}" for one in crossed) or "none",
        seeds=seeds_by_size(gaussian),
        one_sided=one_sided(rows, found),
        transition_table=transition_table(found),
        lowest=f"{min(distances):+.1f}",
        highest=f"{max(distances):+.1f}",
        middle=f"{median(distances):+.1f}",
        largest_share=f"{max(row['share'] for row in proved):.0e}",
        largest=f"({largest['items']}, {largest['d_model']})",
        time_table=time_table(rows),
        wordnet_table=wordnet_table(rows, hubs),
        missed_table=missed_table(missed),
        machine=machine_text(machine),
    )
    return fill(__file__, facts)


def seeds_by_size(found: Sequence[Transition]) -> str:
    """The number of seeds that have decisions on both sides, and the sizes that have this number."""
    seeds = {items: len({one.seed for one in found if one.items == items}) for items in {one.items for one in found}}
    told = []
    for count in sorted(set(seeds.values()), reverse=True):
        sizes = ", ".join(str(items) for items in sorted(seeds) if seeds[items] == count)
        told.append(f"{count} for {sizes} items")
    return "; ".join(told)


def one_sided(rows: Sequence[Row], found: Sequence[Transition]) -> str:
    """The decisions over Gaussian rows at sizes that have no decision on the other side."""
    both = {(one.family, one.items, one.seed) for one in found}
    rest = [
        row for row in rows if (row["family"], row["items"], row["seed"]) not in both and row["family"] != "wordnet"
    ]
    told = [f"{TITLES[row['family']]} ({row['items']}, {row['d_model']}), {row['verdict']}" for row in rest]
    return "; ".join(told) or "none"


def interval(values: Sequence[int]) -> str:
    """The smallest and the largest value, once if they are equal."""
    low, high = min(values), max(values)
    return str(low) if low == high else f"{low} to {high}"


def transition_table(found: Sequence[Transition]) -> str:
    """Largest d excluded and smallest d held over the seeds, beside the law."""
    lines = []
    for family, items in dict.fromkeys((one.family, one.items) for one in found if one.family != "wordnet"):
        own = [one for one in found if (one.family, one.items) == (family, items)]
        sides = interval([one.excluded for one in own]), interval([one.held for one in own])
        decided = f"{sum(one.decided for one in own)} of {len(own)}" if any(one.decided for one in own) else "open"
        lines.append([TITLES[family], items, f"{own[0].law:.1f}", *sides, decided])
    head = ["graph", "m", "law: d", "largest d excluded", "smallest d held", "seeds decided"]
    return table(head, sorted(lines, key=lambda line: (list(TITLES.values()).index(line[0]), line[1])))


def time_table(rows: Sequence[Row]) -> str:
    """The seconds of a decision, by size."""
    lines = []
    for items in sorted({row["items"] for row in rows}):
        own = [row for row in matching(rows, items=items) if row["verdict"] != "undecided"]
        seconds = [row["seconds"] for row in own]
        steps = interval([row["steps"] for row in own])
        lines.append([items, len(own), steps, number(float(median(seconds))), number(max(seconds))])
    return table(["m", "decisions", "Newton steps", "median seconds", "longest"], lines)


def wordnet_table(rows: Sequence[Row], hubs: Sequence[Row]) -> str:
    """The transition over real rows, beside the law for random ones, and the exclusions by one token."""
    lines = []
    for items in sorted({row["items"] for row in matching(rows, family="wordnet")}):
        own = matching(rows, family="wordnet", items=items)
        excluded = max((row["d_model"] for row in matching(own, verdict="excluded")), default="none found")
        held = min(row["d_model"] for row in matching(own, verdict="held"))
        undecided = ", ".join(str(row["d_model"]) for row in matching(own, verdict="undecided")) or "none"
        relations = own[0]["relations"]
        alone = [f"{hub['d_model']} ({hub['token_relations']})" for hub in matching(hubs, items=items)]
        lines.append([items, relations, f"{law(items, relations):.1f}", excluded, held, undecided, *alone])
    head = ["m", "relations", "law: d", "largest d excluded", "smallest d held", "d undecided"]
    return table([*head, "largest d that one token excludes (its relations)"], lines)


def missed_table(rows: Sequence[Row]) -> str:
    """How many relations every head misses at least, and the heads that follow."""
    lines = [
        [row["items"], row["d_model"], row["relations"], row["missed"], number(row["total"]), row["heads"]]
        for row in rows
    ]
    return table(["m", "d_model", "relations", "missed by every head, at least", "T", "heads, at least"], lines)
