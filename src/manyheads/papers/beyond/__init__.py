"""Exhibits of this project that go beyond the paper, a module each."""
