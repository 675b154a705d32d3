"""Workers who copy between plain memory, or the page cache, and a ring, and meet at locks."""

from __future__ import annotations

from dataclasses import dataclass, replace
from math import log2
from typing import Final

from planner.machine.schema import CopyName, Ram
from planner.machine.tables import CopyTable
from planner.model.one_slot import together
from planner.model.stage import Stage, Turns
from planner.model.strategies.base import RINGS, Crossing, Shape
from planner.model.strategies.faults import fault_charges, fault_time
from planner.model.strategies.remembered import Remembered
from planner.model.strategies.servers import packed_size
from planner.native import native
from planner.results import Cause

CROWD: Final = 4.0
"""Power in which a chunk's copying and the turns of all workers at the locks add up. A lock that is
taken for most of the time is waited for though it could serve everybody. Runs with chunks of 4 MiB
come out 3 to 7 % too slow by the second power (four H200s, measured 2026-11-30 and 2026-12-01)."""
BRIEF_CHUNK: Final = 256 << 10
LONG_CHUNK: Final = 1 << 20
"""Bytes of a chunk up to which it takes a share of a turn beside DMA (`brief` of the table), and
from which on all of it, on a line in the chunk's logarithm between. Who copies for 0.1 ms lets
others fall asleep at the lock, and each has to be woken: 41 to 60 us a chunk of 256 or 512 KiB by
six and eight workers, 72 to 76 by 1 MiB and 73 to 79 by 2 MiB. With one turn for all, runs by 1 and
2 MiB were 1.05 to 1.24 of predicted, those by 256 KiB 0.78 to 0.91 (four H200s, measured 2026-11-30
and 2026-12-01)."""
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


@dataclass(frozen=True, slots=True)
class Locks:
    """What a chunk costs at the locks: the longest `turn`, and a worker's `calls` for its engine.

    Where one thread hands all chunks on (`apart`), it makes the calls, as a part of its turn.
    """

    turn: float
    calls: float = 0.0
    apart: bool = False


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
    file = crossing.before == "file"

    def make() -> Stage:
        capacity = table.rate(shape.workers, ring, beside_dma=dma)
        own = table if dma else _without_dma(table, crossing.ram)
        # Without an engine there is nobody to hand a chunk on to.
        apart = dma and file and native(shape.workers, chunk, crossing.cores)
        locks = Locks(own.turn * crossing.turns, apart=apart)
        if dma and not apart and not crossing.machine.emulated:
            locks = Locks(locks.turn * wakeful(chunk, own.brief), CALLS * crossing.ram.issue)
        made = _copies(crossing, own, shape, locks, capacity=capacity, faults=faults)
        if dma:
            made = replace(made, several=table.several(shape.workers))
        return replace(made, charges={**made.charges, **reading}) if reading else made

    if crossing.pieces:
        return make()
    emulated = crossing.machine.emulated
    shared = tuple(reading.items())
    more = (faults, shared, emulated, crossing.turns, crossing.cores, file)
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
    shape: Shape,
    locks: Locks,
    *,
    capacity: float,
    faults: float,
) -> Stage:
    """The stage of workers who copy `capacity` bytes/s together, and fault besides."""
    workers, chunk = shape.workers, min(shape.chunk, max(1, crossing.size))
    per_byte = workers * (1 / capacity + faults)
    overhead, gather = table.per_chunk, _gathering(crossing, table)
    longest, apart = max(overhead, locks.turn), locks.apart
    # One worker by itself hands its lock to nobody, but to the thread of an emulated engine.
    own = turn_among(workers, overhead, longest, handed=apart)
    if crossing.machine.emulated:
        own = longest

    def alone(length: int) -> float:
        return overhead + locks.calls + length * gather + length * per_byte

    def turn(length: int) -> float:
        return own + length * gather

    # With one slot nothing makes up for a turn that comes late: the longest counts.
    def among_all(length: int) -> float:
        return longest + length * gather

    def turns_of_all(length: int) -> float:
        return workers * turn(length)

    def seconds(length: int) -> float:
        if workers == 1:
            return max(alone(length), turns_of_all(length))
        return crowded(alone(length), turns_of_all(length))

    cause: Cause = "page_faults" if faults > 1 / capacity else "host_copy"
    if turns_of_all(chunk) > alone(chunk):
        cause = "issue_overhead"
    resource = f"{crossing.host}{COPY}"
    charges = {resource: 1 / capacity}
    if own or gather:
        charges[dispatcher(crossing)] = turn(chunk) / chunk
    # Only who hands on what others read has to see to a slot; workers go on with their own.
    turns = Turns(alone, among_all, table.one_slot, table.late if apart else 0.0)
    return Stage(
        resource,
        "pool",
        seconds,
        charges=charges,
        cause=cause,
        turns=turns,
        waking=table.lead_of(workers),
    )


def _gathering(crossing: Crossing, table: CopyTable) -> float:
    """Seconds of the interpreter for each byte that lies scattered."""
    count = sum(count for _, count in crossing.pieces)
    return count * table.per_piece / packed_size(crossing) if count else 0.0


def turn_among(workers: int, overhead: float, turn: float, *, handed: bool = False) -> float:
    """Seconds of a turn of one of so many workers.

    `turn` is that of one who meets all others.
    """
    return overhead + max(0.0, turn - overhead) * meeting(workers, handed=handed)


def meeting(workers: int, *, handed: bool = False) -> float:
    """The share of the longest turn that one of so many workers takes.

    Each meets all the others, and finds the lock the more often taken the more they are. Where one
    thread hands on what others read (`handed`), it alone takes turns: it meets them, they do not.
    """
    others = 1 - 1 / workers
    return others if handed else others**MEET


def crowded(alone: float, turns: float) -> float:
    """Seconds of a round of several workers: its own copying, and the turns of all at the locks."""
    return together((alone, turns), CROWD)


def wakeful(chunk: int, brief: float) -> float:
    """The share of a turn that chunks of so many bytes take beside DMA; the least is `brief`.

    >>> wakeful(256 << 10, 0.6), round(wakeful(512 << 10, 0.6), 3), wakeful(4 << 20, 0.6)
    (0.6, 0.8, 1.0)
    """
    longer = log2(max(chunk, BRIEF_CHUNK) / BRIEF_CHUNK) / log2(LONG_CHUNK / BRIEF_CHUNK)
    return brief + (1 - brief) * min(1.0, longer)


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


def has_copies(crossing: Crossing, name: CopyName) -> bool:
    """Whether the host has a measured table of such copies."""
    return name in crossing.ram.copy_rates
