"""The page on the compact compiler: how it works, and the methods that it was compared with."""

from tools.pages.fit.measurement import PARTS, measure
from tools.pages.fit.text import TABLES, figures, page

__all__ = ["PARTS", "TABLES", "figures", "measure", "page"]
