"""The text of docs/results/constructions.md, from stored rows."""

from __future__ import annotations

import math
from collections.abc import Sequence

from manyheads.construct import RADEMACHER, Bernoulli
from manyheads.construct.heads import C0
from manyheads.construct.incoherent_rows import DEFAULT_CONSTANTS
from manyheads.construct.one_hot_items import binomial_width, chernoff_width, paper_width, rademacher_width
from manyheads.construct.smallest_construction import DRAWS, NEEDED
from tools.pages.rows import Row, Tables, fill, machine_text, matching, only, table

KINDS = ("smallest", "limit", "noise", "background", "softmax", "incoherent", "wordnet", "machine")
TABLES = tuple(f"constructions-{kind}" for kind in KINDS)
THRESHOLDS = ("paper", "best")
BACKGROUND_LENGTH = 64  # the context length whose background the page quotes


def page(tables: Tables) -> str:
    """The text of the page."""
    rows = {kind: tables[f"constructions-{kind}"] for kind in KINDS}
    return fill(
        __file__,
        {
            "needed": NEEDED,
            "draws": DRAWS,
            "last_draw": DRAWS - 1,
            "c0": f"{C0:g}",
            "machine": machine_text(rows["machine"]),
            **_budgets(rows["smallest"], rows["limit"]),
            "limit_table": _limit_table(rows["limit"], points(rows["smallest"])),
            **_noise(rows["noise"]),
            **_background(rows["background"]),
            **_softmax(rows["softmax"]),
            "width_table": _width_table(),
            **_incoherent(rows["incoherent"]),
            **_wordnet(rows["wordnet"]),
        },
    )


def points(rows: Sequence[Row]) -> list[tuple[int, int]]:
    """The (m, d_model) of the rows, each once."""
    return list(dict.fromkeys((row["items"], row["d_model"]) for row in rows))


def law(row: Row) -> float:
    """The paper's m·log2 m/d_model."""
    return row["items"] * math.log2(row["items"]) / row["d_model"]


def _budgets(smallest: Sequence[Row], limit: Sequence[Row]) -> dict[str, object]:
    """The smallest key budgets of construction II, with the paper's threshold and with the best."""
    found = {tau: [row for row in matching(smallest, threshold=tau) if row["key_budget"]] for tau in THRESHOLDS}
    ratios = {tau: sorted(row["key_budget"] / law(row) for row in found[tau]) for tau in THRESHOLDS}
    shared = [f"({row['items']:,}, {row['d_model']})" for row in found["best"] if row["key_budget"] < row["items"]]
    margins = sorted(row["normalised_margin"] for tau in THRESHOLDS for row in found[tau])
    lines = []
    for items, d_model in points(smallest):
        rows = [only(smallest, items=items, d_model=d_model, threshold=tau) for tau in THRESHOLDS]
        cells = [cell for row in rows for cell in (_budget_cell(row), _ratio_cell(row))]
        lines.append([f"{items:,}", d_model, f"{law(rows[0]):.0f}", *cells, _single_relations(limit, items, d_model)])
    head = ["m", "d_model", "m·log2 m/d_model", "D_K = h × d_k at τ = d_k/2", "ratio", "D_K = h × d_k at the best τ",
            "ratio", "one relation a head, d_k = 1"]  # fmt: skip
    return {
        "budget_table": table(head, lines),
        "best_low": f"{ratios['best'][0]:.0f}",
        "best_high": f"{ratios['best'][-1]:.0f}",
        "paper_ratio": f"{ratios['paper'][0]:.0f} and more" if ratios["paper"] else "out of reach",
        "shared_heads": f"need less only at {', '.join(shared)}" if shared else "never need less here",
        "margin_low": f"{margins[0]:.1e}",
        "margin_high": f"{margins[-1]:.1e}",
    }


def _budget_cell(row: Row) -> str:
    """A smallest key budget, or the reason why there is none."""
    if not row["works"]:
        return "no width works"
    if row["key_budget"] is None:
        return f"above {row['max_budget']:,}"
    return f"{row['key_budget']:,} = {row['heads']} × {row['key_width']}"


def _ratio_cell(row: Row) -> str:
    """The key budget divided by m·log2 m/d_model."""
    return f"{row['key_budget'] / law(row):.0f}" if row["key_budget"] else "–"


def _single_relations(limit: Sequence[Row], items: int, d_model: int) -> str:
    """The key budget of one head for each relation: m, if the limit separates."""
    row = only(limit, items=items, d_model=d_model, block_size=1)
    if not row["best"]:
        return "no width works"
    return f"{items:,}" + ("" if row["paper"] else ", best τ only")


def _limit_table(limit: Sequence[Row], shown: Sequence[tuple[int, int]]) -> str:
    """The limit d_k → ∞ at three block sizes, and the largest block size that separates."""
    lines = []
    for items, d_model in shown:
        own = matching(limit, items=items, d_model=d_model)
        cells = [f"{row['low']:.2f} / {row['high']:.2f}" for row in own if row["block_size"] in (1, d_model, items)]
        largest = [max((row["block_size"] for row in own if row[tau]), default="none") for tau in THRESHOLDS]
        lines.append([f"{items:,}", d_model, f"{C0 * math.log(items):.0f}", *cells, *largest])
    head = ["m", "d_model", f"{C0:g}·ln m", "B = 1", "B = d_model", "B = m", "largest B that passes at τ = d_k/2",
            "at the best τ"]  # fmt: skip
    return table(head, lines)


def _noise(noise: Sequence[Row]) -> dict[str, object]:
    """The terms of Sec. 5 at four block sizes; `few`, `middle` and `one` name block sizes from small to large."""
    names = ("signal", "n1", "n2", "n1_mean", "n2_mean", "n3_mean", "n3_fluctuation", "low", "high")
    head = ["B", "heads", "wrong signature", "N1", "N2", "mean of N1", "mean of N2", "mean of N3", "N3 − mean",
            "largest score of another pair", "smallest score of a relation"]  # fmt: skip
    shown = [row for row in noise if row["block_size"] in (16, 64, 256, 1024)]
    few, one = shown[0], shown[-1]
    middle = only(noise, block_size=one["d_model"])
    facts: dict[str, object] = {
        "noise_table": table(head, [[r["block_size"], r["heads"], *(f"{r[n]:.2f}" for n in names)] for r in shown]),
        "noise_items": f"{one['items']:,}",
        "noise_d_model": one["d_model"],
        "noise_key_width": one["key_width"],
        "few_block": few["block_size"],
        "middle_block": middle["block_size"],
    }
    for name, row in (("few", few), ("middle", middle), ("one", one)):
        facts |= {f"{name}_{column}": f"{row[column]:.2f}" for column in ("low", "high")}
    for name, row in (("few", few), ("one", one)):
        facts |= {f"{name}_{column}": f"{row[column]:.2f}" for column in ("n3_mean", "n3_fluctuation")}
    return facts


def _background(background: Sequence[Row]) -> dict[str, object]:
    """The attention of the heads that do not own a source, at one context length and two scales of the logits."""
    own = matching(background, context_length=BACKGROUND_LENGTH)
    published, scaled = sorted(own, key=lambda row: -row["scale"])
    log = math.log(published["items"])
    return {
        "contexts": published["contexts"],
        "background_heads": published["heads"],
        "background_length": BACKGROUND_LENGTH,
        "background_mean": f"{(published['heads'] - 1) / BACKGROUND_LENGTH:.2f}",
        "background_allowed": f"{(math.sqrt(published['heads'] * log) + log) / BACKGROUND_LENGTH:.2f}",
        "published_most": f"{published['most']:.2f}",
        "small_scale": f"{scaled['scale']:g}",
        "scaled_most": f"{scaled['most']:.2f}",
    }


def _softmax(softmax: Sequence[Row]) -> dict[str, object]:
    """Certificates of the softmax construction at several scales."""
    first = softmax[0]
    head = ["blocks of", "heads", "scale s", "proved window of τ", "at τ = ½", "in the middle of the window"]
    lines = [
        [row["block_size"], row["heads"], f"{row['scale']:g}", _window_cell(row), row["at_half"], row["in_window"]]
        for row in softmax
    ]
    scales = {
        name: ", ".join(f"{row['scale']:g}" for row in softmax if row[name] == "holds") or "none of these"
        for name in ("in_window", "at_half")
    }
    return {
        "softmax_table": table(head, lines),
        "softmax_length": first["context_length"],
        "softmax_items": first["items"],
        "softmax_d_model": first["d_model"],
        "softmax_key_width": first["key_width"],
        "window_scales": scales["in_window"],
        "half_scales": scales["at_half"],
    }


def _window_cell(row: Row) -> str:
    """A window, or "empty"."""
    return f"{row['low']:.2f} … {row['high']:.2f}" if row["low"] < row["high"] else "empty"


def _width_table() -> str:
    """Key widths of construction I at which a draw holds with probability 1 − m^−3."""
    p = 0.25
    head = ["m", "paper: C = max(3/c1, 2/c2)", "⌈(4 ln m + ln 2)/c1⌉", "exact tails", "signs: ⌈8(5 ln m − ln 2)⌉",
            "signs, exact tails"]  # fmt: skip
    lines = [
        [f"{items:,}", paper_width(items, p=p), chernoff_width(items, p=p), binomial_width(items, Bernoulli(p)),
         rademacher_width(items), binomial_width(items, RADEMACHER)]
        for items in (64, 1024, 16384)
    ]  # fmt: skip
    return table(head, lines)


def _incoherent(incoherent: Sequence[Row]) -> dict[str, object]:
    """Block sizes of construction III, by the incoherence profile and by certificate."""
    first, limits = incoherent[0], DEFAULT_CONSTANTS
    columns = ("epsilon", "rho_log", "gamma_log")
    head = ["embedding", "found by", "B", "ε_d", "ρ·ln m", "γ·ln m", "Theorem B.5 applies", "certificate"]
    lines = [
        [row["family"], how, row[f"{how}_block_size"], *(f"{row[f'{how}_{name}']:.2f}" for name in columns),
         "yes" if row[f"{how}_theorem_applies"] else "no", row[f"{how}_verdict"] or "–"]
        for row in incoherent for how in ("profile", "certificate")
    ]  # fmt: skip
    return {
        "incoherent_table": table(head, lines),
        "incoherent_items": first["items"],
        "incoherent_key_width": f"{first['key_width']:,}",
        "c1": f"{limits.c1:g}",
        "c2": f"{limits.c2:g}",
        "c3": f"{limits.c3:g}",
    }


def _wordnet(wordnet: Sequence[Row]) -> dict[str, object]:
    """Heads and key budgets of construction IV on WN18RR."""
    everything = only(wordnet, relation="all")
    d_model = everything["d_model"]
    head = ["relation", "items", "m'", "Δ", "heads, equitable", "heads, Lemma B.8", "the lemma's bound ⌈m'/B⌉ + Δ"]
    columns = ("items", "relations", "max_degree", "equitable", "lemma", "lemma_bound")
    budget_head = ["relation", "heads", "limit: other pairs / relations", "D_K (d_k), τ = d_k/2", "D_K (d_k), best τ",
                   "m'"]  # fmt: skip
    budgets = [
        [f"`{row['relation']}`", row["equitable"], f"{row['limit_low']:.2f} / {row['limit_high']:.2f}",
         *(_wordnet_cell(row, tau) for tau in THRESHOLDS), f"{row['relations']:,}"]
        for row in wordnet if row["limit_low"] is not None
    ]  # fmt: skip
    return {
        "wordnet_d_model": d_model,
        "wordnet_table": table(head, [[f"`{r['relation']}`", *(f"{r[name]:,}" for name in columns)] for r in wordnet]),
        "wordnet_budgets": table(budget_head, budgets),
        "wordnet_pairs": f"{everything['items'] ** 2 / 1e9:.1f}",
        "wordnet_heads": everything["equitable"],
        "wordnet_degree": everything["max_degree"],
        "wordnet_relations": f"{everything['relations']:,}",
        "wordnet_blocks": -(-everything["relations"] // d_model),
    }


def _wordnet_cell(row: Row, tau: str) -> str:
    """A key budget and its width, or the reason why there is none."""
    budget, width = row[f"{tau}_budget"], row[f"{tau}_width"]
    if budget is not None:
        return f"{budget:,} ({width})"
    middle = 0.5 if tau == "paper" else (row["limit_low"] + row["limit_high"]) / 2
    return f"above {row['max_budget']:,}" if row["limit_low"] < middle < row["limit_high"] else "no width works"
