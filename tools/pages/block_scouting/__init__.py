"""The page that chooses the size of Figure 7 on two cores."""

from tools.pages.block_scouting.measurement import PARTS, measure
from tools.pages.block_scouting.text import TABLES, figures, page

__all__ = ["PARTS", "TABLES", "figures", "measure", "page"]
