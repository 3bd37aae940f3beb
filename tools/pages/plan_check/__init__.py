"""The page on the check of `plan`: how often its advice holds on new problems."""

from tools.pages.plan_check.measurement import PARTS, measure
from tools.pages.plan_check.text import TABLES, figures, page

__all__ = ["PARTS", "TABLES", "figures", "measure", "page"]
