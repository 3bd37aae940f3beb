"""Exhibits of the head-count paper (arXiv 2510.06662) and their page."""
