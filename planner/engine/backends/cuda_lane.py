"""A lane of the cuda backend: one stream, and an event behind what each slot has queued.

What is called for each chunk keeps the interpreter's lock while it is short, and lets other threads
run where it waits (`cuda_quick`). Nothing synchronises a device.

When a copy has arrived is asked of its event behind the run, not between two chunks: the workers
crowd at the interpreter's lock, and 5 us less under it brought ten workers with 2 MiB chunks from
30-35 to 45 GB/s, sixteen from 28 to 34 (one H200, measured 2026-11-30). So each copy of a run has
an event of its own, as far as `KEPT` goes.
"""

from __future__ import annotations

import contextlib
from collections import deque
from collections.abc import Sequence
from threading import Lock
from time import perf_counter
from typing import Final, Protocol

from planner.engine.backends.base import Engine, Lane, Part, SlotCopy
from planner.engine.backends.cuda_driver import LEGACY, Driver
from planner.engine.backends.cuda_library import DriverError
from planner.engine.backends.cuda_quick import quick_calls

KEPT: Final = 128
"""Events of a lane for each of its slots, and a batch more at the most, from which on a copy's time
is read between two chunks: 10 GB by ten workers with two slots of 4 MiB take 120 for each slot. A
lane has one for each slot at least."""
LEAST_KEPT: Final = 256
"""The same of a lane with few slots."""
MORE: Final = 16
"""Events that are made at a time."""
WITH_NEXT: Final = 0
"""Instead of an event: the copy arrived with the next one that is waited for. Slots that were
queued together are waited for in that order."""


class Owner(Protocol):
    """What a lane needs of its backend."""

    driver: Driver

    def attach(self, gpu: int) -> None:
        """Make the device current in the calling thread."""

    def when(self, gpu: int, event: int) -> float:
        """The instant on the host's clock at which an event of the device happened."""


class CudaLane:
    """A stream with an event for each slot; see `backends.base.Lane`."""

    __slots__ = (
        "_asked",
        "_backend",
        "_driver",
        "_events",
        "_flying",
        "_issued",
        "_kept",
        "_leads",
        "_log",
        "_made",
        "_open",
        "_ptr",
        "_quick",
        "_spare",
        "_spin",
        "_timed",
        "_unread",
        "engine",
    )

    def __init__(
        self, backend: Owner, engine: Engine, slots: int, *, spin: bool, timed: bool = True
    ) -> None:
        backend.attach(engine.gpu)
        self._backend = backend
        self._driver = backend.driver
        self._quick = quick_calls()
        self.engine = engine
        self._log: list[float] = []
        self._spin, self._timed = spin, timed
        self._made: list[int] = []
        self._events: list[int] = []
        self._spare: list[int] = []
        self._unread: deque[tuple[float, int]] = deque()
        self._flying = [False] * slots
        # Whether the copy of a slot arrived with those behind it, of which the last has the event.
        self._leads = [False] * slots
        self._issued = [0.0] * slots
        self._kept = max(LEAST_KEPT, KEPT * slots)
        self._ptr = self._driver.stream()
        self._asked = Lock()
        self._open = True
        try:
            self._events = self._make(slots)
            self._spare = [*self._events]
            # What the driver makes on first use belongs to the setup, not to the first copy.
            for event in self._events:
                self._quick.record(event, self._ptr)
            self._driver.wait_stream(self._ptr)
        except BaseException:
            self.close()
            raise

    def _make(self, count: int) -> list[int]:
        """New events of the lane's device, which is current in this thread."""
        block, timed = not self._spin, self._timed
        for _ in range(count):
            self._made.append(self._quick.event(block=block, timed=timed))
        return self._made[-count:]

    @property
    def log(self) -> list[float]:
        """(issue, end) of each copy that was waited for, in turn."""
        while self._unread:
            event = self._read()
            if event != WITH_NEXT:
                self._spare.append(event)
        return self._log

    def _read(self) -> int:
        """Log the oldest copy that is not logged yet, and those that went with it; their event.

        In a run that is called off the one that has the event may be missing: `WITH_NEXT` then.
        """
        issued, event = self._unread.popleft()
        together = [issued]
        while event == WITH_NEXT and self._unread:
            issued, event = self._unread.popleft()
            together.append(issued)
        if event != WITH_NEXT:
            end = self._backend.when(self.engine.gpu, event)
            for issued in together:
                self._log.append(issued)
                self._log.append(end)
        return event

    def _mark(self, slot: int) -> None:
        """Record the slot's event behind what the stream holds."""
        if self._timed:
            self._events[slot] = self._fresh()
        self._quick.record(self._events[slot], self._ptr)
        self._flying[slot], self._leads[slot] = True, False

    def _fresh(self) -> int:
        """An event whose time nobody is going to ask for any more."""
        if self._spare:
            return self._spare.pop()
        if len(self._made) >= self._kept and self._unread:
            return self._read()
        self._backend.attach(self.engine.gpu)
        self._spare = self._make(MORE)
        return self._spare.pop()

    def copy(self, slot: int, target: int, source: int, length: int) -> None:
        """Queue one copy."""
        self._issued[slot] = perf_counter()
        self._quick.copy(target, source, length, self._ptr)
        self._mark(slot)

    def copy_parts(self, slot: int, parts: Sequence[Part]) -> None:
        """Queue several copies behind one event."""
        self._issued[slot] = perf_counter()
        for target, source, length in parts:
            self._quick.copy(target, source, length, self._ptr)
        self._mark(slot)

    def copy_slots(self, copies: Sequence[SlotCopy]) -> None:
        """Queue several copies as one; the last slot's event is that of all."""
        now, slots = perf_counter(), [copy[0] for copy in copies]
        self._quick.copy_all([copy[1:] for copy in copies], self._ptr)
        for slot in slots:
            self._issued[slot] = now
        if not self._timed:  # each keeps its own event
            for slot in slots:
                self._mark(slot)
            return
        last = slots[-1]
        self._mark(last)
        for slot in slots[:-1]:
            self._events[slot] = self._events[last]
            self._flying[slot] = self._leads[slot] = True

    def copy_now(self, target: int, source: int, length: int) -> None:
        """The driver's copy of ordinary memory.

        Small copies may return before the bytes are there, so the legacy stream that they ran in
        is waited for.
        """
        self._backend.attach(self.engine.gpu)
        start = perf_counter()
        self._driver.copy(target, source, length)
        self._driver.wait_stream(LEGACY)
        log = self.log
        log.append(start)
        log.append(perf_counter())

    def follow(self, slot: int, other: Lane) -> None:
        """Let the stream wait for the same slot of the other lane, on the GPU's side."""
        self._quick.follow(self._ptr, other._events[slot])  # type: ignore[attr-defined] # noqa: SLF001

    def wait(self, slot: int) -> None:
        """Block until the slot has arrived; when it did is read where the log is."""
        if self._flying[slot]:
            self._quick.wait(self._events[slot])
            self._taken(slot)

    def landed(self, slot: int) -> bool:
        """Whether the slot has arrived; then it counts as waited for."""
        if self._flying[slot]:
            if not self._quick.happened(self._events[slot]):
                return False
            self._taken(slot)
        return True

    def _taken(self, slot: int) -> None:
        """The slot has arrived: it is free, and its time may be asked for."""
        self._flying[slot] = False
        if self._timed:
            event = WITH_NEXT if self._leads[slot] else self._events[slot]
            self._unread.append((self._issued[slot], event))

    def arrived(self, slot: int) -> None:
        """Block until the slot's copy has arrived, without taking it off the worker's hands.

        Of a lane that is closed all have.
        """
        with self._asked:
            if self._open:
                self._quick.wait(self._events[slot])

    def settle(self) -> None:
        """Wait for everything, whatever became of it."""
        if not self._open:
            return
        with contextlib.suppress(DriverError):
            self._driver.wait_stream(self._ptr)
        with contextlib.suppress(DriverError):
            self.log  # noqa: B018 - what was waited for stays logged
        self._flying = [False] * len(self._flying)
        self._unread.clear()
        if self._timed:
            self._spare = [*self._made]

    def close(self) -> None:
        """Give stream and events back, once."""
        if not self._open:
            return
        self.settle()
        with self._asked:  # nobody waits for its events any more
            self._open = False
        while self._made:
            self._quick.forget(self._made.pop())
        self._events.clear()
        self._spare.clear()
        with contextlib.suppress(DriverError):  # the context may be gone already
            self._driver.drop_stream(self._ptr)
