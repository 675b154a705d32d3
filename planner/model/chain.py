"""Pipelines of any length: a file to a ring, a network of adapters and wires, a ring, a GPU.

The stages may be pools and engines in any order. Every pool stage has its own W threads (a reader,
a sender and a receiver are different threads, on different computers even), thread w of each serves
the chunks that worker w has taken, in order. A worker has `depth` chunks on the way at most, from
the first stage to the last: a slot comes back when its chunk has left the last one.

A `through` stage passes on what comes in without waiting for the end of the chunk: it begins when
the stage before begins and ends no sooner than that one ends. A chunk therefore crosses adapter,
wire and adapter in the time of the slowest of the three, and a wire that many slow streams share is
held by each chunk only for the wire's own time.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence
from heapq import heappop, heappush
from itertools import count

from planner.model.stage import Busy, Costs, Stage, Trace, lengths


class _Chain:
    """The clock, the servers and the slots of one chain while its chunks are followed."""

    def __init__(
        self,
        stages: Sequence[Stage],
        chunks: Sequence[int],
        workers: int,
        depth: int,
        busy: Sequence[Busy] | None,
    ) -> None:
        self.stages = stages
        self.chunks = iter(chunks)
        self.busy = busy or [Busy() for _ in stages]
        self.costs = [Costs(stage.seconds) for stage in stages]
        self.engine_free = [0.0] * len(stages)
        self.serving = [[False] * workers for _ in stages]
        self.waiting = [[deque[tuple[int, float]]() for _ in range(workers)] for _ in stages]
        self.slots = [depth] * workers
        self.arrivals: list[float] = []
        self.events: list[tuple[float, int, Callable[[float], None]]] = []
        self.serial = count()
        for worker in range(workers):
            self.at(0.0, lambda now, worker=worker: self.take(worker, now))  # type: ignore[misc]

    def at(self, when: float, action: Callable[[float], None]) -> None:
        heappush(self.events, (when, next(self.serial), action))

    def run(self) -> None:
        while self.events:
            now, _, action = heappop(self.events)
            action(now)

    def take(self, worker: int, now: float) -> None:
        """Start the next chunks of a worker as far as it has slots, and its thread is free."""
        while self.slots[worker] and not self.serving[0][worker]:
            length = next(self.chunks, None)
            if length is None:
                return
            self.slots[worker] -= 1
            self.enter(0, worker, length, 0.0, now)

    def enter(self, k: int, worker: int, length: int, ends: float, now: float) -> None:
        """A chunk reaches stage `k`; its last byte will not be there before `ends`."""
        stage = self.stages[k]
        if stage.kind == "pool":
            if self.serving[k][worker]:
                self.waiting[k][worker].append((length, ends))
                return
            self.serving[k][worker] = True
            end = max(now + self.costs[k][length], ends)
            self.busy[k].add(now, end)
            self.at(end, lambda now: self.free(k, worker, now))
            self.leave(k, worker, length, now, end)
            return
        start = max(now, self.engine_free[k])
        end = start + self.costs[k][length]
        self.engine_free[k] = end
        self.busy[k].add(start, end)
        self.leave(k, worker, length, start, max(end, ends))

    def free(self, k: int, worker: int, now: float) -> None:
        """A thread is done with its chunk and takes the next one that waits for it."""
        self.serving[k][worker] = False
        if self.waiting[k][worker]:
            length, ends = self.waiting[k][worker].popleft()
            self.enter(k, worker, length, ends, now)
        elif k == 0:
            self.take(worker, now)

    def leave(self, k: int, worker: int, length: int, start: float, end: float) -> None:
        """A chunk is served by stage `k` from `start` to `end`: when the next one gets it."""
        lag = self.stages[k].lag
        if k + 1 == len(self.stages):
            self.arrivals.append(end + lag)
            self.at(end + lag, lambda now: self.release(worker, now))
        elif self.stages[k + 1].through:
            self.at(start + lag, lambda now: self.enter(k + 1, worker, length, end + lag, now))
        else:
            self.at(end + lag, lambda now: self.enter(k + 1, worker, length, 0.0, now))

    def release(self, worker: int, now: float) -> None:
        self.slots[worker] += 1
        self.take(worker, now)


def follow(
    stages: Sequence[Stage],
    chunks: Sequence[int],
    workers: int,
    depth: int,
    busy: Sequence[Busy] | None = None,
) -> Trace:
    """Follow every chunk through the chain; `busy` is told of every service, one a stage."""
    line = _Chain(stages, chunks, workers, depth, busy)
    line.run()
    if not line.arrivals:
        return Trace(0.0, tuple(0.0 for _ in stages), 0.0)
    return Trace(max(line.arrivals), tuple(busy.total for busy in line.busy), min(line.arrivals))


def alone(stages: Sequence[Stage], chunk: int) -> float:
    """Seconds of one chunk that finds every stage idle."""
    start = end = 0.0
    for stage in stages:
        begin = start if stage.through else end
        end = max(begin + stage.seconds(chunk), end if stage.through else 0.0) + stage.lag
        start = begin + stage.lag
    return end


def throughput(stages: Sequence[Stage], chunk: int, workers: int, depth: int) -> float:
    """Bytes per second once the chain is full: its slowest stage, or its slots going round."""
    rates = [
        (workers if stage.kind == "pool" else 1) * chunk / seconds
        for stage in stages
        for seconds in [stage.seconds(chunk)]
        if seconds > 0
    ]
    trip = alone(stages, chunk)
    if trip > 0:
        rates.append(workers * depth * chunk / trip)
    return min(rates, default=float("inf"))


def formula(stages: Sequence[Stage], size: int, chunk: int, workers: int, depth: int) -> float:
    """Seconds for `size` bytes, good enough to rank shapes: the first chunk, then the pace."""
    rate = throughput(stages, chunk, workers, depth)
    pools = [stage.seconds(chunk) for stage in stages if stage.kind == "pool"]
    first = min(size, chunk * workers) if pools and rate * max(pools) >= chunk * workers else chunk
    return alone(stages, chunk) + max(0, size - first) / rate


def seconds(
    stages: Sequence[Stage], size: int, chunk: int, workers: int, depth: int, waves: int
) -> float:
    """Seconds for `size` bytes: `waves` rounds of the slots one by one, the others at full pace.

    Deterministic chains turn periodic after a few rounds, so full rounds can be left out in the
    middle without changing how the ends look.
    """
    slots = workers * depth
    chunks = lengths(size, chunk)
    left_out = max(0, len(chunks) - waves * workers * max(depth, 2)) // slots * slots
    ends = follow(stages, chunks[left_out:], workers, depth).total_s
    return ends + left_out * chunk / throughput(stages, chunk, workers, depth)
