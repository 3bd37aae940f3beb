"""Benchmarks: each says at its top how it is run. They are no part of the installed package."""
