"""Numbers: the range of every count and constant, for commands and library, and the memory that sizes need.

One table, by the name of the option, field or argument. The engine in C++ has the same limits
(native/engine/settings.hpp).
"""

from __future__ import annotations

import math
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from operator import index

from manyheads.errors import InputError
from manyheads.machine import free_memory
from manyheads.text import shown_text

LARGE = 1e38  # of a constant: it is a float32
SMALL_MEMORY = 2**26  # bytes that every machine has: smaller needs are not compared with the free memory


@dataclass(frozen=True)
class Range:
    """The numbers that an option, a field or an argument can have.

    Attributes:
        least: The smallest number.
        most: The largest number.
        whole: Whether it is a count.
        above: Whether the number is larger than `least`, not equal.
        below: Whether the number is smaller than `most`, not equal.
    """

    least: int | float
    most: int | float
    whole: bool = True
    above: bool = False
    below: bool = False

    def holds(self, number: int | float) -> bool:
        """Whether the number is in the range."""
        return (self.least < number if self.above else self.least <= number) and (
            number < self.most if self.below else number <= self.most
        )

    def __str__(self) -> str:
        if self.most == sys.float_info.max:
            return "a finite number"
        kind = "a whole number" if self.whole else "a number"
        least = f"above {self.least:,g} and at most" if self.above else f"from {_shown(self.least)} to"
        return f"{kind} {least}{' below' if self.below else ''} {_shown(self.most)}"


ITEMS = Range(1, 2**30)  # the engine numbers padded items in 32 bits
WIDTH, BUDGET = Range(1, 2**24), Range(1, 2**28)  # 2·heads·key_width rows of weights are numbered in 32 bits
HEADS = Range(1, 2**20)
CONTEXT = Range(2, 2**15)  # context² pairs of positions are numbered in 32 bits
LENGTH = Range(1, 2**31 - 1)  # of a context in a formula
STEPS, CONTEXTS = Range(1, 10**12), Range(1, 10**9)
SEED, SEEDS = Range(0, 2**63 - 1), Range(1, 10_000)  # a store keeps 64 bits
THREADS = Range(1, 1024)
POSITIVE, NOT_NEGATIVE = Range(0, LARGE, whole=False, above=True), Range(0, LARGE, whole=False)
FINITE = Range(-sys.float_info.max, sys.float_info.max, whole=False)  # of a score: it is a float64
ANY, SHARE = Range(-LARGE, LARGE, whole=False), Range(0, 1, whole=False)
MEMORY = Range(0, 1, whole=False, below=True)  # of AdamW

RANGES: Mapping[str, Range] = {
    # sizes of problems and layers
    "items": ITEMS, "up_to": ITEMS, "relations": Range(0, 2**62), "degree": ITEMS, "max_degree": ITEMS,
    "vocabulary": ITEMS, "d_model": WIDTH, "reduce_to": WIDTH, "message_width": WIDTH, "mlp_width": WIDTH,
    "input_width": WIDTH, "head_width": WIDTH, "embedding_width": WIDTH, "multiple": WIDTH, "layers": HEADS,
    "heads": HEADS, "key_heads": HEADS, "key_width": WIDTH, "key_budget": BUDGET, "max_key_budget": BUDGET,
    "latent": WIDTH, "query_latent": WIDTH, "position_width": Range(0, 2**24),
    "matching_size": ITEMS, "dimension": HEADS, "retrieve": HEADS, "null": Range(0, 2**31 - 1),
    # contexts and examples
    "context": CONTEXT, "pairs": Range(1, 2**15),
    "context_length": LENGTH, "length": LENGTH, "subset": LENGTH, "validation_contexts": CONTEXTS,
    "test_contexts": CONTEXTS, "training_examples": CONTEXTS, "validation_examples": CONTEXTS,
    "test_examples": CONTEXTS, "per_query": Range(1, 10**6), "sequences": CONTEXTS, "batch": Range(1, 2**20),
    # training and search
    "steps": STEPS, "validate_every": STEPS, "warm_up": Range(0, 10**12), "patience": CONTEXTS,
    "restarts": Range(1, 10**6), "widen": Range(0, 10**7), "fit_steps": Range(1, 10**7), "runs": CONTEXTS,
    "trials": CONTEXTS,
    "max_runs": CONTEXTS, "limit": CONTEXTS, "workers": THREADS, "threads": THREADS, "head_counts": Range(1, 1024),
    "near_pairs": Range(0, 2**20), "seconds": Range(0, 10**9, whole=False, above=True),
    "time_limit": Range(0, 10**9, whole=False, above=True),
    # seeds; a generator takes 64 bits, as they come from a SeedSequence
    "seed": SEED, "problem_seed": SEED, "graph_seed": SEED, "embedding_seed": SEED, "seeds": SEEDS,
    "generator_seed": Range(0, 2**64 - 1),
    # constants
    "bits": Range(0.01, 1024, whole=False), "target_rate": SHARE, "share": Range(0, 1, whole=False, above=True),
    "sharpness": POSITIVE, "epsilon": POSITIVE, "norm_epsilon": POSITIVE, "positive_weight": NOT_NEGATIVE,
    "initial_scale": NOT_NEGATIVE, "learning_rate": NOT_NEGATIVE, "weight_decay": NOT_NEGATIVE,
    "initial_threshold": ANY, "initial_sharpness": ANY, "stop_above": ANY, "beta1": MEMORY, "beta2": MEMORY,
    "rate": POSITIVE, "hold": MEMORY, "weight": POSITIVE, "inverse_temperature": POSITIVE, "error": POSITIVE,
    "constants": ANY, "exponent": ANY, "density": SHARE, "logit_scale": POSITIVE, "threshold": FINITE,
}  # fmt: skip


def check_number(name: str, value: object, *, said: str | None = None) -> int | float:
    """A number in its range.

    Args:
        name: Name of the range in RANGES.
        value: The number: for a count an int or a numpy integer, else an int or a float; never a bool.
        said: Name of the number in the message, e.g. the option; None: `name`.

    Returns:
        The number, a count as int and every other number as float.

    Raises:
        InputError: The value is no such number, or it is outside its range. The message says the range.

    >>> check_number("heads", 8)
    8
    """
    allowed = RANGES[name]
    number: int | float = math.nan
    try:
        if not isinstance(value, (bool, str, bytes)):
            number = index(value) if allowed.whole else float(value)  # type: ignore[arg-type]
    except (TypeError, ValueError, OverflowError):
        pass
    if not allowed.holds(number):
        raise InputError(f"{said or name} is {allowed}, not {_shown(value)}")
    return number


def check_numbers(**values: object) -> None:
    """Refuse the first number that is outside its range; None has none.

    Args:
        **values: Numbers under the names of their ranges.

    Raises:
        InputError: A value is no number of its kind, or it is outside its range.
    """
    for name, value in values.items():
        if value is not None:
            check_number(name, value)


def require_memory(needed: int | float, what: str) -> None:
    """Refuse arrays that would fill more than half of the free memory, before they are allocated.

    Args:
        needed: An estimate of the bytes that are allocated at one time.
        what: The beginning of the message, e.g. "an embedding of 10 × 20 numbers".

    Raises:
        InputError: There is not enough free memory. The message says the estimate and the free memory.
    """
    if needed > SMALL_MEMORY and needed > (free := free_memory()) / 2:
        raise InputError(
            f"{what} needs about {_gigabytes(needed)} of memory, more than half of the {_gigabytes(free)} that are free"
        )


def _gigabytes(count: int | float) -> str:
    return f"{count / 1e9:,.3g} GB" if count < 1e15 else f"{count / 1e9:.1e} GB"


def _shown(value: object) -> str:
    """A number as a person writes it; a very large one by its number of digits, because Python prints only 4,300."""
    if isinstance(value, int) and not isinstance(value, bool):
        digits = value.bit_length() * 30103 // 100_000 + 1
        return f"{value:,}" if digits < 40 else f"a number of about {digits:,} digits"
    return shown_text(repr(value), most=100)
