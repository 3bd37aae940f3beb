"""The page on the capacity floor: the smallest certified key budgets over the paper's grids."""

from tools.pages.capacity_floor.measurement import PARTS, measure
from tools.pages.capacity_floor.pictures import figures
from tools.pages.capacity_floor.text import TABLES, page

__all__ = ["PARTS", "TABLES", "figures", "measure", "page"]
