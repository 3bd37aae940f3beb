"""`manyheads bench`: a training step of the native engine beside PyTorch's and JAX's, all timed in one go."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from statistics import median
from typing import TYPE_CHECKING

from manyheads.cli.render.answer import Answer, Flag
from manyheads.errors import InputError

if TYPE_CHECKING:
    from manyheads.cli.commands.contenders import Contender, Peer, Shape, Timing

    Times = Mapping[tuple[str, Shape], Sequence[Timing]]

LOSSES_AGREE = 0.01  # relative; in float32 two engines drift apart, but by much less in so few steps


@dataclass(frozen=True)
class Spread:
    """A quantity that was measured in several rounds."""

    median: float
    low: float
    high: float

    @classmethod
    def of(cls, values: Sequence[float]) -> Spread:
        """The spread of the values."""
        return cls(median(values), min(values), max(values))

    def __str__(self) -> str:
        middle = f"{self.median:,.0f}" if self.median >= 100 else f"{self.median:.3g}"
        return middle if self.low == self.high else f"{middle} ±{(self.high - self.low) / 2 / self.median:.0%}"


@dataclass(frozen=True)
class Versus:
    """A peer on one shape; the ratio is to the native engine's training without evaluation, as the peer's is."""

    microseconds: Spread
    ratio: Spread
    loss: float
    native_loss: float | None  # None where the peer draws contexts of its own

    @property
    def agrees(self) -> bool:
        """Whether the peer arrived where the native engine does, as far as that can be told."""
        return self.native_loss is None or abs(self.loss - self.native_loss) <= LOSSES_AGREE * self.native_loss


@dataclass(frozen=True)
class Row:
    """One shape; times are microseconds per step and run."""

    shape: Shape
    training: Spread
    whole_protocol: Spread
    one_thread: Spread
    speed_up: Spread  # of all cores over one, best slices
    flops: int
    of_peak: Spread | None
    peers: dict[str, Versus]


@dataclass(frozen=True)
class Growth:
    """One thread's time as d_model·D_K grows, and how far from a straight line it is at most."""

    shapes: tuple[Shape, ...]
    microseconds: tuple[Spread, ...]
    off_the_line: float


@dataclass(frozen=True, kw_only=True)
class Bench:
    """Time a training step against eager PyTorch and compiled JAX on the same shapes, all cores busy for each.

    Peers that are not installed are left out. Takes some minutes, and wants a quiet machine.
    """

    rounds: int = 3
    """How often everything is timed, in turns: medians are shown, with half the range in percent."""
    json: Flag = False
    """Print JSON instead of tables."""

    def run(self) -> Answer:
        """Time all that is there, and compare."""
        from manyheads.cli.commands.contenders import GROWING, ONE_THREAD, PEERS, SHAPES, speed_up
        from manyheads.cli.render.bench_table import shown
        from manyheads.machine import machine

        if self.rounds < 1:
            raise InputError(f"--rounds must be at least 1, not {self.rounds}")
        left_out = {peer.name: why for peer in PEERS if (why := peer.absent())}
        peers = [peer for peer in PEERS if peer.name not in left_out]
        times, peaks = timed(self.rounds, peers)
        scaling = {shape: [speed_up(shape) for _ in range(self.rounds)] for shape in SHAPES}
        rows = [row_of(shape, peers, times, peaks, scaling[shape]) for shape in SHAPES]
        growth = growth_of({shape: times[ONE_THREAD.name, shape] for shape in GROWING})
        facts = {
            "machine": machine(),
            "unit": "microseconds per step and run, all cores busy",
            "peak_gflops": asdict(Spread.of(peaks)) if peaks else None,
            "shapes": [asdict(row) for row in rows],
            "growth": asdict(growth),
            "left_out": left_out,
        }
        agree = all(versus.agrees for row in rows for versus in row.peers.values())
        return Answer(facts=facts, shown=shown(rows, growth, left_out, machine()), yes=agree)


def timed(rounds: int, peers: Sequence[Peer]) -> tuple[Times, list[float]]:
    """Every timing and every matmul peak, in rounds: a slow minute of the machine meets all contenders alike."""
    from manyheads.cli.commands.contenders import (
        GROWING,
        NATIVE,
        ONE_THREAD,
        SHAPES,
        WHOLE,
        matmul_peak,
        scripts_absent,
    )
    from manyheads.cli.render.progress_line import progress

    contenders: list[Contender] = [NATIVE, ONE_THREAD, WHOLE, *peers]
    jobs = [(contender, shape) for shape in SHAPES for contender in contenders]
    jobs += [(ONE_THREAD, shape) for shape in GROWING if shape not in SHAPES]
    times: dict[tuple[str, Shape], list[Timing]] = defaultdict(list)
    peaks: list[float] = []
    with progress("timing") as report:
        for done, (contender, shape) in enumerate(jobs * rounds):
            if done % len(jobs) == 0 and not scripts_absent():
                peaks.append(matmul_peak())
            times[contender.name, shape].append(contender.time(shape))
            report(done + 1, rounds * len(jobs))
    return times, peaks


def row_of(shape: Shape, peers: Sequence[Peer], times: Times, peaks: Sequence[float], scaling: Sequence[float]) -> Row:
    """What the timings say about one shape; ratios to peers are taken within a round."""
    from manyheads.cli.commands.contenders import NATIVE, ONE_THREAD, WHOLE, native_loss
    from manyheads.training.engines import step_flops

    training, whole, single = ([t.microseconds for t in times[c.name, shape]] for c in (NATIVE, WHOLE, ONE_THREAD))
    flops = step_flops(shape.run(seed=0))
    fractions = [flops / (1e3 * one * peak) for one, peak in zip(single, peaks, strict=bool(peaks))]
    versus = {}
    for peer in peers:
        theirs = times[peer.name, shape]
        versus[peer.name] = Versus(
            microseconds=Spread.of([t.microseconds for t in theirs]),
            ratio=Spread.of([t.microseconds / ours for t, ours in zip(theirs, training, strict=True)]),
            loss=theirs[-1].loss,
            native_loss=native_loss(shape, steps=peer.steps_on(shape)) if peer.same_contexts else None,
        )
    return Row(
        shape=shape,
        training=Spread.of(training),
        whole_protocol=Spread.of(whole),
        one_thread=Spread.of(single),
        speed_up=Spread.of(scaling),
        flops=flops,
        of_peak=Spread.of(fractions) if fractions else None,
        peers=versus,
    )


def growth_of(times: Mapping[Shape, Sequence[Timing]]) -> Growth:
    """How straight a line the times make."""
    import numpy as np

    spreads = [Spread.of([t.microseconds for t in taken]) for taken in times.values()]
    sizes = np.array([shape.d_model * shape.key_budget for shape in times], dtype=np.float64)
    medians = np.array([spread.median for spread in spreads])
    line = np.polynomial.Polynomial.fit(sizes, medians, deg=1, w=1 / medians)
    return Growth(tuple(times), tuple(spreads), float(np.abs(line(sizes) / medians - 1).max()))
