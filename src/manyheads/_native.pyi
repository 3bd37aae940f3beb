# Written by native/bindings/stub.py ("make stub"). Change the bindings in native/bindings, not this file.
"""The compiled parts of manyheads."""

from collections.abc import Callable, Sequence
from typing import Annotated, Literal, overload

import numpy
from numpy.typing import NDArray


isa: str

compiler: str

class PairJudge:
    """
    The pairs of a layer's queries and keys, scored in mixed precision on several threads.
    """

    def __init__(self, queries: Annotated[NDArray[numpy.float64], dict(shape=(None, None, None), order='C', device='cpu', writable=False)], keys: Annotated[NDArray[numpy.float64], dict(shape=(None, None, None), order='C', device='cpu', writable=False)], query_scale: float, key_scale: float, threshold: float, sum: bool, row_starts: Annotated[NDArray[numpy.int64], dict(shape=(None,), order='C', device='cpu', writable=False)], targets: Annotated[NDArray[numpy.int64], dict(shape=(None,), order='C', device='cpu', writable=False)], threads: int) -> None: ...

    def judge(self, first: int, below: Annotated[NDArray[numpy.float32], dict(shape=(None,), order='C', device='cpu', writable=False)], above: Annotated[NDArray[numpy.float32], dict(shape=(None,), order='C', device='cpu', writable=False)], width: Annotated[NDArray[numpy.float32], dict(shape=(None,), order='C', device='cpu', writable=False)], clear: Annotated[NDArray[numpy.float64], dict(shape=(None,), order='C', device='cpu', writable=False)]) -> tuple[NDArray[numpy.float64], NDArray[numpy.float64], NDArray[numpy.float64], NDArray[numpy.int64], NDArray[numpy.int64], NDArray[numpy.int64], NDArray[numpy.bool_]]:
        """
        Judge the sources from `first` on, one for each limit. Return for each (largest score without a relation, smallest score of a relation, least distance from the threshold, its target, relations missed, false pairs, whether the row is open).
        """

def equitable_colouring(left: Annotated[NDArray[numpy.int64], dict(shape=(None,), order='C', device='cpu', writable=False)], right: Annotated[NDArray[numpy.int64], dict(shape=(None,), order='C', device='cpu', writable=False)], vertices: int, colours: int) -> Annotated[NDArray[numpy.int64], dict(shape=(None,))]:
    """
    Return the colour of each edge left[e] – right[e] of a bipartite multigraph. No two edges of a colour share an end, and the sizes of the colour classes differ by at most one.
    """

class Finding:
    """The result of a survey of all pairs."""

    @property
    def loss(self) -> float: ...

    @property
    def by_ceiling(self) -> float: ...

    @property
    def by_summit(self) -> float: ...

    @property
    def lowest(self) -> float: ...

    @property
    def low(self) -> float: ...

    @property
    def high(self) -> float: ...

    @property
    def missed(self) -> int: ...

    @property
    def false_pairs(self) -> int: ...

    @property
    def costly(self) -> int: ...

class Burst:
    """The result of a burst of steps."""

    @property
    def steps(self) -> int: ...

    @property
    def finding(self) -> Finding: ...

class Fitting32:
    """
    Weights fitted to a graph by full gradients. They cross this border as float64 (heads, d_model, key_width), the keys as (key_heads, d_model, key_width).
    """

    def __init__(self, row_starts: Annotated[NDArray[numpy.int64], dict(shape=(None,), order='C', device='cpu', writable=False)], targets: Annotated[NDArray[numpy.int64], dict(shape=(None,), order='C', device='cpu', writable=False)], embedding: Annotated[NDArray[numpy.float32], dict(shape=(None, None), order='C', device='cpu', writable=False)], heads: int, key_width: int, threads: int, key_heads: int | None = None, near_pairs: int = 0) -> None: ...

    def set_weights(self, query: Annotated[NDArray[numpy.float64], dict(shape=(None, None, None), order='C', device='cpu', writable=False)], key: Annotated[NDArray[numpy.float64], dict(shape=(None, None, None), order='C', device='cpu', writable=False)], threshold: float) -> None:
        """Set the weights, and the optimiser's moments to zero."""

    def weights(self) -> tuple[NDArray[numpy.float64], NDArray[numpy.float64], float]:
        """Return (query, key, threshold)."""

    def look(self, floor: float, ceiling: float, summit: float, threshold: float, weight: float) -> Finding:
        """Survey all pairs, and compute the gradient by the weights."""

    def gradient(self) -> tuple[NDArray[numpy.float64], NDArray[numpy.float64]]:
        """Return the gradient of the last survey, (by query, by key)."""

    def burst(self, rates: Sequence[float], beta1: float, beta2: float, weight: float, ratio: float, share: float, seconds: float, until_open: bool, pulse: object | None = None) -> Burst:
        """
        Take steps at these rates. Ends early at zero or infinite loss, at the time limit, and (until_open) when all pairs are separated. Calls `pulse` ten times a second; an exception in it ends the burst.
        """

class Fitting64:
    """
    Weights fitted to a graph by full gradients. They cross this border as float64 (heads, d_model, key_width), the keys as (key_heads, d_model, key_width).
    """

    def __init__(self, row_starts: Annotated[NDArray[numpy.int64], dict(shape=(None,), order='C', device='cpu', writable=False)], targets: Annotated[NDArray[numpy.int64], dict(shape=(None,), order='C', device='cpu', writable=False)], embedding: Annotated[NDArray[numpy.float32], dict(shape=(None, None), order='C', device='cpu', writable=False)], heads: int, key_width: int, threads: int, key_heads: int | None = None, near_pairs: int = 0) -> None: ...

    def set_weights(self, query: Annotated[NDArray[numpy.float64], dict(shape=(None, None, None), order='C', device='cpu', writable=False)], key: Annotated[NDArray[numpy.float64], dict(shape=(None, None, None), order='C', device='cpu', writable=False)], threshold: float) -> None:
        """Set the weights, and the optimiser's moments to zero."""

    def weights(self) -> tuple[NDArray[numpy.float64], NDArray[numpy.float64], float]:
        """Return (query, key, threshold)."""

    def look(self, floor: float, ceiling: float, summit: float, threshold: float, weight: float) -> Finding:
        """Survey all pairs, and compute the gradient by the weights."""

    def gradient(self) -> tuple[NDArray[numpy.float64], NDArray[numpy.float64]]:
        """Return the gradient of the last survey, (by query, by key)."""

    def burst(self, rates: Sequence[float], beta1: float, beta2: float, weight: float, ratio: float, share: float, seconds: float, until_open: bool, pulse: object | None = None) -> Burst:
        """
        Take steps at these rates. Ends early at zero or infinite loss, at the time limit, and (until_open) when all pairs are separated. Calls `pulse` ten times a second; an exception in it ends the burst.
        """

def contexts(row_starts: Annotated[NDArray[numpy.int64], dict(shape=(None,), order='C', device='cpu', writable=False)], targets: Annotated[NDArray[numpy.int64], dict(shape=(None,), order='C', device='cpu', writable=False)], length: int, target_rate: float, key: int, stream: int, start: int, count: int) -> NDArray[numpy.int32]:
    """
    Return the contexts start … start + count − 1 of a stream: (count, length) items, distinct in each row.
    """

class Settings:
    """The fields of a Run that the engine needs, all defaults filled in."""

    def __init__(self) -> None: ...

    def check(self) -> None:
        """Refuse numbers that are out of their range."""

    @property
    def items(self) -> int: ...

    @items.setter
    def items(self, arg: int, /) -> None: ...

    @property
    def d_model(self) -> int: ...

    @d_model.setter
    def d_model(self, arg: int, /) -> None: ...

    @property
    def heads(self) -> int: ...

    @heads.setter
    def heads(self, arg: int, /) -> None: ...

    @property
    def key_heads(self) -> int: ...

    @key_heads.setter
    def key_heads(self, arg: int, /) -> None: ...

    @property
    def key_width(self) -> int: ...

    @key_width.setter
    def key_width(self, arg: int, /) -> None: ...

    @property
    def context(self) -> int: ...

    @context.setter
    def context(self, arg: int, /) -> None: ...

    @property
    def softmax(self) -> bool: ...

    @softmax.setter
    def softmax(self, arg: bool, /) -> None: ...

    @property
    def values(self) -> bool: ...

    @values.setter
    def values(self, arg: bool, /) -> None: ...

    @property
    def message_width(self) -> int: ...

    @message_width.setter
    def message_width(self, arg: int, /) -> None: ...

    @property
    def balanced(self) -> bool: ...

    @balanced.setter
    def balanced(self, arg: bool, /) -> None: ...

    @property
    def positive_weight(self) -> float: ...

    @positive_weight.setter
    def positive_weight(self, arg: float, /) -> None: ...

    @property
    def target_rate(self) -> float: ...

    @target_rate.setter
    def target_rate(self, arg: float, /) -> None: ...

    @property
    def sharpness(self) -> float: ...

    @sharpness.setter
    def sharpness(self, arg: float, /) -> None: ...

    @property
    def learning_rate(self) -> float: ...

    @learning_rate.setter
    def learning_rate(self, arg: float, /) -> None: ...

    @property
    def weight_decay(self) -> float: ...

    @weight_decay.setter
    def weight_decay(self, arg: float, /) -> None: ...

    @property
    def beta1(self) -> float: ...

    @beta1.setter
    def beta1(self, arg: float, /) -> None: ...

    @property
    def beta2(self) -> float: ...

    @beta2.setter
    def beta2(self, arg: float, /) -> None: ...

    @property
    def epsilon(self) -> float: ...

    @epsilon.setter
    def epsilon(self, arg: float, /) -> None: ...

    @property
    def steps(self) -> int: ...

    @steps.setter
    def steps(self, arg: int, /) -> None: ...

    @property
    def validate_every(self) -> int: ...

    @validate_every.setter
    def validate_every(self, arg: int, /) -> None: ...

    @property
    def validation_contexts(self) -> int: ...

    @validation_contexts.setter
    def validation_contexts(self, arg: int, /) -> None: ...

    @property
    def test_contexts(self) -> int: ...

    @test_contexts.setter
    def test_contexts(self, arg: int, /) -> None: ...

    @property
    def stop_above(self) -> float: ...

    @stop_above.setter
    def stop_above(self, arg: float, /) -> None: ...

    @property
    def patience(self) -> int: ...

    @patience.setter
    def patience(self, arg: int, /) -> None: ...

    @property
    def context_key(self) -> int: ...

    @context_key.setter
    def context_key(self, arg: int, /) -> None: ...

class Training:
    """
    One run of the native engine. Weights cross this border as float64, query as (heads, d_model, key_width), key as (key_heads, d_model, key_width).
    """

    def __init__(self, settings: Settings, precision: str, row_starts: Annotated[NDArray[numpy.int64], dict(shape=(None,), order='C', device='cpu', writable=False)], targets: Annotated[NDArray[numpy.int64], dict(shape=(None,), order='C', device='cpu', writable=False)], embedding: Annotated[NDArray[numpy.float32], dict(shape=(None, None), order='C', device='cpu', writable=False)], messages: Annotated[NDArray[numpy.float64], dict(shape=(None, None), order='C', device='cpu', writable=False)] | None) -> None: ...

    def train(self, progress: Callable[[int, float, float], object] | None, seconds: float) -> tuple[Literal['converged', 'limit', 'diverged', 'cancelled', 'timeout'], list[tuple[int, float, float]], tuple[int, int, int, float, float, int]]:
        """
        Train the whole protocol. Return (stopped, curve, tally of the test). progress(step, score, loss) is called at every validation check; its answer False cancels the run. seconds is the time limit.
        """

    def advance(self, count: int) -> NDArray[numpy.float64]:
        """
        Train `count` steps and return their losses. NaN: the context had no valid position and the weights stayed.
        """

    def gradient(self, context: Annotated[NDArray[numpy.int32], dict(shape=(None,), order='C', device='cpu', writable=False)]) -> tuple[float, NDArray[numpy.float64], NDArray[numpy.float64], float]:
        """
        Return (loss, gradient by query, by key, by threshold) of one context. The weights stay.
        """

    def evaluate(self, stream: int, contexts: int) -> tuple[int, int, int, float, float, int]:
        """
        Return (hits, false alarms, misses, squared distance, squared distance of the prediction zero, valid positions).
        """

    def set_weights(self, query: Annotated[NDArray[numpy.float64], dict(shape=(None, None, None), order='C', device='cpu', writable=False)], key: Annotated[NDArray[numpy.float64], dict(shape=(None, None, None), order='C', device='cpu', writable=False)], threshold: float) -> None: ...

    def weights(self) -> tuple[NDArray[numpy.float64], NDArray[numpy.float64], float]:
        """Return (query, key, threshold)."""

    def moments(self, order: int) -> tuple[NDArray[numpy.float64], NDArray[numpy.float64], float]:
        """
        Return the optimiser's moments of order 1 or 2, as (query, key, threshold).
        """

    @property
    def steps(self) -> int: ...

@overload
def multiply(left: Annotated[NDArray[numpy.float64], dict(shape=(None, None), device='cpu', writable=False)], right: Annotated[NDArray[numpy.float64], dict(shape=(None, None), device='cpu', writable=False)], out: Annotated[NDArray[numpy.float64], dict(shape=(None, None), device='cpu')]) -> None: ...

@overload
def multiply(left: Annotated[NDArray[numpy.float32], dict(shape=(None, None), device='cpu', writable=False)], right: Annotated[NDArray[numpy.float32], dict(shape=(None, None), device='cpu', writable=False)], out: Annotated[NDArray[numpy.float32], dict(shape=(None, None), device='cpu')]) -> None:
    """
    Write left @ right to out, in the precision of all three. Each element is one chain of multiply-adds in order, fused where the CPU can.
    """
