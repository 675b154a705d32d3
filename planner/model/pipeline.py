"""The chunked pipeline: workers that own their slots, in front of (or behind) copy engines.

A worker owns `depth` slots of the ring. To *fill*, it waits for its next slot, takes the next
chunk, copies it into the slot (a pool stage: the worker itself is busy), issues the DMA (an engine
stage: one FIFO server shared by all workers) and goes on with its other slots. To *drain*, the DMA
comes first and the worker then copies out of the slot. A *relay* is two engines in a row.

Longer lines (a file to a ring, a network, a ring, a GPU) are followed by `planner.model.chain`.

`exact` follows every chunk through that machine; `closed_form` is the formula that the search uses.
With W workers, service times p (pool) and S (engine) of a full chunk c, n bytes and throughput
X = min(W c/p, c/S) the formula is

    fill + n/X + what the last chunk still has to do

and it agrees with `exact` within 2 % (a test holds both to it).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from heapq import heappop, heappush, heapreplace
from itertools import count

from planner.model import chain, tight
from planner.model.stage import Busy, Costs, Stage, Trace, lengths

__all__ = ["Stage", "Trace", "closed_form", "exact", "lengths", "seconds", "throughput"]

FEW_WAVES = 16
"""Up to so many chunks for each slot the search follows every chunk: the formula averages over the
raggedness of the first and last waves, which matters only while there are few."""


class _Line:
    """The state of one pipeline while `exact` follows it: a clock of events and the engines."""

    def __init__(
        self, stages: Sequence[Stage], chunks: Sequence[int], busy: Sequence[Busy] | None = None
    ) -> None:
        self.stages = stages
        self.chunks = iter(chunks)
        self.busy = busy or [Busy() for _ in stages]
        self.costs = [Costs(stage.seconds) for stage in stages]
        self.lags = [stage.lag for stage in stages]
        self.free = [0.0] * len(stages)
        self.arrivals: list[float] = []
        self.events: list[tuple[float, int, Iterator[float]]] = []
        self.serial = count()

    def engine(self, k: int, at: float, length: int) -> float:
        """Put a chunk on engine `k` at time `at`; returns when it has arrived."""
        free = self.free[k]
        start = max(free, at)
        end = start + self.costs[k][length]
        self.free[k] = end
        self.busy[k].add(start, end)
        return end + self.lags[k]

    def pool(self, k: int, at: float, length: int) -> float:
        """A worker serves a chunk itself from time `at` on; returns when it is done."""
        end = at + self.costs[k][length]
        self.busy[k].add(at, end)
        return end

    def run(self, workers: Sequence[Callable[[_Line], Iterator[float]]]) -> None:
        """Drive the workers in time order: each yields the instant at which it wants to go on."""
        for make in workers:
            heappush(self.events, (0.0, next(self.serial), make(self)))
        while self.events:
            worker = self.events[0][2]
            wake = next(worker, None)
            if wake is None:
                heappop(self.events)
            else:
                heapreplace(self.events, (wake, next(self.serial), worker))


def _drain(line: _Line, depth: int) -> Iterator[float]:
    """Engine, then pool: keep `depth` DMAs in flight, copy out of the oldest slot."""
    now = 0.0
    flight: list[tuple[float, int]] = []
    while True:
        while len(flight) < depth:
            length = next(line.chunks, None)
            if length is None:
                break
            flight.append((line.engine(0, now, length), length))
        if not flight:
            return
        arrived, length = flight.pop(0)
        if arrived > now:
            now = arrived
            yield now
        now = line.pool(1, now, length)
        yield now
        line.arrivals.append(now)


def _relay(line: _Line, depth: int) -> Iterator[float]:
    """Engine, then engine: the second copy follows the first by an event, no worker waits."""
    released = [0.0] * depth
    now, turn = 0.0, 0
    while True:
        slot = turn % depth
        if released[slot] > now:
            now = released[slot]
            yield now
        length = next(line.chunks, None)
        if length is None:
            return
        landed = line.engine(0, now, length)
        # The second engine takes the chunk when it lands: its place in that queue is settled then.
        yield landed
        released[slot] = line.engine(1, landed, length)
        line.arrivals.append(released[slot])
        turn += 1


def _single(line: _Line, depth: int) -> Iterator[float]:
    """One stage alone: a pool of workers on plain memory, or copies queued on one engine."""
    now = 0.0
    flight: list[float] = []
    while True:
        if len(flight) >= depth:
            arrived = flight.pop(0)
            if arrived > now:
                now = arrived
                yield now
        length = next(line.chunks, None)
        if length is None:
            return
        if line.stages[0].kind == "pool":
            now = line.pool(0, now, length)
            line.arrivals.append(now)
            yield now
        else:
            flight.append(line.engine(0, now, length))
            line.arrivals.append(flight[-1])


_SHAPES: dict[tuple[str, ...], Callable[[_Line, int], Iterator[float]]] = {
    ("pool",): _single,
    ("engine",): _single,
    ("engine", "pool"): _drain,
    ("engine", "engine"): _relay,
}


def _is_chain(stages: Sequence[Stage]) -> bool:
    """Whether the line is longer than one worker's turn, or passes bytes on as they come."""
    kinds = tuple(stage.kind for stage in stages)
    return (kinds not in _SHAPES and kinds != ("pool", "engine")) or any(
        stage.through for stage in stages
    )


def exact(
    stages: Sequence[Stage],
    chunks: Sequence[int],
    workers: int,
    depth: int,
    busy: Sequence[Busy] | None = None,
) -> Trace:
    """Follow every chunk through the pipeline.

    Parameters
    ----------
    stages
        The stages in the order in which a byte meets them, at least one.
    chunks
        Lengths of the chunks in bytes, in the order in which they are taken.
    workers, depth
        Workers and slots per worker, both at least 1.
    busy
        What is told of every service, one a stage, where somebody wants to know.

    """
    depth = min(depth, max(len(chunks), 1))  # further slots are never met, and must not be made
    if _is_chain(stages):
        return chain.follow(stages, chunks, workers, depth, busy)
    if not chunks:
        return Trace(0.0, tuple(0.0 for _ in stages), 0.0)
    if busy is not None:
        return _follow(stages, chunks, workers, depth, busy)
    key = (_question(stages, chunks), workers, depth)
    found = _followed.get(key)
    if found is None:
        if len(_followed) >= MOST_FOLLOWED:
            _followed.clear()
        found = _followed[key] = _follow(stages, chunks, workers, depth, None)
    return found


MOST_FOLLOWED = 4096
"""Pipelines that are remembered: a search, and a sweep the more, asks for the same ones again."""

_followed: dict[tuple[object, ...], Trace] = {}


def _question(stages: Sequence[Stage], chunks: Sequence[int]) -> tuple[object, ...]:
    """All that the answer of `exact` depends on, beside workers and depth."""
    # Equal chunks but for the last are told by their number.
    equal = chunks.count(chunks[0]) == len(chunks) - (chunks[-1] != chunks[0])
    told = (len(chunks), chunks[0], chunks[-1]) if equal else tuple(chunks)
    met = {chunks[0], chunks[-1]} if equal else set(chunks)
    return told, tuple(
        (stage.kind, stage.lag, *map(stage.seconds, sorted(met))) for stage in stages
    )


def _follow(
    stages: Sequence[Stage],
    chunks: Sequence[int],
    workers: int,
    depth: int,
    busy: Sequence[Busy] | None,
) -> Trace:
    """`exact` for lines of one or two stages."""
    kinds = tuple(stage.kind for stage in stages)
    if kinds == ("pool", "engine"):
        return tight.fill(stages, chunks, workers, depth, busy)
    if kinds == ("engine",) and workers == 1:
        return tight.queue(stages[0], chunks, depth, busy)
    work = _SHAPES[kinds]
    line = _Line(stages, chunks, busy)
    line.run([lambda line: work(line, depth)] * workers)
    return Trace(max(line.arrivals), tuple(busy.total for busy in line.busy), min(line.arrivals))


ROUNDS_FOLLOWED = 8
"""Rounds of the ring after which a pipeline is taken to go on as it does then."""


def nearly(stages: Sequence[Stage], size: int, chunk: int, workers: int, depth: int) -> Trace:
    """What `exact` finds, from its first rounds only where there are many.

    The rest goes on at the pipeline's throughput; whole rounds are left out, so that the last
    ones are as ragged as they really are. For questions that compare machines, not for answers.
    """
    slots = workers * max(depth, 2)
    extra = max(0, -(-size // chunk) // slots - ROUNDS_FOLLOWED) * slots
    trace = exact(stages, lengths(size - extra * chunk, chunk), workers, depth)
    if not extra:
        return trace
    further = extra * chunk / throughput(stages, chunk, workers, depth)
    busy = tuple(
        seen + (extra * stage.seconds(chunk) if stage.kind == "engine" else further)
        for seen, stage in zip(trace.busy_s, stages, strict=True)
    )
    return Trace(trace.total_s + further, busy, trace.first_s)


def throughput(stages: Sequence[Stage], chunk: int, workers: int, depth: int) -> float:
    """Bytes per second of the pipeline once it is full."""
    if _is_chain(stages):
        return chain.throughput(stages, chunk, workers, depth)
    return _pace(stages, [stage.seconds(chunk) for stage in stages], chunk, workers, depth)


def _pace(
    stages: Sequence[Stage], times: Sequence[float], chunk: int, workers: int, depth: int
) -> float:
    """Bytes per second of one or two stages that take `times` for a chunk."""
    rates = [
        (workers if stage.kind == "pool" else 1) * chunk / t
        for stage, t in zip(stages, times, strict=True)
        if t > 0
    ]
    # All slots of the ring go round together: none starts again before its chunk has arrived.
    slots = workers * depth
    round_trip = sum(times) + sum(stage.lag for stage in stages)
    if round_trip > 0 and (len(stages) > 1 or stages[0].kind == "engine"):
        rates.append(slots * chunk / round_trip)
    return min(rates, default=float("inf"))


def closed_form(stages: Sequence[Stage], size: int, chunk: int, workers: int, depth: int) -> float:
    """Seconds for `size` bytes by formula; good where every worker gets many chunks."""
    form = chain.formula if _is_chain(stages) else _short_form
    return form(stages, size, chunk, workers, depth)


def _short_form(stages: Sequence[Stage], size: int, chunk: int, workers: int, depth: int) -> float:
    """Seconds of a line of one or two stages by formula."""
    full, rest = divmod(size, chunk)
    chunks = full + (rest > 0)
    times = [stage.seconds(chunk) for stage in stages]
    lag = sum(stage.lag for stage in stages)
    rate = _pace(stages, times, chunk, workers, depth)
    pool = next((k for k, stage in enumerate(stages) if stage.kind == "pool"), None)
    if pool is None:  # engines only: one fill, then the slowest sets the pace
        return sum(times) - chunk / rate + size / rate + lag
    waves, ragged = -(-chunks // workers), (chunks - 1) % workers + 1
    if len(stages) == 1:
        last = stages[0].seconds(rest) if rest and ragged == 1 else times[0]
        return (waves - 1) * times[0] + last
    engine = times[1 - pool]
    if rate * engine >= chunk * (1 - 1e-12):  # the engine limits: one pool stage before or after
        return times[pool] + size / rate + lag
    if depth > 1 and rate * times[pool] < chunk * workers * (1 - 1e-9):
        # Neither limits, the slots do: tiny chunks spend their time on the way, not being served.
        rounds, within = divmod(chunks - 1, workers * depth)
        return (rounds + 1) * (sum(times) + lag) + within * max(engine, times[pool] / workers)
    if pool == 0:
        short = times[0] - stages[0].seconds(rest) if rest and ragged == 1 else 0.0
        if depth == 1:
            # The pool limits, each worker waits for its own copy, which spreads the workers out.
            period = times[0] + engine + stages[1].lag
            total = size / chunk / workers * period + engine * (workers - 1) / 2
        else:
            # The pool limits. Workers go in waves; the last wave's copies queue on the engine.
            total = waves * times[0] - short + ragged * engine + lag
        return total
    # Draining: worker w gets its first chunk after those that earlier workers asked for.
    period = times[1] + (engine + stages[0].lag if depth == 1 else 0.0)
    return size / chunk / workers * period + engine * (1 + depth * (workers - 1) / 2) + lag


def seconds(stages: Sequence[Stage], size: int, chunk: int, workers: int, depth: int) -> float:
    """Seconds for `size` bytes in chunks of `chunk`: exact where it is short, else the formula."""
    if size <= 0:
        return 0.0
    chunk = min(chunk, size)
    if -(-size // chunk) <= FEW_WAVES * workers * max(depth, 2):
        return exact(stages, lengths(size, chunk), workers, depth).total_s
    if _is_chain(stages):
        return chain.seconds(stages, size, chunk, workers, depth, FEW_WAVES)
    return closed_form(stages, size, chunk, workers, depth)
