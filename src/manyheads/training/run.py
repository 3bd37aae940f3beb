"""Run: a task, a protocol, a shape and a seed. Together they decide the whole training."""

from __future__ import annotations

from dataclasses import asdict, dataclass, field
from functools import lru_cache

from manyheads.bounds.shape import require_even_sharing
from manyheads.errors import InputError, require_type
from manyheads.identity import IdentifiedRun, normalise_numbers
from manyheads.layer.rules import MAX, Rule, rule_named
from manyheads.numbers import check_numbers
from manyheads.training.protocol import PROTOCOL_VERSION, Protocol
from manyheads.training.task import Task


@dataclass(frozen=True)
class Run(IdentifiedRun):
    """One layer to be trained (Sec. 6, App. A.1).

    Attributes:
        task: The family of problems.
        heads: h, the number of heads.
        key_heads: g, the number of key heads that the heads share in equal groups; g divides h. None: as many as heads.
            A number equal to heads becomes None, so that equal runs are equal.
        key_width: d_k, the width of each head.
        seed: Decides the first weights.
        problem_seed: Decides the graph, the embedding and the contexts; None: the seed.
        rule: How the heads are joined: a rule, or its name.
        protocol: Every other constant of training.

    Raises:
        InputError: A number lies outside its range, the key heads do not divide the heads, or the rule is unknown or
            does not suit the task.

    >>> run = Run(Task("permutation:64", "gaussian:16"), heads=4, key_width=5, seed=0)
    >>> run.key_budget, run.fields["positive_weight"], run.id
    (20, 15.0, '85169bc3d67910d1')
    >>> shared = Run(run.task, heads=4, key_heads=1, key_width=5, seed=0)
    >>> shared.groups, shared.query_budget, shared.key_budget, shared.weights
    (1, 20, 5, 400)
    """

    task: Task
    heads: int = field(kw_only=True)
    key_heads: int | None = field(default=None, kw_only=True)
    key_width: int = field(kw_only=True)
    seed: int = field(kw_only=True)
    problem_seed: int | None = field(default=None, kw_only=True)
    rule: Rule = field(default=MAX, kw_only=True)
    protocol: Protocol = field(default_factory=Protocol, kw_only=True)

    def __post_init__(self) -> None:
        require_type(self.task, Task, "the task of a run")
        require_type(self.protocol, Protocol, "the protocol of a run")
        object.__setattr__(self, "rule", rule_named(self.rule))
        normalise_numbers(self)
        check_numbers(key_budget=self.query_budget)
        require_even_sharing(heads=self.heads, key_heads=self.key_heads)
        if self.key_heads == self.heads:
            object.__setattr__(self, "key_heads", None)
        if self.task.objective == "values" and self.rule is not MAX:
            raise InputError("the value channel is defined for the rule max and one relation out of each item")

    @property
    def items(self) -> int:
        """m, the number of items."""
        return self.task.items

    @property
    def d_model(self) -> int:
        """The width of the embedding."""
        return self.task.d_model

    @property
    def groups(self) -> int:
        """g, the number of key heads."""
        return self.heads if self.key_heads is None else self.key_heads

    @property
    def query_budget(self) -> int:
        """D_Q = heads · key_width."""
        return self.heads * self.key_width

    @property
    def key_budget(self) -> int:
        """D_K = key heads · key_width: the numbers that a key cache stores for each token."""
        return self.groups * self.key_width

    @property
    def weights(self) -> int:
        """The numbers in W_Q and W_K: d_model·(D_Q + D_K)."""
        return self.d_model * (self.query_budget + self.key_budget)

    @property
    def fields(self) -> dict[str, int | float | str]:
        """The run as flat JSON: every None replaced by the value it stands for, and the version of the protocol.

        `key_heads` is a field only if heads share keys, so all other runs keep their ids.
        """
        shared = _shared_fields(self.task, self.rule, self.protocol)
        own = {
            "items": shared["items"],
            "d_model": shared["d_model"],
            "heads": self.heads,
            **({} if self.key_heads is None else {"key_heads": self.key_heads}),
            "key_width": self.key_width,
            "seed": self.seed,
            "problem_seed": self.seed if self.problem_seed is None else self.problem_seed,
        }
        return own | shared


def shared_fields(task: Task, rule: Rule, protocol: Protocol) -> dict[str, int | float | str]:
    """The fields of a run without heads, key heads, key width and seeds."""
    return dict(_shared_fields(task, rule, protocol))


@lru_cache(maxsize=1 << 10)  # the runs of a sweep share their task and protocol
def _shared_fields(task: Task, rule: Rule, protocol: Protocol) -> dict[str, int | float | str]:
    graph, degree, embedding = (task.fields[name] for name in ("graph", "degree", "embedding"))
    constants = asdict(protocol)
    if protocol.positive_weight is None:
        constants["positive_weight"] = task.paper_weight
    if protocol.initial_scale is None:
        constants["initial_scale"] = task.d_model**-0.5
    return {
        "items": task.items,
        "d_model": task.d_model,
        "graph": graph,
        "degree": degree,
        "embedding": embedding,
        "rule": rule.name,
        "objective": task.objective,
        "message_width": task.d_model if task.message_width is None else task.message_width,
        "context": task.context,
        "target_rate": task.target_rate,
        **constants,
        "protocol": PROTOCOL_VERSION,
    }
