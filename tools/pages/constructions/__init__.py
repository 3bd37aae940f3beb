"""The page on the paper's constructions: how large their constants must be."""

from tools.pages.constructions.measurement import PARTS, measure
from tools.pages.constructions.pictures import figures
from tools.pages.constructions.text import TABLES, page

__all__ = ["PARTS", "TABLES", "figures", "measure", "page"]
