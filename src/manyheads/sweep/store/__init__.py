"""The store: one SQLite file that keeps the result of every run."""
