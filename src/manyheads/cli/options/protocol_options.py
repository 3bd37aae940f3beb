"""Protocol: the constants of a training run as options, the paper's values their defaults."""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import Annotated, Any, Literal

import tyro

from manyheads.cli.options.problem_options import RuleOption
from manyheads.training import protocol as paper
from manyheads.training.protocol import Objective, Precision

BY_GRAPH = "(default: context − 1 for permutations, else balanced)"


@dataclass(frozen=True, kw_only=True)
class Protocol:
    """How a layer is trained and tested."""

    rule: RuleOption = "max"
    """How the heads' scores are joined: the largest, the sum of their shares in the context, their sum, log Σ exp."""
    objective: Objective = "edges"
    """Recognise relations, or pass on the related item's message through a frozen value map."""
    message_width: Annotated[int | None, tyro.conf.arg(metavar="INT", help_behavior_hint="(default: d_model)")] = None
    """Width of the messages of --objective values."""
    context: int = paper.CONTEXT
    """Items in a context."""
    target_rate: float = paper.TARGET_RATE
    """Share of a context's items whose target is brought in."""
    sharpness: float = paper.Protocol.sharpness
    """Factor of (score − threshold) in the logistic loss."""
    positive_weight: Annotated[float | Literal["balanced"] | None, tyro.conf.arg(help_behavior_hint=BY_GRAPH)] = None
    """Weight of a relation in the loss; balanced: non-relations by relations of each context."""
    initial_scale: Annotated[
        float | None, tyro.conf.arg(metavar="FLOAT", help_behavior_hint="(default: 1/√d_model)")
    ] = None
    """Standard deviation of the first weights."""
    initial_threshold: float = paper.Protocol.initial_threshold
    """The first threshold."""
    learning_rate: float = paper.Protocol.learning_rate
    """AdamW's step."""
    weight_decay: float = paper.Protocol.weight_decay
    """AdamW's decay of the weights."""
    beta1: float = paper.Protocol.beta1
    """AdamW's memory of gradients."""
    beta2: float = paper.Protocol.beta2
    """AdamW's memory of their squares."""
    epsilon: float = paper.Protocol.epsilon
    """AdamW's guard against division by nothing."""
    steps: int = paper.Protocol.steps
    """Steps at most, one context each."""
    validate_every: int = paper.Protocol.validate_every
    """Steps from one validation check to the next."""
    validation_contexts: int = paper.Protocol.validation_contexts
    """Contexts of a validation check."""
    test_contexts: int = paper.Protocol.test_contexts
    """Contexts of the test at the end."""
    stop_above: float = paper.Protocol.stop_above
    """The validation F1 to exceed for an early stop."""
    patience: int = paper.Protocol.patience
    """Checks in a row above it that stop the run; with --objective values, checks without a new best."""
    precision: Precision = paper.Protocol.precision
    """Precision of weights and arithmetic."""

    @property
    def task_options(self) -> dict[str, Any]:
        """The options that belong to the task, as keywords."""
        return {name: getattr(self, name) for name in ("objective", "message_width", "context", "target_rate")}

    @property
    def constants(self) -> paper.Protocol:
        """The options that belong to the protocol."""
        return paper.Protocol(**{one.name: getattr(self, one.name) for one in fields(paper.Protocol)})
