"""The two commonest pipelines, followed chunk by chunk in plain loops.

They answer what `planner.model.pipeline.exact` asks, in the same order of events; most of the time
of an estimate, and of a sweep over small chunks, goes into them.
"""

from __future__ import annotations

from collections.abc import Sequence
from heapq import heappop, heapreplace

from planner.model.stage import Busy, Costs, Stage, Trace
from planner.model.turns import filled


def queue(
    stage: Stage, chunks: Sequence[int], depth: int, told: Sequence[Busy] | None = None
) -> Trace:
    """One caller in front of one engine: each copy waits for the one `depth` before it.

    At least one chunk. `told` is told of every service.
    """
    costs = Costs(stage.seconds)
    ends = [0.0] * depth
    busy, free, first = 0.0, 0.0, 0.0
    for number, length in enumerate(chunks):
        slot = number % depth
        start = max(free, ends[slot])
        end = start + costs[length]
        busy += end - start
        if told:
            told[0].add(start, end)
        ends[slot] = end + stage.lag
        free = end
        if number == 0:
            first = ends[0]
    return Trace(max(ends), (busy,), first)


def fill(
    stages: Sequence[Stage],
    chunks: Sequence[int],
    workers: int,
    depth: int,
    told: Sequence[Busy] | None = None,
) -> Trace:
    """Read or copy into a slot, issue its DMA, use the next slot meanwhile.

    Each of the `workers` owns `depth` slots and takes the next chunk when one is free; the engine
    serves in the order of issue. At least one chunk. `told` is told of every service, one a stage.
    """
    pool, engine = stages
    pooled, queued, lag = Costs(pool.seconds), Costs(engine.seconds), engine.lag
    if not told and (found := _by_turns(pooled, queued, lag, chunks, workers, depth)):
        return found
    left = iter(chunks)
    released = [[0.0] * depth for _ in range(workers)]
    slots = [0] * workers
    # When a worker goes on, a number that keeps equal times in order, the worker, and the length
    # of the chunk in its slot: -1 where it comes for its next one. A sorted list is a heap.
    events = [(0.0, worker, worker, -1) for worker in range(workers)]
    serial = workers
    free, first, last = 0.0, float("inf"), 0.0
    pool_busy, pool_end, engine_busy = 0.0, 0.0, 0.0
    while events:
        now, _, worker, length = events[0]
        if length >= 0:
            start = free if free > now else now  # noqa: FURB136 - a call costs more
            end = start + queued[length]
            engine_busy += end - start
            if told:
                told[1].add(start, end)
            free = end
            arrived = end + lag
            first = arrived if arrived < first else first  # noqa: FURB136 - a call costs more
            last = arrived if arrived > last else last  # noqa: FURB136 - a call costs more
            mine, slot = released[worker], slots[worker]
            mine[slot] = arrived
            slots[worker] = slot = (slot + 1) % depth
            serial += 1
            if mine[slot] > now:
                heapreplace(events, (mine[slot], serial, worker, -1))
                continue
        taken = next(left, None)
        if taken is None:
            heappop(events)
            continue
        done = now + pooled[taken]
        if done > pool_end:
            pool_busy += done - max(now, pool_end)
            pool_end = done
        if told:
            told[0].add(now, done)
        serial += 1
        heapreplace(events, (done, serial, worker, taken))
    return Trace(last, (pool_busy, engine_busy), first)


def _by_turns(
    pooled: Costs, queued: Costs, lag: float, chunks: Sequence[int], workers: int, depth: int
) -> Trace | None:
    """The answer where all chunks but the last are equal, and take any time at all."""
    one, end = chunks[0], chunks[-1]
    full = len(chunks) - (end != one)
    if chunks.count(one) != full or pooled[one] <= 0.0 or queued[one] <= 0.0:
        return None
    last = (pooled[end], queued[end]) if end != one else None
    return filled((pooled[one], queued[one], lag), workers, depth, full, last)
