"""Runs from flat fields, as the store has them: what tests write in one line."""

from __future__ import annotations

from dataclasses import fields, replace
from typing import Any

from manyheads import Graph, Protocol, Run, Task
from manyheads.layer.rules import rule_named

TASK = ("context", "target_rate", "objective", "message_width")
PROTOCOL = tuple(one.name for one in fields(Protocol))
SHAPE = ("heads", "key_heads", "key_width", "seed", "problem_seed")


def make_task(
    items: int,
    d_model: int,
    *,
    graph: str | Graph = "permutation",
    degree: int = 1,
    embedding: Any = None,
    **others: Any,
) -> Task:
    """A task by its sizes: the graph is a kind without its sizes or a Graph, the embedding an array or Gaussian."""
    if isinstance(graph, str) and graph in ("permutation", "regular"):
        graph = f"regular:{items}:{degree}" if graph == "regular" else f"permutation:{items}"
    return Task(graph, f"gaussian:{d_model}" if embedding is None else embedding, **others)


def make_run(items: int, d_model: int, heads: int, key_width: int, seed: int, **others: Any) -> Run:
    """A run by flat fields; an unknown one is refused."""
    task_fields = {name: others.pop(name) for name in ("graph", "degree", "embedding", *TASK) if name in others}
    run = Run(make_task(items, d_model, **task_fields), heads=heads, key_width=key_width, seed=seed)
    return changed(run, **others)


def changed(run: Run, **others: Any) -> Run:
    """The run with other values of some flat fields."""
    unknown = set(others) - {*TASK, *PROTOCOL, *SHAPE, "items", "d_model", "graph", "degree", "embedding", "rule"}
    if unknown:
        raise TypeError(f"a run has no fields {sorted(unknown)}")
    task = {name: others[name] for name in TASK if name in others}
    if {"items", "graph", "degree"} & set(others):
        graph, degree = others.get("graph", run.fields["graph"]), others.get("degree", run.fields["degree"])
        task["graph"] = make_task(others.get("items", run.items), 1, graph=graph, degree=degree, context=2).graph
    if "embedding" in others or "d_model" in others:
        task["embedding"] = others.get("embedding", f"gaussian:{others.get('d_model')}")
    protocol = {name: others[name] for name in PROTOCOL if name in others}
    own = {name: others[name] for name in SHAPE if name in others}
    if "rule" in others:
        own["rule"] = rule_named(others["rule"])
    return replace(run, task=replace(run.task, **task), protocol=replace(run.protocol, **protocol), **own)
