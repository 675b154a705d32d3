"""Memory that is registered chunk by chunk, ahead of the copies out of it.

A worker registers a chunk and queues its copy, and registers the next one meanwhile: it goes round
its slots as one that fills a ring does, only that there is no ring. So it takes its chunks from the
same queue as such workers, beside them if need be. One is enough: the driver takes a lock. A
second thread helps by bringing the pages of a file's mapping in before they are registered, where
that was found to be faster.

A copy must lie within one registration, and two registrations must not share a page; chunks are
therefore cut where pages end. Giving a registration back on the way halves the pace (23 GB/s where
45 were reached, one thread on an H200 machine, measured 2026-11-29), so that waits until the end,
unless less may be pinned than the flow has.
"""

from __future__ import annotations

from planner.engine.backends.base import Engine
from planner.engine.memory import PAGE, round_up
from planner.engine.places import MappedPlace
from planner.engine.populate import Populator
from planner.engine.registered import Registered
from planner.engine.strategies.base import Address, Bound, Hands, Stage, logged, needed
from planner.engine.strategies.host_gpu import engine
from planner.errors import InfeasibleError
from planner.units import format_size


class Ahead:
    """What one worker has registered and not given back yet, the oldest first."""

    def __init__(self, bound: Bound, source: Address, *, alone: bool = True) -> None:
        self._backend, self._source = bound.backend, source
        self._sizes, room = bound.chunks.sizes, bound.room
        mapped = isinstance(bound.source, MappedPlace)
        self._held = Registered(room, read_only=mapped, told=bound.tally.add)
        self._helper: Populator | None = None
        if mapped and bound.terms.helped and alone:
            # The first chunk is registered at once.
            later = range(1, len(self._sizes))
            self._helper = Populator([(source(0, k), self._sizes[k]) for k in later])
        slots = min(bound.depth, len(self._sizes))
        chunk = round_up(max(self._sizes, default=0), PAGE)
        # All slots but the one that is filled may have a copy in flight, out of registered pages.
        if room is not None and slots * chunk > room:
            raise InfeasibleError(
                f"{slots} chunks of {format_size(chunk)} registered at a time are more than the "
                f"{format_size(max(0, room))} that may be pinned",
                hint="take a smaller chunk or depth, fewer workers, or a larger budget",
            )

    def register(self, slot: int, chunk: int) -> None:
        """Register the pages of a chunk, and give back what is in the way of the budget."""
        if self._helper is not None:
            self._helper.start()
        self._held.add(self._backend, self._source(slot, chunk), self._sizes[chunk])

    def give_back(self) -> int:
        """Give everything back, while no copy is in flight; returns the bytes."""
        if self._helper is not None:
            self._helper.end()
        return self._held.give_back(self._backend)


def _register(bound: Bound, hands: Hands, before: Address | None, _after: Address | None) -> None:
    ahead = Ahead(bound, needed(before), alone=hands.number == 0)
    hands.ahead = ahead
    # The copy counts the bytes, not the registration: nothing has moved yet.
    hands.pool = logged(ahead.register, hands, bound.chunks.sizes)


REGISTER = Stage("pool", _register, stays=True)
"""The bytes stay where they are; the next stage takes them from there."""


def registered_chunks(gpu: int) -> tuple[Stage, ...]:
    """Host memory, or a file's mapping, to a GPU."""
    return REGISTER, engine(Engine("h2d", gpu))
