"""The page on one head: where it ends, decided by proof on either side."""

from tools.pages.one_head.measurement import PARTS, measure
from tools.pages.one_head.pictures import figures
from tools.pages.one_head.text import TABLES, page

__all__ = ["PARTS", "TABLES", "figures", "measure", "page"]
