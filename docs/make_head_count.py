"""Make docs/head-count.md and its pictures from docs/data/head-count.jsonl.gz, and nothing else.

manyheads paper retrieval --store head-count.db --save-rows docs/data/head-count.jsonl.gz     makes the rows (resumable)
python docs/make_head_count.py                                                                draws and writes
"""

from __future__ import annotations

from pathlib import Path

from manyheads.paper import RETRIEVAL, Scale, read_rows
from manyheads.paper.head_count_page import head_count_page
from manyheads.paper.reproduce import present

DOCS = Path(__file__).parent
ROWS, PAGE = DOCS / "data" / "head-count.jsonl.gz", DOCS / "head-count.md"


def page(figures: Path) -> str:
    """The page, its pictures drawn into this folder."""
    return head_count_page(present(RETRIEVAL, read_rows(ROWS), Scale(), figures), folder="figures/")


if __name__ == "__main__":
    PAGE.write_text(page(DOCS / "figures"), encoding="utf-8")
