"""The page on bits per weight: layers that are certified or trained, one head, and other papers in one unit."""

from tools.pages.bits_per_weight.measurement import PARTS, measure
from tools.pages.bits_per_weight.pictures import figures
from tools.pages.bits_per_weight.text import TABLES, page

__all__ = ["PARTS", "TABLES", "figures", "measure", "page"]
