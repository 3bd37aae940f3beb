"""The page docs/constructions.md: tables and sentences from stored rows, every number in them computed here."""

from __future__ import annotations

import math
from dataclasses import dataclass, fields
from textwrap import fill

from rows import Row, only, read_rows, table

from manyheads.construct import RADEMACHER, Bernoulli
from manyheads.construct.conditions import C0
from manyheads.construct.incoherent_rows import DEFAULT_CONSTANTS
from manyheads.construct.smallest_construction import DRAWS, NEEDED
from manyheads.construct.widths import binomial_width, chernoff_width, paper_width, rademacher_width


@dataclass(frozen=True)
class Stored:
    """Every stored row."""

    smallest: list[Row]
    limit: list[Row]
    noise: list[Row]
    background: list[Row]
    softmax: list[Row]
    incoherent: list[Row]
    wordnet: list[Row]
    machine: list[Row]

    @classmethod
    def read(cls) -> Stored:
        """Read them."""
        return cls(**{field.name: read_rows(f"constructions-{field.name}") for field in fields(cls)})


def points(stored: Stored) -> list[tuple[int, int]]:
    """The (m, d_model) that were searched."""
    return list(dict.fromkeys((row["items"], row["d_model"]) for row in stored.smallest))


def page(stored: Stored) -> str:
    """The page."""
    sections = [budgets, limits, noise, softmax, one_hot, incoherent, general, repeat]
    # paragraphs and list items are filled here, because the numbers in them decide how long they are
    note = "<!-- written by docs/make_constructions.py from the rows in docs/data: change those, not this page -->"
    blocks = [block for section in sections for block in section(stored).split("\n\n")]
    return "\n\n".join([note, *(filled(block) for block in blocks)]) + "\n"


def filled(block: str) -> str:
    """A paragraph or a list with lines of at most 120 characters; tables, titles and pictures as they are."""
    if block.startswith(("|", "#", "!")):
        return block
    items = block.removeprefix("- ").split("\n- ")
    hang = "  " if block.startswith("- ") else ""
    return "\n".join(
        fill(" ".join(item.split()), 120, initial_indent="- " if hang else "", subsequent_indent=hang) for item in items
    )


def law(row: Row) -> float:
    """The paper's m·log2 m/d_model."""
    return row["items"] * math.log2(row["items"]) / row["d_model"]


def budgets(stored: Stored) -> str:
    """How large is sufficiently large."""
    found = {tau: [row for row in stored.smallest if row["threshold"] == tau and row["key_budget"]] for tau in TAUS}
    ratios = {tau: sorted(row["key_budget"] / law(row) for row in found[tau]) for tau in TAUS}
    shared = [f"({row['items']:,}, {row['d_model']})" for row in found["best"] if row["key_budget"] < row["items"]]
    sharing = (
        f"Sharing heads needs less only at {', '.join(shared)}." if shared else "Sharing heads never needs less here."
    )
    margins = sorted(row["normalised_margin"] for tau in TAUS for row in found[tau])
    paper_says = f"{ratios['paper'][0]:.0f} and more" if ratios["paper"] else "out of reach"
    lines = []
    for items, d_model in points(stored):
        rows = [only(stored.smallest, items=items, d_model=d_model, threshold=tau) for tau in TAUS]
        cells = [cell for row in rows for cell in (budget_cell(row), ratio_cell(row))]
        lines.append([f"{items:,}", d_model, f"{law(rows[0]):.0f}", *cells, alone(stored, items, d_model)])
    head = ["m", "d_model", "m·log2 m/d_model", "D_K = h × d_k at τ = d_k/2", "ratio", "D_K = h × d_k at the best τ",
            "ratio", "one relation a head, d_k = 1"]  # fmt: skip
    return f"""# The constructions, and how large is "sufficiently large"

The theorems hold for constants that are "sufficiently large". Here is how large that is for construction II on
Gaussian unit-norm embeddings, found by building layers and certifying them. A key width counts if {NEEDED} of
{DRAWS} draws of the signatures certify.

{table(head, lines)}

- D_K is minimised over block size and key width. Blocks have at least eight relations here, as many as 1, 2, 3, 4,
  6, 8, 12, … heads make. "No width works": at none of these block sizes does the limit d_k → ∞ separate (next
  section). "Above": some width works, but none up to that budget.
  A tenth more or less is luck: near the edge, widths pass and fail in turn.
- The ratio is to m·log2 m/d_model. At the best threshold it is {ratios["best"][0]:.0f} to {ratios["best"][-1]:.0f},
  at the paper's {paper_says}. What training reaches is 1.19 by the paper's own fit. So the constructions prove how
  the budget grows; they are no way to save any at these sizes.
- The last column is the plainest layer there is: a head of width 1 for each relation. Its word is one sign, whose
  square is 1, so chance has no part in it. {sharing}
- The normalised margins of these layers lie between {margins[0]:.1e} and {margins[-1]:.1e}: not the constant that
  the margin bound of Sec. 9 would like."""


TAUS = ("paper", "best")


def budget_cell(row: Row) -> str:
    """A smallest budget, or why there is none."""
    if not row["works"]:
        return "no width works"
    if row["key_budget"] is None:
        return f"above {row['max_budget']:,}"
    return f"{row['key_budget']:,} = {row['heads']} × {row['key_width']}"


def ratio_cell(row: Row) -> str:
    """The budget over m·log2 m/d_model."""
    return f"{row['key_budget'] / law(row):.0f}" if row["key_budget"] else "–"


def alone(stored: Stored, items: int, d_model: int) -> str:
    """What blocks of one relation need: a budget of m, if their limit separates."""
    row = only(stored.limit, items=items, d_model=d_model, block_size=1)
    if not row["best"]:
        return "no width works"
    return f"{items:,}" + ("" if row["paper"] else ", best τ only")


def limits(stored: Stored) -> str:
    """Where no width works."""
    lines = []
    for items, d_model in points(stored):
        own = [row for row in stored.limit if (row["items"], row["d_model"]) == (items, d_model)]
        cells = [f"{row['low']:.2f} / {row['high']:.2f}" for row in own if row["block_size"] in (1, d_model, items)]
        largest = [max((row["block_size"] for row in own if row[tau]), default="none") for tau in TAUS]
        lines.append([f"{items:,}", d_model, f"{C0 * math.log(items):.0f}", *cells, *largest])
    head = ["m", "d_model", f"{C0:g}·ln m", "B = 1", "B = d_model", "B = m", "largest B that passes at τ = d_k/2",
            "at the best τ"]  # fmt: skip
    return f"""## Where no width is sufficient

As d_k grows, the score of head k divided by d_k tends to G[:,V_k]·G[π(V_k),:] with G = XXᵀ. The table has, for
three block sizes, the largest such limit of a false pair and the smallest of a true one. If the first is not below
the second no threshold separates, however wide the heads; τ = d_k/2 asks for ½ to lie between them. (Block sizes
are powers of two.)

{table(head, lines)}

The proof of Theorem 4.1 takes N1 and N2 for noise with mean zero. They are not: the word of π(i) itself leaks into
the key of j, so that N1 has the mean d_k·δ_j(π(i)), and N2 likewise d_k·δ_i(π⁻¹(j)). These are overlaps of two
single items, the largest about 2·√(ln m/d_model), and smaller blocks do not make them smaller. They are why even B
= 1 fails at τ = d_k/2 unless d_model is about {C0:g}·ln m or more. Below that, `manyheads` warns that the theorem's
condition is not met."""


def noise(stored: Stored) -> str:
    """Why one head fails."""
    names = ("signal", "n1", "n2", "n1_mean", "n2_mean", "n3_mean", "n3_fluctuation", "low", "high")
    head = ["B", "heads", "wrong word", "N1", "N2", "mean of N1", "mean of N2", "mean of N3", "N3 − mean",
            "largest false score", "smallest true score"]  # fmt: skip
    shown = [row for row in stored.noise if row["block_size"] in (16, 64, 256, 1024)]
    few, one = shown[0], shown[-1]
    middle = only(stored.noise, block_size=one["d_model"])
    return f"""## Why one head fails and many do not (Sec. 5)

![Noise against block size, the scores it leads to, and the softmax background](figures/constructions-noise.png)

Gaussian embedding, m = {one["items"]:,}, d_model = {one["d_model"]}, d_k = {one["key_width"]}. Every number is the
largest absolute value over all pairs and heads, in units of d_k: the signal of a true pair is 1.

{table(head, [[row["block_size"], row["heads"], *(f"{row[name]:.2f}" for name in names)] for row in shown])}

- What a wrong word of the same block adds hardly depends on the block size; more width shrinks it.
- N3 is what grows. Its fluctuation is nearly in proportion to B, as Eq. 1 says: {few["n3_fluctuation"]:.2f} with
  blocks of {few["block_size"]}, {one["n3_fluctuation"]:.2f} with one head; more width shrinks it like 1/√d_k. Its
  mean grows about like √B, from {few["n3_mean"]:.2f} to {one["n3_mean"]:.2f}, and no width shrinks it. Eq. 1 and 2
  leave this mean out.
- So with one head the smallest true score, {one["high"]:.2f}, is far below the largest false one, {one["low"]:.2f}.
  With blocks of {middle["block_size"]} it is {middle["high"]:.2f} against {middle["low"]:.2f}, with blocks of
  {few["block_size"]} {few["high"]:.2f} against {few["low"]:.2f}."""


def softmax(stored: Stored) -> str:
    """The background, and what mends it."""
    length = 64
    loud, quiet = sorted(
        (row for row in stored.background if row["context_length"] == length), key=lambda row: -row["scale"]
    )
    log = math.log(loud["items"])
    mean, allowed = (loud["heads"] - 1) / length, (math.sqrt(loud["heads"] * log) + log) / length
    first = stored.softmax[0]
    mended = [f"{row['scale']:g}" for row in stored.softmax if row["in_window"] == "holds"]
    at_half = [f"{row['scale']:g}" for row in stored.softmax if row["at_half"] == "holds"]
    head = ["blocks of", "heads", "scale s", "proved window of τ", "at τ = ½", "in the middle of the window"]
    lines = [
        [row["block_size"], row["heads"], f"{row['scale']:g}", window_cell(row), row["at_half"], row["in_window"]]
        for row in stored.softmax
    ]
    return f"""## Softmax

The right panel has what the heads that do not own a source give to a pair, in {loud["contexts"]} random contexts
for each length, {loud["heads"]} heads, the same embedding. Its mean is (h − 1)/ℓ exactly. At ℓ = {length} that is
{mean:.2f}, and Eq. 13 with its constant at 1 allows {allowed:.2f} more. As published the largest is
{loud["most"]:.2f}: logits of size √d_k times the overlaps make every head choose somebody. With the logits times
{quiet["scale"]:g} it is {quiet["most"]:.2f}.

Certified for every context of length {first["context_length"]}, m = {first["items"]}, d_model = {first["d_model"]},
d_k = {first["key_width"]}:

{table(head, lines)}

The first line is Algorithm 2 as published. With smaller blocks, a scale on the logits and a threshold from the
window the layer certifies at s = {", ".join(mended) or "none of these"}; at τ = ½ at s =
{", ".join(at_half) or "none of these"}. `construct.mended_softmax` looks for the scale."""


def window_cell(row: Row) -> str:
    """A window, or that there is none."""
    return f"{row['low']:.2f} … {row['high']:.2f}" if row["low"] < row["high"] else "empty"


def one_hot(_: Stored) -> str:
    """Construction I's explicit widths."""
    p = 0.25
    head = ["m", "paper: C = max(3/c1, 2/c2)", "⌈(4 ln m + ln 2)/c1⌉", "exact tails", "signs: ⌈8(5 ln m − ln 2)⌉",
            "signs, exact tails"]  # fmt: skip
    lines = [
        [f"{items:,}", paper_width(items, p=p), chernoff_width(items, p=p), binomial_width(items, Bernoulli(p)),
         rademacher_width(items), binomial_width(items, RADEMACHER)]
        for items in (64, 1024, 16384)
    ]  # fmt: skip
    return f"""## Construction I: explicit widths

One-hot items, one head, Bernoulli(¼) words or signs: the key width at which a draw holds with probability 1 − m^−3.
The paper's constant gives 1 − 2·m^−2 only; the others are rigorous, the exact tails from that width on.

{table(head, lines)}"""


def incoherent(stored: Stored) -> str:
    """Construction III's block sizes."""
    first, c = stored.incoherent[0], DEFAULT_CONSTANTS
    head = ["embedding", "found by", "B", "ε_d", "ρ·ln m", "γ·ln m", "Theorem B.5 applies", "certificate"]
    lines = [
        [row["family"], how, row[f"{how}_block_size"], *(f"{row[f'{how}_{name}']:.2f}" for name in names),
         "yes" if row[f"{how}_theorem_applies"] else "no", row[f"{how}_verdict"] or "–"]
        for row in stored.incoherent for how, names in dict.fromkeys(("profile", "certificate"), PROFILE).items()
    ]  # fmt: skip
    return f"""## Construction III: the block size

m = {first["items"]}. From the profile: the largest blocks on which ε_d ≤ {c.c1:g}, ρ·ln m ≤ {c.c2:g} and γ·ln m ≤
{c.c3:g}, the theorem's condition with constants that it leaves open. By certificate: the largest blocks whose layer
certifies at d_k = {first["key_width"]:,}, τ = d_k/2.

{table(head, lines)}"""


PROFILE = ("epsilon", "rho_log", "gamma_log")


def general(stored: Stored) -> str:
    """Construction IV on WN18RR."""
    everything = only(stored.wordnet, relation="all")
    d_model = everything["d_model"]
    heads = ["relation", "items", "m'", "Δ", "heads, equitable", "heads, Lemma B.8", "the lemma's bound ⌈m'/B⌉ + Δ"]
    columns = ("items", "relations", "max_degree", "equitable", "lemma", "lemma_bound")
    packed = [[f"`{row['relation']}`", *(f"{row[column]:,}" for column in columns)] for row in stored.wordnet]
    budget_head = ["relation", "heads", "limit: false / true", "D_K (d_k), τ = d_k/2", "D_K (d_k), best τ", "m'"]
    budget_lines = [
        [f"`{row['relation']}`", row["equitable"], f"{row['limit_low']:.2f} / {row['limit_high']:.2f}",
         *(wordnet_cell(row, tau) for tau in TAUS), f"{row['relations']:,}"]
        for row in stored.wordnet if row["limit_low"] is not None
    ]  # fmt: skip
    return f"""## Construction IV: WN18RR

Every relation of WN18RR over the items it touches, and all of them as one graph, in blocks of at most {d_model}.
The equitable colouring makes max(Δ, ⌈m'/B⌉) heads:

{table(heads, packed)}

Over Gaussian rows, d_model = {d_model}, the smallest budget at this number of heads ({NEEDED} of {DRAWS} draws
certify, over all pairs):

{table(budget_head, budget_lines)}

The others are packed only. All of WN18RR is {everything["items"] ** 2 / 1e9:.1f} billion pairs in
{everything["equitable"]} heads. That many heads come from its busiest item, Δ = {everything["max_degree"]}; the
{everything["relations"]:,} relations alone would fit into {-(-everything["relations"] // d_model)}. So the skew
condition (33) of Corollary B.10 does not hold here, and a budget of Δ·d_k is what the construction costs."""


def wordnet_cell(row: Row, tau: str) -> str:
    """A budget and its width, or why there is none."""
    budget, width = row[f"{tau}_budget"], row[f"{tau}_width"]
    if budget is not None:
        return f"{budget:,} ({width})"
    middle = 0.5 if tau == "paper" else (row["limit_low"] + row["limit_high"]) / 2
    return f"above {row['max_budget']:,}" if row["limit_low"] < middle < row["limit_high"] else "no width works"


def repeat(stored: Stored) -> str:
    """How to make this page again."""
    machine = ", ".join(f"{row['fact']} {row['value']}" for row in stored.machine)
    return f"""## To repeat

`python docs/make_constructions.py` measures what docs/data does not have and writes this page. Graph and
embedding have seed 0, the draws the seeds 0 to {DRAWS - 1}. Computed with: {machine}."""
