"""Memory that is registered stretch by stretch ahead of the copies, within a bound."""

from __future__ import annotations

import contextlib
from collections import deque
from collections.abc import Callable

from planner.engine.backends.base import Backend
from planner.engine.memory import PAGE, round_up


class Registered:
    """What one worker has registered and not given back yet, the oldest first.

    Parameters
    ----------
    room
        Bytes that may be registered at a time, `None` for any. What is in the way of more is given
        back: its copy has arrived, for the bound leaves room for all that are in flight.
    read_only
        Whether the memory may only be read, like a file's mapping.
    told
        Told the bytes of each change, below 0 for those that were given back.

    """

    def __init__(
        self, room: int | None, *, read_only: bool, told: Callable[[int], None] = lambda _size: None
    ) -> None:
        self._room, self._read_only, self._told = room, read_only, told
        self._held: deque[tuple[int, int]] = deque()
        self.now = 0

    def add(self, backend: Backend, address: int, size: int) -> None:
        """Register the pages that some bytes lie in; raises what the backend does."""
        low = address - address % PAGE
        length = round_up(address + size, PAGE) - low
        while self._room is not None and self._held and self.now + length > self._room:
            self._forget_oldest(backend)
        backend.register(low, length, read_only=self._read_only)
        self._held.append((low, length))
        self._count(length)

    def _forget_oldest(self, backend: Backend) -> None:
        low, length = self._held.popleft()
        self._count(-length)
        backend.unregister(low)

    def _count(self, change: int) -> None:
        self.now += change
        self._told(change)

    def give_back(self, backend: Backend) -> int:
        """Give everything back, while no copy is in flight, and return the bytes.

        It goes on where the backend refuses one, and raises that at the end.
        """
        size = self.now
        with contextlib.ExitStack() as last:
            for _ in range(len(self._held)):
                last.callback(self._forget_oldest, backend)
        return size
