"""The page that counts the cases of the attack and what became of them."""

from tools.pages.reliability.measurement import PARTS, measure
from tools.pages.reliability.text import TABLES, figures, page

__all__ = ["PARTS", "TABLES", "figures", "measure", "page"]
