"""The page on incoherence: how much the rows of an embedding overlap, against the paper's corollaries."""

from tools.pages.incoherence.measurement import PARTS, measure
from tools.pages.incoherence.pictures import figures
from tools.pages.incoherence.text import TABLES, page

__all__ = ["PARTS", "TABLES", "figures", "measure", "page"]
