"""The papers repeated: every figure, table and claim with its runs, its picture and its verdict."""

from manyheads.papers.effort import Scale
from manyheads.papers.exhibit import (
    BEYOND,
    CAPACITY,
    HEAD_COUNT,
    Collection,
    Exhibit,
    claim_exhibits,
    exhibit_named,
    exhibit_names,
    needed,
    register_exhibit,
    verdicts,
)
from manyheads.papers.publication import PaperAnswer, paper, published_rows
from manyheads.papers.rows import Row, Rows, read_rows, stored_rows, write_rows
from manyheads.papers.verdict import Verdict

__all__ = [
    "BEYOND",
    "CAPACITY",
    "HEAD_COUNT",
    "Collection",
    "Exhibit",
    "PaperAnswer",
    "Row",
    "Rows",
    "Scale",
    "Verdict",
    "claim_exhibits",
    "exhibit_named",
    "exhibit_names",
    "needed",
    "paper",
    "published_rows",
    "read_rows",
    "register_exhibit",
    "stored_rows",
    "verdicts",
    "write_rows",
]
