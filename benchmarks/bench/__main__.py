"""`python -m benchmarks.bench`: a training step of the native engine beside PyTorch's and JAX's, timed in turns."""

from __future__ import annotations

import json
import sys
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass

import numpy as np
import tyro

from benchmarks.bench import contenders
from benchmarks.bench.contenders import Contender, Peer, Shape, Timing
from benchmarks.bench.tables import Growth, Row, Spread, Versus, tables
from manyheads.cli.render.answer import rendered
from manyheads.cli.render.progress import progress
from manyheads.machine import machine
from manyheads.training.engines import step_flops

Times = Mapping[tuple[str, Shape], Sequence[Timing]]


@dataclass(frozen=True, kw_only=True)
class Bench:
    """Time a training step against eager PyTorch and compiled JAX on the same shapes, all cores busy for each.

    Peers that are not installed are left out. It takes some minutes and needs a quiet machine.
    """

    rounds: int = 3
    """How often everything is timed, in turns. The tables show medians, with half the range in percent."""
    json: bool = False
    """Print JSON instead of tables."""


def main(argv: Sequence[str] | None = None) -> int:
    """Time everything that is installed, compare, print; the exit code.

    Returns:
        0 where every peer ends at the native engine's loss, 1 where one trains something else, 2 for bad input, 130
        after Ctrl-C.
    """
    options = tyro.cli(Bench, args=argv, prog="bench", config=(tyro.conf.FlagCreatePairsOff,))
    if options.rounds < 1:
        print(f"bench: --rounds is at least 1, not {options.rounds}", file=sys.stderr)
        return 2
    try:
        return _bench(options)
    except KeyboardInterrupt:
        print("bench: interrupted", file=sys.stderr)
        return 130


def _bench(options: Bench) -> int:
    absent = {peer.name: why for peer in contenders.PEERS if (why := peer.absent())}
    peers = [peer for peer in contenders.PEERS if peer.name not in absent]
    times, peaks = timed(options.rounds, peers)
    scaling = {shape: [contenders.speed_up(shape) for _ in range(options.rounds)] for shape in contenders.SHAPES}
    rows = [row_of(shape, peers, times, peaks, scaling[shape]) for shape in contenders.SHAPES]
    growth = growth_of({shape: times[contenders.ONE_THREAD.name, shape] for shape in contenders.GROWING})
    if options.json:
        facts = {
            "machine": machine(),
            "unit": "microseconds per step and run, all cores busy",
            "peak_gflops": asdict(Spread.of(peaks)),
            "shapes": [asdict(row) for row in rows],
            "growth": asdict(growth),
            "left_out": absent,
        }
        print(json.dumps(facts))
    else:
        print(rendered(tables(rows, growth, absent, machine())))
    return 0 if all(versus.agrees for row in rows for versus in row.peers.values()) else 1


def timed(rounds: int, peers: Sequence[Peer]) -> tuple[Times, list[float]]:
    """Every timing and every matmul peak, in rounds: a slow minute of the machine meets all contenders alike."""
    all_of_them: list[Contender] = [contenders.NATIVE, contenders.ONE_THREAD, contenders.WHOLE, *peers]
    jobs = [(contender, shape) for shape in contenders.SHAPES for contender in all_of_them]
    jobs += [(contenders.ONE_THREAD, shape) for shape in contenders.GROWING if shape not in contenders.SHAPES]
    times: dict[tuple[str, Shape], list[Timing]] = defaultdict(list)
    peaks: list[float] = []
    with progress("timing") as report:
        for done, (contender, shape) in enumerate(jobs * rounds):
            if done % len(jobs) == 0:
                peaks.append(contenders.matmul_peak())
            times[contender.name, shape].append(contender.time(shape))
            report(done + 1, rounds * len(jobs))
    return times, peaks


def row_of(shape: Shape, peers: Sequence[Peer], times: Times, peaks: Sequence[float], scaling: Sequence[float]) -> Row:
    """The timings of one shape; ratios to peers are taken within a round."""
    native = (contenders.NATIVE, contenders.WHOLE, contenders.ONE_THREAD)
    training, whole, single = ([t.microseconds for t in times[one.name, shape]] for one in native)
    flops = step_flops(shape.run(seed=0))
    fractions = [flops / (1e3 * one * peak) for one, peak in zip(single, peaks, strict=True)]
    versus = {}
    for peer in peers:
        theirs = times[peer.name, shape]
        versus[peer.name] = Versus(
            microseconds=Spread.of([t.microseconds for t in theirs]),
            ratio=Spread.of([t.microseconds / ours for t, ours in zip(theirs, training, strict=True)]),
            loss=theirs[-1].loss,
            native_loss=contenders.native_loss(shape, steps=peer.steps_on(shape)) if peer.same_contexts else None,
        )
    return Row(
        shape=shape,
        training=Spread.of(training),
        whole_protocol=Spread.of(whole),
        one_thread=Spread.of(single),
        speed_up=Spread.of(scaling),
        flops=flops,
        of_peak=Spread.of(fractions),
        peers=versus,
    )


def growth_of(times: Mapping[Shape, Sequence[Timing]]) -> Growth:
    """One thread's time against d_model·D_K, and the largest distance from a straight line."""
    spreads = [Spread.of([t.microseconds for t in taken]) for taken in times.values()]
    sizes = np.array([shape.d_model * shape.key_budget for shape in times], dtype=np.float64)
    medians = np.array([spread.median for spread in spreads])
    line = np.polynomial.Polynomial.fit(sizes, medians, deg=1, w=1 / medians)
    return Growth(tuple(times), tuple(spreads), float(np.abs(line(sizes) / medians - 1).max()))


if __name__ == "__main__":
    sys.exit(main())
