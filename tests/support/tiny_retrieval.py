"""TINY: a retrieval run that trains in a blink."""

from __future__ import annotations

from manyheads.retrieval import RetrievalRun

TINY = RetrievalRun(
    dimension=2, length=5, heads=2, seed=0, head_width=3, mlp_width=6, input_width=2, training_examples=60,
    validation_examples=30, batch=16, steps=20, validate_every=8, warm_up=4,
)  # fmt: skip
