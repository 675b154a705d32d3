"""Host memory and a GPU: copy engines, the CPU's copies in and out of a ring, the driver's own."""

from __future__ import annotations

from collections.abc import Callable

from planner.engine.backends.base import Engine, Lane
from planner.engine.memory import copy_memory
from planner.engine.strategies.base import (
    Address,
    Bound,
    Chunks,
    Hands,
    Operation,
    Scattered,
    Stage,
    logged,
    needed,
)


def engine(kind: Engine) -> Stage:
    """A stage on a copy engine."""

    def equip(bound: Bound, hands: Hands, before: Address | None, after: Address | None) -> None:
        lane = bound.lane(kind, hands.number)
        hands.lanes.append(lane)
        hands.issue.append(_queued(lane, needed(before), needed(after), bound.chunks))

    return Stage("engine", equip)


def _queued(lane: Lane, source: Address, target: Address, chunks: Chunks) -> Operation:
    """Queue a chunk: one copy, or one for each piece behind one event."""
    copy, sizes = lane.copy, chunks.sizes
    if isinstance(source, Scattered):
        parts, copy_parts = source.parts, lane.copy_parts
        return lambda slot, chunk: copy_parts(slot, parts(chunk, target(slot, chunk)))
    return lambda slot, chunk: copy(slot, target(slot, chunk), source(slot, chunk), sizes[chunk])


def driver(kind: Engine) -> Stage:
    """The driver's blocking copy between ordinary memory and the GPU, all bytes in one call."""

    def equip(bound: Bound, hands: Hands, before: Address | None, after: Address | None) -> None:
        source, target, sizes = needed(before), needed(after), bound.chunks.sizes
        lane = bound.backend.lane(kind, 1)
        hands.lanes.append(lane)
        hands.blocking.append(lane)
        parts = source.parts if isinstance(source, Scattered) else None

        def copy(slot: int, chunk: int) -> None:
            lane.copy_now(target(slot, chunk), source(slot, chunk), sizes[chunk])
            hands.moved += sizes[chunk]

        def copy_each(slot: int, chunk: int) -> None:
            for to, address, length in parts(chunk, target(slot, chunk)) if parts else ():
                lane.copy_now(to, address, length)
                hands.moved += length

        hands.pool = copy_each if parts else copy

    return Stage("driver", equip)


def _copy(bound: Bound, hands: Hands, before: Address | None, after: Address | None) -> None:
    """One worker's memcpy between plain memory and its slot, into which pieces are packed."""
    source, target, sizes = needed(before), needed(after), bound.chunks.sizes
    gather = source.gather if isinstance(source, Scattered) else None

    def copy(slot: int, chunk: int) -> None:
        if gather is not None:
            gather(chunk, target(slot, chunk))
        else:
            copy_memory(target(slot, chunk), source(slot, chunk), sizes[chunk])

    hands.pool = logged(copy, hands, sizes)


COPY = Stage("pool", _copy)

Stages = Callable[[int], tuple[Stage, ...]]
"""The stages of a strategy on one GPU, by the driver's index."""


def _h2d(gpu: int) -> Engine:
    return Engine("h2d", gpu)


def _d2h(gpu: int) -> Engine:
    return Engine("d2h", gpu)


INTO_GPU: dict[str, Stages] = {
    "pinned": lambda gpu: (engine(_h2d(gpu)),),
    "registered": lambda gpu: (engine(_h2d(gpu)),),
    "host_staged": lambda gpu: (engine(_h2d(gpu)),),
    "staged": lambda gpu: (COPY, engine(_h2d(gpu))),
    "pageable": lambda gpu: (driver(_h2d(gpu)),),
}
"""Host memory to a GPU."""
OUT_OF_GPU: dict[str, Stages] = {
    "pinned": lambda gpu: (engine(_d2h(gpu)),),
    "registered": lambda gpu: (engine(_d2h(gpu)),),
    "host_staged": lambda gpu: (engine(_d2h(gpu)),),
    "staged": lambda gpu: (engine(_d2h(gpu)), COPY),
    "pageable": lambda gpu: (driver(_d2h(gpu)),),
}
"""A GPU to host memory."""
