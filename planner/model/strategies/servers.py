"""The servers that strategies share: copy engines, copying workers, disks."""

from __future__ import annotations

from dataclasses import replace
from typing import Final

from planner.machine.curve import Curve
from planner.machine.schema import CopyName, Ram
from planner.machine.tables import CopyTable
from planner.model.one_slot import together
from planner.model.stage import Costs, Stage, Turns
from planner.model.strategies.base import RINGS, Crossing, Shape, step, steps
from planner.model.strategies.faults import fault_charges, fault_time
from planner.model.strategies.remembered import Remembered
from planner.native import native
from planner.results import Cause, SetupStep

CROWD: Final = 2.0
HANDED: Final = 4.0
"""Powers in which a chunk's copying and the turns of all workers at the locks add up, where workers
meet and where one thread hands on. A lock that is taken for most of the time is waited for though
it could serve everybody. 30 staged plans came within 7 % in the median by the second power, 8 to 11
by the fourth; 9 loads of files, which one thread hands on, within 10 and 5 (one H200, measured
2026-12-01)."""
MEET: Final = 2
"""Power of the share of the others, 1 - 1/W, in which a turn grows with W workers. Chunks of 256
KiB out of memory, whose copying is next to nothing, took 28, 38, 41, 60, 65 and 69 us by 2, 4, 6,
8, 12 and 16 workers, and 35 to 71 the other way: the square comes within a fifth of nine
of these, the share itself is up to 1.5 times too long (one H200, 16 cores, measured 2026-12-01)."""

CALLS: Final = 3
"""Calls of the driver that a worker makes for a chunk: whether its slot is free, the copy to or
from the engine, and the event behind it. With 12 us of them 48 kinds of runs by one to four workers
with 256 KiB to 2 MiB came within 8 % in the median, 22 % in nine of ten (14 and 34 % without; one
H200, measured 2026-12-01)."""

COPY: Final = ".copy"
"""How the copying workers of a host are called, behind its name."""
DISPATCH: Final = ".dispatch"
"""How the locks of a process are called, behind the memory that it moves bytes in."""


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


def copy_stage(
    crossing: Crossing, table: CopyTable, shape: Shape, ring: int, *, dma: bool
) -> Stage:
    """All workers copying between plain memory (or the page cache) and a ring of `ring` bytes.

    The workers share the capacity C(W, R), so each serves one chunk in W * chunk / C. Touching a
    mapping costs its page faults, which all workers take in turn: they change one address space,
    and nobody has measured more. What the interpreter needs for a chunk, and for each scattered
    piece in it, holds its lock: the workers take turns there, and with those of all other flows, so
    below some size of chunk that alone sets the pace. A turn takes longer than that, since the lock
    is handed to a thread that has to wake up. Beside DMA the driver's locks are taken in turn, too,
    so there the table says what a turn takes, elsewhere the host does (80 and 15 us on one H200
    machine); a host that does not is taken to be as slow as beside DMA. A turn counts only where
    workers crowd at the lock, so a chunk of few workers, or a big one, does not take that time on
    top.
    """
    faults = fault_time(crossing)
    reading = fault_charges(crossing)
    chunk = min(shape.chunk, max(1, crossing.size))

    def make() -> Stage:
        capacity = table.rate(shape.workers, ring, beside_dma=dma)
        own = table if dma else _without_dma(table, crossing.ram)
        calls = CALLS * crossing.ram.issue if dma and not crossing.machine.emulated else 0.0
        made = _copies(
            crossing, own, shape.workers, chunk, capacity=capacity, faults=faults, calls=calls
        )
        if dma:
            made = replace(made, several=table.several(shape.workers))
        return replace(made, charges={**made.charges, **reading}) if reading else made

    if crossing.pieces:
        return make()
    emulated = crossing.machine.emulated
    shared = tuple(reading.items())
    more = (faults, shared, emulated, crossing.turns, crossing.cores, crossing.before == "file")
    figures = (crossing.host, shape, chunk, ring, dma, *more)
    return _pools.stage(figures, (table, crossing.machine.nodes), make)


_pools = Remembered()


def _without_dma(table: CopyTable, host: Ram) -> CopyTable:
    """The table where nobody waits for an engine, nor for the driver."""
    turn = table.turn if host.turn is None else host.turn
    lead = None if host.lead is None else tuple((n - 1) * host.lead for n in table.workers)
    return table.model_copy(update={"one_slot": 1.0, "late": 0.0, "turn": turn, "lead": lead})


def _copies(
    crossing: Crossing,
    table: CopyTable,
    workers: int,
    chunk: int,
    *,
    capacity: float,
    faults: float,
    calls: float,
) -> Stage:
    """The stage of workers who copy `capacity` bytes/s together, and fault besides.

    Who does not leave that to another thread spends `calls` seconds on each chunk's engine.
    """
    per_byte = workers * (1 / capacity + faults)
    overhead, gather = table.per_chunk, 0.0
    if crossing.pieces:
        count = sum(count for _, count in crossing.pieces)
        gather = count * table.per_piece / packed_size(crossing)

    longest = max(overhead, table.turn * crossing.turns)
    # Only who hands on what others read has to see to a slot; workers go on with their own.
    apart = crossing.before == "file" and native(workers, chunk, crossing.cores)
    # One worker by itself hands its lock to nobody, but to the thread of an emulated engine.
    own = turn_among(workers * int(crossing.turns), overhead, longest, handed=apart)
    if crossing.machine.emulated:
        own = longest

    once = overhead + (0.0 if apart else calls)

    def alone(length: int) -> float:
        return once + length * gather + length * per_byte

    def turn(length: int) -> float:
        return longest + length * gather

    def turns_of_all(length: int) -> float:
        return workers * (own + length * gather)

    def seconds(length: int) -> float:
        if workers == 1:
            return max(alone(length), turns_of_all(length))
        return crowded(alone(length), turns_of_all(length), handed=apart)

    cause: Cause = "page_faults" if faults > 1 / capacity else "host_copy"
    if turns_of_all(chunk) > alone(chunk):
        cause = "issue_overhead"
    resource = f"{crossing.host}{COPY}"
    charges = {resource: 1 / capacity}
    if longest or gather:
        charges[dispatcher(crossing)] = turn(chunk) / chunk
    turns = Turns(alone, turn, table.one_slot, table.late if apart else 0.0)
    return Stage(
        resource,
        "pool",
        seconds,
        charges=charges,
        cause=cause,
        turns=turns,
        waking=table.lead_of(workers),
    )


def turn_among(workers: int, overhead: float, turn: float, *, handed: bool = False) -> float:
    """Seconds of a turn of one of so many workers.

    Each meets all the others, and finds the lock the more often taken the more they are. Where one
    thread hands on what others read (`handed`), it alone takes turns: it meets them, they do not.
    """
    meeting = 1 - 1 / workers
    return overhead + max(0.0, turn - overhead) * (meeting if handed else meeting**MEET)


def crowded(alone: float, turns: float, *, handed: bool = False) -> float:
    """Seconds of a round of several workers: its own copying, and the turns of all at the locks."""
    return together((alone, turns), HANDED if handed else CROWD)


def least_copy(crossing: Crossing, table: CopyTable, ring: int | None, *, dma: bool) -> float:
    """Seconds of all copies by as many workers as are fastest; `ring` is `None` for any ring."""
    per_byte = 1 / table.fastest(ring, beside_dma=dma) + fault_time(crossing)
    return crossing.size * per_byte


def dispatcher(crossing: Crossing) -> str:
    """The interpreter's lock of the process that moves the bytes: one a computer."""
    computer = crossing.host.rpartition(".")[0]
    first = min(
        name
        for name, node in crossing.machine.nodes.items()
        if isinstance(node, Ram) and name.rpartition(".")[0] == computer
    )
    return f"{first}{DISPATCH}"


def ring_of(crossing: Crossing, shape: Shape) -> int:
    """Bytes that the CPU's stores (or loads) go round in: the ring, or the whole buffer."""
    kinds = (crossing.before, crossing.after)
    return shape.ring if any(kind in RINGS for kind in kinds) else max(crossing.size, 1)


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


def has_copies(crossing: Crossing, name: CopyName) -> bool:
    """Whether the host has a measured table of such copies."""
    return name in crossing.ram.copy_rates


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
