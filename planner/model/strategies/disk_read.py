"""From a disk into host memory: through the page cache (`buffered`) or around it (`direct`)."""

from __future__ import annotations

from planner.machine.schema import CopyName
from planner.model.stage import Stage
from planner.model.strategies.base import RINGS, Crossing, Shape, Strategy, kinds, nothing
from planner.model.strategies.copying import copy_stage, has_copies, least_copy, ring_of
from planner.model.strategies.servers import disk_stage
from planner.model.strategies.write_combined import not_combined


def _table(crossing: Crossing) -> CopyName:
    return "file_wc" if crossing.after == "wc" else "file"


def _no_buffered(crossing: Crossing) -> str | None:
    if not has_copies(crossing, "file"):
        return f"{crossing.host} has no measured copies out of the page cache"
    if crossing.after == "wc":
        return not_combined(crossing, "file_wc")
    if crossing.cached < 1 and crossing.curve("buffered", "direct") is None:
        return f"{crossing.link} has no measured cold reads"
    return None


def _buffered(crossing: Crossing, shape: Shape) -> tuple[Stage, ...]:
    """`pread` through the page cache: a copy for what is cached, disk and copy for the rest."""
    table = crossing.ram.copy_rates[_table(crossing)]
    coupled = crossing.after in RINGS
    copy = copy_stage(crossing, table, shape, ring_of(crossing, shape), dma=coupled)
    if crossing.cached >= 1:
        return (copy,)
    curve = crossing.curve("buffered", "direct")
    direction = crossing.direction
    rate = min(direction.rate, curve.rate) if curve else direction.rate
    disk = disk_stage(crossing, curve, rate, shape)
    missing = 1 - crossing.cached

    def seconds(length: int) -> float:
        copied = copy.seconds(length)
        return crossing.cached * copied + missing * max(copied, disk.seconds(length))

    charges = {name: value * missing for name, value in disk.charges.items()} | dict(copy.charges)
    slow = disk.seconds(shape.chunk) * missing > copy.seconds(shape.chunk)
    first = disk if slow else copy
    return (Stage(first.resource, "pool", seconds, charges=charges, cause=first.cause),)


def _least_buffered(crossing: Crossing) -> float:
    """All is copied, from the page cache or behind the disk."""
    table = crossing.ram.copy_rates[_table(crossing)]
    coupled = crossing.after in RINGS
    ring = None if coupled else ring_of(crossing, Shape(1))
    return least_copy(crossing, table, ring, dma=coupled)


def _least_direct(crossing: Crossing) -> float:
    return crossing.size / crossing.direction.rate


def _no_direct(crossing: Crossing) -> str | None:
    if crossing.curve("direct") is None:
        return f"{crossing.link} has no measured direct (O_DIRECT) reads"
    return None


def _direct(crossing: Crossing, shape: Shape) -> tuple[Stage, ...]:
    curve = crossing.curve("direct")
    return (disk_stage(crossing, curve, crossing.direction.rate, shape),)


BUFFERED_READ = Strategy(
    "buffered",
    ("disk", "ram"),
    kinds("file"),
    kinds("pageable", "pinned", "mapped", "managed", "fill", "wc"),
    _no_buffered,
    _buffered,
    nothing,
    ends=kinds("mapped"),
    least=_least_buffered,
)
DIRECT_READ = Strategy(
    "direct",
    ("disk", "ram"),
    kinds("file"),
    kinds("pageable", "pinned", "mapped", "fill"),
    _no_direct,
    _direct,
    nothing,
    ends=kinds("mapped"),
    least=_least_direct,
)
