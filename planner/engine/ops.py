"""The workers: generators that say what to do next, and never do it themselves.

A worker yields `(code, slot, chunk)`. Threads carry the operations out for real; a virtual clock
plays the same generators with the model's times. Each shape mirrors one of `model/pipeline.py`:

    fill     wait for the slot, take a chunk, pool stage into it, issue its DMA, use the next slot
    drain    keep `depth` DMAs in flight, wait for the oldest, pool stage out of its slot
    relay    DMA into the slot, further DMAs follow it by events, the slot is free after the last
    pass on  fill, and further DMAs follow: the host's slot is free after the first of them already
    single   pool stages on plain memory one after another, or at most `depth` queued DMAs

Every worker ends with nothing in flight.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from typing import Final, Literal

POOL: Final = 0
"""The worker moves the chunk itself: read, copy, write."""
WAIT: Final = 1
"""Wait until the slot's copy on the first engine has arrived; nothing where none is in flight."""
CLEAR: Final = 2
"""The same for the slot's copies on all further engines."""
DMA: Final = 3
"""Queue the chunk on the first copy engine; goes on at once."""
FOLLOW: Final = 4
"""Queue the chunk on the second engine, which takes it when the first is done; goes on at once.
The engines behind it have the codes that follow."""

NO_CHUNK: Final = -1

Kind = Literal["pool", "engine"]
Op = tuple[int, int, int]
Worker = Callable[[Iterator[int], int], Iterator[Op]]
"""Makes a worker from the shared iterator of chunk numbers and its number of slots.

Taking a number is one call into C (`next` of a range iterator) and so needs no lock.
"""


def fill(chunks: Iterator[int], depth: int) -> Iterator[Op]:
    """Pool, then engine.

    It is `pass_on` for one engine, kept apart: to ask for each chunk whether there are more engines
    would cost a tenth of what the generator does (17 of 160 ns).
    """
    slot = 0
    while True:
        yield WAIT, slot, NO_CHUNK
        chunk = next(chunks, NO_CHUNK)
        if chunk < 0:
            break
        yield POOL, slot, chunk
        yield DMA, slot, chunk
        slot = (slot + 1) % depth
    yield from _settle(slot, depth)


def drain(chunks: Iterator[int], depth: int) -> Iterator[Op]:
    """Engine, then pool."""
    flight: list[tuple[int, int]] = []
    turn = 0
    while True:
        while len(flight) < depth:
            chunk = next(chunks, NO_CHUNK)
            if chunk < 0:
                break
            yield DMA, turn % depth, chunk
            flight.append((turn % depth, chunk))
            turn += 1
        if not flight:
            return
        slot, chunk = flight.pop(0)
        yield WAIT, slot, NO_CHUNK
        yield POOL, slot, chunk


def relay(chunks: Iterator[int], depth: int, engines: int = 2) -> Iterator[Op]:
    """Engine, then engine, and so on."""
    codes, slot = tuple(range(DMA, DMA + engines)), 0
    while True:
        yield WAIT, slot, NO_CHUNK
        yield CLEAR, slot, NO_CHUNK
        chunk = next(chunks, NO_CHUNK)
        if chunk < 0:
            break
        for code in codes:
            yield code, slot, chunk
        slot = (slot + 1) % depth
    yield from _settle(slot, depth, further=True)


def pass_on(chunks: Iterator[int], depth: int, engines: int) -> Iterator[Op]:
    """Pool, then engine, then engine, and so on.

    The worker fills the host's slot again while its last chunk is still on its way from GPU to
    GPU; only before the next chunk leaves for them it makes sure that the one before has gone.
    """
    codes, slot = tuple(range(DMA, DMA + engines)), 0
    while True:
        yield WAIT, slot, NO_CHUNK
        chunk = next(chunks, NO_CHUNK)
        if chunk < 0:
            break
        yield POOL, slot, chunk
        yield CLEAR, slot, NO_CHUNK
        for code in codes:
            yield code, slot, chunk
        slot = (slot + 1) % depth
    yield from _settle(slot, depth, further=True)


def alone(chunks: Iterator[int], _depth: int) -> Iterator[Op]:
    """One pool stage."""
    for chunk in chunks:
        yield POOL, 0, chunk


def queued(chunks: Iterator[int], depth: int) -> Iterator[Op]:
    """One engine, with at most `depth` copies outstanding."""
    slot = 0
    while True:
        yield WAIT, slot, NO_CHUNK
        chunk = next(chunks, NO_CHUNK)
        if chunk < 0:
            break
        yield DMA, slot, chunk
        slot = (slot + 1) % depth
    yield from _settle(slot, depth)


def _settle(slot: int, depth: int, *, further: bool = False) -> Iterator[Op]:
    """Wait for all slots, the oldest first."""
    for turn in range(depth):
        yield WAIT, (slot + turn) % depth, NO_CHUNK
        if further:
            yield CLEAR, (slot + turn) % depth, NO_CHUNK


SHAPES: Final[dict[tuple[Kind, ...], Worker]] = {
    ("pool",): alone,
    ("engine",): queued,
    ("pool", "engine"): fill,
    ("engine", "pool"): drain,
    ("engine", "engine"): relay,
}
"""The worker for one or two kinds of stages that a byte meets, in order."""


def worker_of(kinds: tuple[Kind, ...]) -> Worker | None:
    """The worker for any line of stages that there is one for, else `None`."""
    if kinds in SHAPES:
        return SHAPES[kinds]
    if len(kinds) < 3 or "pool" in kinds[1:]:
        return None
    if kinds[0] == "pool":
        return partial(pass_on, engines=len(kinds) - 1)
    return partial(relay, engines=len(kinds))
