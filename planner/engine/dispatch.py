"""One thread that hands chunks on: from reads that the C library's threads do to copy engines.

It goes round the slots of all workers as each of them would go round its own (`ops.fill`): a slot
is read into, its copies are queued, and when they have arrived it is read into again. A worker is
here what reads one chunk at a time; a second slot is asked for while the first is still read, so
that its thread need not be woken in between.

An engine needs some microseconds from one copy to the next, but not within several that it gets in
one call. So chunks that have been read wait until there are a few of them, unless the engine is
about to have nothing left: where it sets the pace several go at a time, where the reads do each
goes at once.
"""

from __future__ import annotations

import os
from collections import deque
from collections.abc import Iterator, Sequence
from typing import Final, Protocol

from planner.engine.aio import Read, Reads
from planner.engine.backends.shared_lane import Gather
from planner.engine.ops import NO_CHUNK, POOL, WAIT
from planner.engine.waits import TICK_S, Stop, Stopped
from planner.native import in_one_call

GLANCE_S: Final = 100e-6
"""Seconds that reads are waited for while copies are under way: what has arrived makes room."""
ENOUGH: Final = 5
"""Copies under way that keep an engine at work meanwhile: five of 2 MiB take 0.2 ms."""


class Member(Protocol):
    """A worker as the dispatcher sees it.

    The operations `first` bring a chunk to the first engine, `further` ones to those behind it.
    """

    first: Sequence[int]
    further: Sequence[int]

    def ask(self, slot: int, chunk: int) -> Read:
        """What is read into the slot."""

    def take(self, slot: int, chunk: int, done: int) -> None:
        """The read came to an end with so many bytes: see to the rest."""

    def hand_on(self, slot: int, chunk: int, code: int) -> None:
        """Do one of the operations: queue a copy of the chunk, say."""

    def sent(self) -> None:
        """All copies of a chunk stand in their queues."""

    def landed(self, slot: int) -> bool:
        """Whether the copy has left the slot."""

    def wait(self, slot: int) -> None:
        """Wait until it has, and until all further copies of the slot have arrived."""


class Dispatcher:
    """Carries out the work of all `members`; see the module.

    Parameters
    ----------
    members
        The workers, by their numbers among the reads.
    depth
        Slots of each.
    numbers
        The queue of chunks.
    reads
        Who reads.
    stop
        Whether to go on.
    gather
        What the copies to the first engine pass through, `None` where each goes by itself.

    Attributes
    ----------
    at
        (code, chunk) of the operation that is carried out, for whoever tells of an error.

    """

    def __init__(
        self,
        members: Sequence[Member],
        depth: int,
        numbers: Iterator[int],
        reads: Reads,
        stop: Stop,
        gather: Gather | None = None,
    ) -> None:
        self._members, self._numbers = members, numbers
        self._reads, self._stop = reads, stop
        self._slots = [(k, slot) for slot in range(depth) for k in range(len(members))]
        self._free = deque(self._slots)
        self._flying: deque[tuple[int, int]] = deque()
        # What has been read and waits for others to go with it.
        self._read: deque[tuple[int, int]] = deque()
        self._gather = gather
        self._at_once = 1 if gather is None else in_one_call(len(members), depth)
        self._held = [[NO_CHUNK] * depth for _ in members]
        self._more = True
        self.at = (POOL, 0)

    def run(self) -> None:
        """Move all chunks; returns with nothing under way.

        Whatever it raises, reads have come to an end; copies may still be under way then. Raises
        `Stopped` if the run is called off.
        """
        reads, flying, stop = self._reads, self._flying, self._stop
        try:
            while True:
                if stop.asked:
                    raise Stopped
                self._begin()
                if self._hand_on() or self._landed():
                    continue
                if reads.flying:
                    reads.wait(GLANCE_S if flying else TICK_S)
                elif flying:
                    self._wait()
                else:
                    break
            for worker, slot in self._slots:
                self.at = (WAIT, self._held[worker][slot])
                self._members[worker].wait(slot)
        finally:
            reads.settle()
            reads.close()

    def _begin(self) -> None:
        """Ask for chunks as long as there are slots."""
        free, held = self._free, self._held
        while free and self._more:
            chunk = next(self._numbers, NO_CHUNK)
            if chunk < 0:
                self._more = False
                return
            self.at = (POOL, chunk)
            worker, slot = free.popleft()
            held[worker][slot] = chunk
            self._reads.begin(worker, slot, self._members[worker].ask(slot, chunk))

    def _hand_on(self) -> bool:
        """See to all chunks that have come, and queue their copies; whether there were any."""
        finished, read = self._reads.finished, self._read
        found = False
        for worker, member in enumerate(self._members):
            while (one := finished(worker)) is not None:
                slot, done = one
                chunk = self._held[worker][slot]
                self.at = (POOL, chunk)
                if done < 0:
                    raise OSError(-done, os.strerror(-done))
                member.take(slot, chunk, done)
                read.append((worker, slot))
                found = True
        while read and (
            len(read) >= self._at_once
            or len(self._flying) <= ENOUGH
            or not self._reads.flying  # nobody comes any more who could go with them
        ):
            self._send([read.popleft() for _ in range(min(len(read), self._at_once))])
        return found

    def _send(self, slots: Sequence[tuple[int, int]]) -> None:
        """Queue the copies of these slots."""
        members, gather = self._members, self._gather
        if gather is not None:
            gather.hold()
        for worker, slot in slots:
            self._do(worker, slot, members[worker].first)
        if gather is not None:
            gather.send()
        for worker, slot in slots:
            self._do(worker, slot, members[worker].further)
            members[worker].sent()
            self._flying.append((worker, slot))

    def _do(self, worker: int, slot: int, codes: Sequence[int]) -> None:
        """Carry out operations on the chunk in the slot."""
        member, chunk = self._members[worker], self._held[worker][slot]
        for code in codes:
            self.at = (code, chunk)
            member.hand_on(slot, chunk, code)

    def _landed(self) -> bool:
        """Make room of what has arrived; whether anything had.

        An engine serves in the order of issue: behind a copy that has not arrived, none has.
        """
        flying, found = self._flying, False
        while flying:
            worker, slot = flying[0]
            self.at = (WAIT, self._held[worker][slot])
            if not self._members[worker].landed(slot):
                return found
            self._free.append(flying.popleft())
            found = True
        return found

    def _wait(self) -> None:
        """Wait for the oldest copy: all there is to wait for."""
        worker, slot = self._flying.popleft()
        self.at = (WAIT, self._held[worker][slot])
        self._members[worker].wait(slot)
        self._free.append((worker, slot))
