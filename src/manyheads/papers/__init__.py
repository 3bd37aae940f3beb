"""The paper, again: a module for each of its figures and tables, and every claim beside what was measured."""

from manyheads.papers.exhibit import (
    BEYOND,
    CLAIMS,
    FIGURES,
    HOURS,
    NAMES,
    RETRIEVAL,
    TABLES,
    Exhibit,
    exhibit,
    needed,
    verdicts,
)
from manyheads.papers.rows import Row, Rows, read_rows, stored_rows, write_rows
from manyheads.papers.scale import Scale
from manyheads.papers.verdict import Verdict

__all__ = [
    "BEYOND",
    "CLAIMS",
    "FIGURES",
    "HOURS",
    "NAMES",
    "RETRIEVAL",
    "TABLES",
    "Exhibit",
    "Row",
    "Rows",
    "Scale",
    "Verdict",
    "exhibit",
    "needed",
    "read_rows",
    "stored_rows",
    "verdicts",
    "write_rows",
]
