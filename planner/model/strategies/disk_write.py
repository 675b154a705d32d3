"""From host memory to a disk: into the page cache, with or without waiting, or around it."""

from __future__ import annotations

from planner.model.stage import Stage
from planner.model.strategies.base import RINGS, Crossing, Shape, Strategy, kinds, nothing
from planner.model.strategies.copying import copy_stage, has_copies, ring_of
from planner.model.strategies.servers import disk_stage


def _no_buffered(crossing: Crossing) -> str | None:
    if not has_copies(crossing, "save"):
        return f"{crossing.host} has no measured writes into the page cache"
    if crossing.fsync and crossing.curve("buffered", "direct") is None:
        return f"{crossing.link} has no measured writes that wait for the device"
    return None


def _buffered(crossing: Crossing, shape: Shape) -> tuple[Stage, ...]:
    """`pwrite` into the page cache.

    The device writes it out behind the writers. Without `fsync` the flow does not wait for that;
    with it, no byte counts before the device has it, so the slower of the two sets the pace.
    """
    table = crossing.ram.copy_rates["save"]
    coupled = crossing.before in RINGS
    copy = copy_stage(crossing, table, shape, ring_of(crossing, shape), dma=coupled)
    if not crossing.fsync:
        return (copy,)
    curve = crossing.curve("buffered", "direct")
    direction = crossing.direction
    rate = min(direction.rate, curve.rate) if curve else direction.rate
    disk = disk_stage(crossing, curve, rate, shape)
    charges = dict(copy.charges) | dict(disk.charges)
    first = disk if disk.seconds(shape.chunk) > copy.seconds(shape.chunk) else copy

    def seconds(length: int) -> float:
        return max(copy.seconds(length), disk.seconds(length))

    return (Stage(first.resource, "pool", seconds, charges=charges, cause=first.cause),)


def _no_direct(crossing: Crossing) -> str | None:
    if crossing.curve("direct") is None:
        return f"{crossing.link} has no measured direct (O_DIRECT) writes"
    return None


def _direct(crossing: Crossing, shape: Shape) -> tuple[Stage, ...]:
    curve = crossing.curve("direct")
    return (disk_stage(crossing, curve, crossing.direction.rate, shape),)


_FROM = kinds("pageable", "pinned", "mapped", "managed", "drain", "fill")

BUFFERED_WRITE = Strategy(
    "buffered",
    ("ram", "disk"),
    _FROM,
    kinds("file"),
    _no_buffered,
    _buffered,
    nothing,
    starts=kinds("mapped", "managed"),
)
DIRECT_WRITE = Strategy(
    "direct",
    ("ram", "disk"),
    _FROM,
    kinds("file"),
    _no_direct,
    _direct,
    nothing,
    starts=kinds("mapped", "managed"),
)
