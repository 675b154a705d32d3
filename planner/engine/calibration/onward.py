"""What a reader of the disk has brought goes on to a GPU, as in a load: its slots are used.

A ring that nobody reads out of stays in the caches of the cores that write it, and a virtual disk
brings more into it than into one that a copy engine takes from: 2.4 GB/s instead of 1.7 to 1.9 by
one reader with requests of 1 MiB, 2.6 to 3.0 instead of 1.8 to 2.1 by fourteen to twenty with 256
KiB (two machines with H200s, measured 2026-11-30).
"""

from __future__ import annotations

from planner.engine.backends.base import Backend, Engine, Lane
from planner.engine.calibration.device import Memory


class Onward:
    """Lanes into the memory of one GPU, one for each reader; `slots` of it are under way at most.

    What arrives there has no meaning.
    """

    def __init__(self, backend: Backend, target: Memory, slots: int) -> None:
        self._backend, self._target, self._slots = backend, target, slots
        self._lanes: list[Lane] = []

    def register(self, address: int, size: int) -> None:
        """Let copy engines reach the memory that is read into."""
        self._backend.register(address, size)

    def unregister(self, address: int) -> None:
        """Give it back."""
        self._backend.unregister(address)

    def lanes(self, readers: int) -> list[Lane]:
        """Those of so many readers, made when they are first asked for."""
        gpu = self._target.gpu
        self._backend.attach(gpu)
        while len(self._lanes) < readers:
            self._lanes.append(self._backend.lane(Engine("h2d", gpu), self._slots))
        return self._lanes[:readers]

    def attach(self) -> None:
        """Let the calling thread queue copies."""
        self._backend.attach(self._target.gpu)

    def place(self, at: int, length: int) -> int:
        """The address that `length` bytes from the ring's offset `at` go to."""
        return self._target.address + at % max(1, self._target.size - length + 1)

    def settle(self) -> None:
        """Nothing is in flight, and nothing is kept of what was."""
        for lane in self._lanes:
            lane.settle()
            lane.log.clear()

    def close(self) -> None:
        """Give the lanes back."""
        for lane in self._lanes:
            lane.close()
        self._lanes.clear()
