"""The page on shared keys: the smallest certified layers of every way to share keys among heads."""

from tools.pages.shared_keys.measurement import PARTS, measure
from tools.pages.shared_keys.pictures import figures
from tools.pages.shared_keys.text import TABLES, page

__all__ = ["PARTS", "TABLES", "figures", "measure", "page"]
