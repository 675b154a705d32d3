"""A part's workers for the dispatcher: their reads by the C library's threads, and their copies."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from time import perf_counter

from planner.engine import aio
from planner.engine.aio import Read, Reads
from planner.engine.backends.shared_lane import SharedLane
from planner.engine.dispatch import Dispatcher
from planner.engine.ops import CLEAR, DMA, NO_CHUNK, WAIT
from planner.engine.part import Part
from planner.engine.strategies.base import Chunks, Hands
from planner.engine.terms import Terms
from planner.engine.waits import Stop
from planner.engine.worker import operations_of
from planner.native import native


def suits(part: Part, terms: Terms) -> bool:
    """Whether a part's reads are handed to the C library's threads.

    Whatever reads of a file into a ring for copy engines, by enough workers, and has a core left
    for who hands on. Where a rate is capped a worker sleeps between two chunks, and a profiler's
    ranges and the cores beside a GPU belong to threads of our own: these read for themselves.
    """
    first, *others = part.route.stages
    chunk, cores = part.route.hops[0].chunk_bytes, len(os.sched_getaffinity(0))
    return (
        native(part.workers, chunk, cores, terms.cores)
        and part.route.has_ring
        and part.route.cores is None
        and not terms.buckets
        and terms.marks is None
        and first.reads
        and bool(others)
        and all(stage.kind == "engine" for stage in others)
        and aio.usable()
    )


def dispatcher(part: Part, numbers: Iterator[int], stop: Stop) -> Dispatcher:
    """Who does the part's work: the workers' hands are equipped already."""
    members = [Reader(hands, part.chunks) for hands in part.hands]
    lane = part.hands[0].lanes[0]
    gather = lane.gather if isinstance(lane, SharedLane) else None
    return Dispatcher(members, part.depth, numbers, Reads(len(members), part.depth), stop, gather)


class Reader:
    """A worker whose chunks are read by a thread of the C library; see `dispatch.Member`.

    Its log has a chunk from when it could begin, behind the worker's last one, until it was seen to
    be there.
    """

    __slots__ = (
        "_begun",
        "_finish",
        "_hands",
        "_operations",
        "_seen",
        "_sizes",
        "ask",
        "first",
        "further",
    )

    def __init__(self, hands: Hands, chunks: Chunks) -> None:
        if hands.asks is None:
            raise TypeError("the worker's first stage does not read a file into its slots")
        self._hands, self._sizes = hands, chunks.sizes
        self._finish = hands.asks.finish
        self._operations = operations_of(hands)
        # Before the first the slot's last chunk has left for the others.
        self.further: Sequence[int] = range(DMA + 1, len(self._operations))
        self.first: Sequence[int] = [CLEAR, DMA] if self.further else [DMA]
        self._begun: list[float] = [0.0] * len(hands.at)
        self._seen = 0.0
        asked, begun = hands.asks.ask, self._begun

        def ask(slot: int, chunk: int) -> Read:
            begun[slot] = perf_counter()
            return asked(slot, chunk)

        self.ask = ask

    def take(self, slot: int, chunk: int, done: int) -> None:
        """See to what the read has left, and log it."""
        self._finish(slot, chunk, done)
        hands, now = self._hands, perf_counter()
        hands.log.append(max(self._begun[slot], self._seen))
        hands.log.append(now)
        hands.moved += self._sizes[chunk]
        self._seen = now

    def hand_on(self, slot: int, chunk: int, code: int) -> None:
        """Queue the chunk on one engine."""
        self._operations[code](slot, chunk)

    def sent(self) -> None:
        """Nobody waits for that here."""

    def landed(self, slot: int) -> bool:
        """Whether the first engine has taken the chunk out of the slot."""
        return self._hands.lanes[0].landed(slot)

    def wait(self, slot: int) -> None:
        """Wait for all engines."""
        self._operations[WAIT](slot, NO_CHUNK)
        self._operations[CLEAR](slot, NO_CHUNK)
