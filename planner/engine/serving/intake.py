"""Files into a GPU with reads by the C library's threads: one thread of ours hands chunks on."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from typing import Final

from planner.engine import aio
from planner.engine.aio import Read, Reads
from planner.engine.backends.base import Lane
from planner.engine.backends.shared_lane import Gather, SharedLane
from planner.engine.dispatch import Dispatcher
from planner.engine.ops import DMA
from planner.engine.serving.ends import FileEnd, MemoryEnd
from planner.engine.serving.job import Hand, Job
from planner.engine.serving.parts import Part, runs_of
from planner.native import native

THREADS: Final = 2
"""Threads of the pool in such a job: one prepares what the call allocates, one hands chunks on."""


def suits(job: Job) -> bool:
    """Whether all of a job's chunks are single reads into its slots, by enough workers."""
    shape = job.shape
    return (
        job.way == "in"
        and native(shape.workers, shape.chunk_bytes, len(os.sched_getaffinity(0)), job.cores)
        and all(len(r) == 1 and isinstance(r[0].source, FileEnd) for r in runs_of(job.chunks))
        and aio.usable()
    )


def dispatcher(
    job: Job,
    hands: Sequence[Hand],
    reach: Callable[[], Lane],
    register: Callable[[Hand, int], None],
) -> Dispatcher:
    """Who does the job.

    `reach` gives the lane of all slots, a worker's behind those of the worker before, and waits
    until there is one; `register` makes a slot reachable that has been touched.
    """
    gather = Gather()
    members = [Taker(job, hand, reach, register, gather) for hand in hands]
    depth = job.shape.depth
    numbers = iter(range(len(job.chunks)))
    return Dispatcher(members, depth, numbers, Reads(len(members), depth), job.stop, gather)


class Taker:
    """A worker of the pool; see `dispatch.Member`."""

    def __init__(
        self,
        job: Job,
        hand: Hand,
        reach: Callable[[], Lane],
        register: Callable[[Hand, int], None],
        gather: Gather,
    ) -> None:
        self.first: Sequence[int] = (DMA,)
        self.further: Sequence[int] = ()
        self._job, self._hand, self._reach, self._register = job, hand, reach, register
        self._gather = gather
        self._lane: SharedLane | None = None
        self._asked: dict[int, tuple[Part, Read, int]] = {}

    def ask(self, slot: int, chunk: int) -> Read:
        """The chunk's range of its file."""
        part = self._job.chunks[chunk][0]
        read, lead = _file(part.source).ask(part.start, part.size, self._hand.addresses[slot])
        self._asked[slot] = part, read, lead
        return read

    def take(self, slot: int, _chunk: int, done: int) -> None:
        """See to what the read has left, and count it."""
        (source, _, _, _, size), read, lead = self._asked[slot]
        hand, file = self._hand, _file(source)
        if done < lead + size:
            file.finish(read, hand.views[slot], lead + size, done)
        if file.is_direct(read):
            hand.direct += size
        else:
            hand.buffered += size
        hand.moved += size

    def hand_on(self, slot: int, _chunk: int, _code: int) -> None:
        """Queue the copy to the GPU."""
        lane, hand = self._lane, self._hand
        if lane is None:
            first = hand.number * self._job.shape.depth
            lane = self._lane = SharedLane(self._reach(), first, self._gather, logs=False)
        if not hand.registered[slot]:
            self._register(hand, slot)
        (_, _, target, to, size), _, lead = self._asked[slot]
        if not isinstance(target, MemoryEnd):
            raise TypeError("a copy engine takes what was read to memory")
        lane.copy(slot, target.address + to, hand.addresses[slot] + lead, size)

    def sent(self) -> None:
        """Count a chunk that stands in the engine's queue."""
        self._job.note_issue()

    def landed(self, slot: int) -> bool:
        """Whether the slot is free again."""
        return self._lane is None or self._lane.landed(slot)

    def wait(self, slot: int) -> None:
        """Wait until it is."""
        if self._lane is not None:
            self._lane.wait(slot)


def _file(end: object) -> FileEnd:
    if not isinstance(end, FileEnd):
        raise TypeError("only files are read by the C library's threads")
    return end
