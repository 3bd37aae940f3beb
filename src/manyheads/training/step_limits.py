"""How long the paper trains: Table 2's step limits, and what this project takes for other sizes."""

from __future__ import annotations

from manyheads.layer.rules import MAX, Rule, rule_named

DEFAULT, LONG = 20_000, 80_000
TABLE_2 = {
    (256, 16): 30_000,
    (512, 16): LONG,
    (1024, 128): LONG,
    (2048, 256): LONG,
    (4096, 512): 200_000,
    (1024, 32): LONG,  # measured in Sec. 6.1 but absent from the table
}


def step_limit(items: int, d_model: int, rule: Rule | str = MAX) -> int:
    """The paper's step limit for a size; outside the paper, long training where there are many or crowded items.

    >>> step_limit(64, 16), step_limit(256, 16), step_limit(512, 32), step_limit(64, 16, "softmax")
    (20000, 30000, 20000, 80000)
    """
    if rule_named(rule).long_training:
        return LONG
    crowded = items > 512 or items > 16 * d_model
    return TABLE_2.get((items, d_model), LONG if crowded else DEFAULT)
