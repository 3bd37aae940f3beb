"""The head-count paper (arXiv 2510.06662): its tables and figures, a module each."""
