"""A worker's slots of a lane that one thread uses for all workers.

One stream takes chunks faster than one for each worker: by chunks of 2 MiB of sixteen workers 48
GB/s went to a GPU, and 41 over sixteen streams; by 6 MiB of ten 53 and 52 (one H200, measured
2026-11-30).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import cast

from planner.engine.backends.base import Lane, Part, SlotCopy


class Gather:
    """Copies over a lane that is shared: each goes at once, or is held back until all go together.

    All calls come from the one thread that uses the lane.
    """

    __slots__ = ("_copies", "_holds", "_lane")

    def __init__(self) -> None:
        self._lane: Lane | None = None
        self._copies: list[SlotCopy] = []
        self._holds = False

    def hold(self) -> None:
        """Hold back what comes from now on."""
        self._holds = True
        self._copies.clear()

    def copy(self, lane: Lane, copy: SlotCopy) -> None:
        """Queue a copy on the lane, or hold it back."""
        if self._holds:
            self._lane = lane
            self._copies.append(copy)
        else:
            lane.copy(*copy)

    def send(self) -> None:
        """Queue what was held back, and hold nothing back any more."""
        copies, self._holds = self._copies, False
        if self._lane is None or not copies:
            return
        if len(copies) == 1:
            self._lane.copy(*copies[0])
        else:
            self._lane.copy_slots(copies)
        copies.clear()


class SharedLane:
    """Slots of the lane `inner` from number `first` on; see `backends.base.Lane`.

    One of those that share it `logs`, for all; single copies pass through what they `gather` in.
    """

    __slots__ = ("_first", "_logs", "engine", "gather", "inner")

    def __init__(self, inner: Lane, first: int, gather: Gather, *, logs: bool) -> None:
        self.inner, self._first, self._logs = inner, first, logs
        self.gather = gather
        self.engine = inner.engine

    @property
    def log(self) -> list[float]:
        """The lane's own, or nothing where another one logs."""
        return self.inner.log if self._logs else []

    def copy(self, slot: int, target: int, source: int, length: int) -> None:
        """Queue one copy."""
        self.gather.copy(self.inner, (self._first + slot, target, source, length))

    def copy_slots(self, copies: Sequence[SlotCopy]) -> None:
        """Queue copies of several slots."""
        first = self._first
        self.inner.copy_slots([(first + slot, to, at, size) for slot, to, at, size in copies])

    def copy_parts(self, slot: int, parts: Sequence[Part]) -> None:
        """Queue several copies."""
        self.inner.copy_parts(self._first + slot, parts)

    def copy_now(self, target: int, source: int, length: int) -> None:
        """The driver's blocking copy."""
        self.inner.copy_now(target, source, length)

    def follow(self, slot: int, other: Lane) -> None:
        """Behind the same slot of a lane that is shared in the same way."""
        self.inner.follow(self._first + slot, cast("SharedLane", other).inner)

    def wait(self, slot: int) -> None:
        """Block until the slot has arrived."""
        self.inner.wait(self._first + slot)

    def landed(self, slot: int) -> bool:
        """Whether it has."""
        return self.inner.landed(self._first + slot)

    def arrived(self, slot: int) -> None:
        """Block until it has, without taking it off the worker's hands."""
        self.inner.arrived(self._first + slot)

    def settle(self) -> None:
        """Wait for all slots, those of others too."""
        self.inner.settle()

    def close(self) -> None:
        """Give the lane back; the first who does closes it for all."""
        self.inner.close()
