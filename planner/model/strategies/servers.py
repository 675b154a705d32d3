"""The servers that strategies share: copy engines and disks; `copying` has the workers."""

from __future__ import annotations

from dataclasses import replace

from planner.machine.curve import Curve
from planner.model.stage import Costs, Stage
from planner.model.strategies.base import RINGS, Crossing, Shape, step, steps
from planner.model.strategies.remembered import Remembered
from planner.results import Cause, SetupStep


def wire_charges(crossing: Crossing, per_byte: float, moved: float = 1.0) -> dict[str, float]:
    """What a byte of the flow takes of its direction, and of the opposite one by interference.

    `moved` is how many bytes really cross the wire for each: fewer where a GPU touches a part in
    place, more where it reads it again and again.
    """
    charges = {crossing.resource: per_byte}
    other, opposite = crossing.opposite()
    if opposite is not None and opposite.against > 0:
        charges[other] = moved * opposite.against / opposite.rate
    return charges


def dma(crossing: Crossing, curve: Curve, shape: Shape) -> Stage:
    """A copy engine's stage on the crossing's link.

    Each byte takes the engine's time of its chunk, and the opposite direction its interference. A
    single copy takes what a lone copy takes; its latency is the lag, the rest is service. Pieces
    that lie scattered at the start take one call each.
    """
    lag = curve.latency - curve.queued_gap
    if crossing.pieces and crossing.before not in RINGS:
        served = sum(count * curve.service(size) for size, count in crossing.pieces)
        charges = wire_charges(crossing, served / packed_size(crossing))
        return replace(
            piecewise(crossing, served, curve.rate, lag, charges),
            idle=curve.idle,
            overhead=curve.overhead,
        )
    chunk = min(shape.chunk, max(1, crossing.size))
    whole = shape.chunk >= crossing.size

    def alone(length: int) -> float:
        return max(0.0, curve.seconds(length) - lag)

    def make() -> Stage:
        service = Costs(alone if whole else curve.service).__getitem__
        charges = wire_charges(crossing, service(chunk) / chunk)
        return Stage(
            crossing.resource,
            "engine",
            service,
            lag=lag,
            idle=curve.idle,
            overhead=curve.overhead,
            charges=charges,
            whole=whole,
        )

    figures = (crossing.link, crossing.start, chunk, whole)
    return _engines.stage(figures, (crossing.machine, curve), make)


_engines = Remembered()


def packed_size(crossing: Crossing) -> int:
    """Bytes of all the pieces; of a shard only the pace matters, so their sum is what counts."""
    return max(1, sum(size * count for size, count in crossing.pieces))


def piecewise(
    crossing: Crossing, served: float, rate: float, lag: float, charges: dict[str, float]
) -> Stage:
    """One call for each piece: n calls take the longer of issuing them and of serving them.

    Parameters
    ----------
    crossing
        Where the pieces lie.
    served
        Seconds in which the engine serves them all, one behind the other.
    rate
        Bytes/s of the bytes alone.
    lag
        Seconds by which the last piece arrives later than its service ends.
    charges
        Seconds of each shared resource that one byte takes.

    """
    calls = sum(count for _, count in crossing.pieces)
    size = packed_size(crossing)
    total = max(calls * crossing.ram.issue, served)
    per_byte = total / size
    # The calls limit where the bytes alone would take less than half of the time.
    cause: Cause = "issue_overhead" if 2 * size / rate < total else "bandwidth"
    return Stage(
        crossing.resource,
        "engine",
        lambda length: length * per_byte,
        lag=lag,
        charges=charges,
        cause=cause,
    )


def disk_stage(crossing: Crossing, curve: Curve | None, rate: float, shape: Shape) -> Stage:
    """Requests to a device: one outstanding per worker, all under its rate and its IOPS.

    Where several readers were measured together, they tell what so many requests of that size
    reach, too few of them and too many; else the time of a lone request and the rate do. They were
    measured into rings; what a disk's host copies into memory that is in no cache comes slower.
    """
    requests = crossing.direction.requests
    workers, chunk = shape.workers, min(shape.chunk, max(1, crossing.size))
    table = curve.readers if curve else None
    share = 1.0 if table is None or crossing.after in RINGS else table.into_memory

    def request(length: int) -> float:
        if table is not None:
            return workers * length / (share * table.rate(workers, length))
        return curve.seconds(length) if curve else 0.0

    def seconds(length: int) -> float:
        together = workers * length / rate
        return max(request(length), together, workers / requests if requests else 0.0)

    reach = rate if table is None else min(rate, share * table.reach(workers, chunk))
    waits = request(chunk) > workers * chunk / reach * 1.01
    per_byte = max(1 / reach, (1 / requests / chunk) if requests else 0.0)
    return Stage(
        crossing.resource,
        "pool",
        seconds,
        charges={crossing.resource: per_byte},
        cause="queue_depth" if waits else "bandwidth",
    )


def without_pieces(crossing: Crossing) -> Crossing:
    """The same crossing behind a ring, in which the pieces lie packed."""
    return replace(crossing, pieces=()) if crossing.pieces else crossing


def copy_into_managed(crossing: Crossing, _shape: Shape) -> tuple[SetupStep, ...]:
    """Bytes that lie in ordinary memory must first be copied into managed memory, touched anew."""
    if crossing.before != "pageable":
        return ()
    setup, touch, fill = crossing.ram.setup, crossing.ram.managed_touch, crossing.ram.managed_fill
    if touch is not None and fill is not None:
        return steps(
            step("touch the managed buffer", crossing.size, None, touch.seconds(crossing.size)),
            step("copy into it", crossing.size, None, fill.seconds(crossing.size)),
        )
    # Without figures of managed memory, those of ordinary memory are the best guess.
    table = crossing.ram.copy_rates.get("memory")
    rate = table.rate(table.workers[-1], max(1, crossing.size)) if table else None
    return steps(
        step("touch the managed buffer", crossing.size, setup.touch_fresh or setup.touch_recycled),
        step("copy into it", crossing.size, rate),
    )
