"""Disk and host memory: through the page cache, around it, or mapped in place."""

from __future__ import annotations

from planner.machine.tables import CopyTable
from planner.model.pipeline import Stage
from planner.model.strategies.base import (
    RINGS,
    Crossing,
    Shape,
    Strategy,
    copy_stage,
    nothing,
    step,
    steps,
)
from planner.results import SetupStep


def _no_buffered(crossing: Crossing) -> str | None:
    if "file" not in crossing.ram.copy_rates:
        return f"{crossing.host} has no measured copies out of the page cache"
    if crossing.cached < 1 and crossing.curve("buffered", "direct") is None:
        return f"{crossing.link} has no measured cold reads"
    return None


def _ring(crossing: Crossing, shape: Shape) -> int:
    """Bytes that the CPU's stores (or loads) go round in: the ring, or the whole buffer."""
    at_rest = crossing.after if crossing.before == "file" else crossing.before
    return shape.ring if at_rest in RINGS else max(crossing.size, 1)


def _read_buffered(crossing: Crossing, shape: Shape) -> tuple[Stage, ...]:
    """`pread` through the page cache: a copy for what is cached, disk and copy for the rest."""
    table = crossing.ram.copy_rates["file"]
    coupled = crossing.after in RINGS
    copy = copy_stage(crossing, table, shape, _ring(crossing, shape), dma=coupled)
    if crossing.cached >= 1:
        return (copy,)
    disk = _disk_stage(crossing, shape, buffered=True)
    missing = 1 - crossing.cached

    def seconds(length: int) -> float:
        copied = copy.seconds(length)
        return crossing.cached * copied + missing * max(copied, disk.seconds(length))

    charges = {name: value * missing for name, value in disk.charges.items()} | dict(copy.charges)
    slow = disk.seconds(shape.chunk) * missing > copy.seconds(shape.chunk)
    first = disk if slow else copy
    return (Stage(first.resource, "pool", seconds, charges=charges, cause=first.cause),)


def _disk_stage(crossing: Crossing, shape: Shape, *, buffered: bool) -> Stage:
    """Requests to the device: one outstanding per worker, all under its rate and its IOPS."""
    curve = crossing.curve("buffered", "direct") if buffered else crossing.curve("direct")
    direction = crossing.direction
    requests = direction.requests
    rate = min(direction.rate, curve.rate) if curve and buffered else direction.rate

    def seconds(length: int) -> float:
        alone = curve.seconds(length) if curve else 0.0
        together = shape.workers * length / rate
        return max(alone, together, shape.workers / requests if requests else 0.0)

    chunk = min(shape.chunk, max(1, crossing.size))
    waits = curve is not None and curve.seconds(chunk) > shape.workers * chunk / rate * 1.01
    per_byte = max(1 / rate, (1 / requests / chunk) if requests else 0.0)
    return Stage(
        crossing.resource,
        "pool",
        seconds,
        charges={crossing.resource: per_byte},
        cause="queue_depth" if waits else "bandwidth",
    )


def _no_direct(crossing: Crossing) -> str | None:
    if crossing.curve("direct") is None:
        return f"{crossing.link} has no measured direct (O_DIRECT) reads"
    return None


def _read_direct(crossing: Crossing, shape: Shape) -> tuple[Stage, ...]:
    return (_disk_stage(crossing, shape, buffered=False),)


def _no_mapping(crossing: Crossing) -> str | None:
    if crossing.cached < 1:
        return "the file is not wholly in the page cache: its pages would fault in one by one"
    if crossing.ram.setup.register_file is None:
        return f"{crossing.host} has no measured registration of file mappings"
    return None


def _map_setup(crossing: Crossing, _shape: Shape) -> tuple[SetupStep, ...]:
    setup = crossing.ram.setup
    return steps(
        step(
            "map and register the file", crossing.size, setup.register_file, setup.register_latency
        )
    )


def _no_save(crossing: Crossing) -> str | None:
    if "save" not in crossing.ram.copy_rates:
        return f"{crossing.host} has no measured writes into the page cache"
    return None


def _write_buffered(crossing: Crossing, shape: Shape) -> tuple[Stage, ...]:
    """`pwrite` into the page cache; the device writes it out later, outside the flow's time."""
    table: CopyTable = crossing.ram.copy_rates["save"]
    coupled = crossing.before in RINGS
    return (copy_stage(crossing, table, shape, _ring(crossing, shape), dma=coupled),)


BUFFERED_READ = Strategy(
    "buffered",
    ("disk", "ram"),
    frozenset({"file"}),
    frozenset({"pageable", "pinned", "fill"}),
    _no_buffered,
    _read_buffered,
    nothing,
)
DIRECT_READ = Strategy(
    "direct",
    ("disk", "ram"),
    frozenset({"file"}),
    frozenset({"pageable", "pinned", "fill"}),
    _no_direct,
    _read_direct,
    nothing,
)
MAP = Strategy(
    "mmap",
    ("disk", "ram"),
    frozenset({"file"}),
    frozenset({"mapped"}),
    _no_mapping,
    lambda _crossing, _shape: (),
    _map_setup,
    single=True,
)
BUFFERED_WRITE = Strategy(
    "buffered",
    ("ram", "disk"),
    frozenset({"pageable", "pinned", "drain"}),
    frozenset({"file"}),
    _no_save,
    _write_buffered,
    nothing,
)
