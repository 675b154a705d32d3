"""Host buffers that are kept from run to run of a benchmark."""

from __future__ import annotations

from planner.engine.memory import HostBuffer


class Pool:
    """Host buffers that come back instead of being unmapped.

    A run makes its buffers before anything is timed; touching fresh memory would take most of this
    benchmark's time, and no part of what it measures.
    """

    def __init__(self) -> None:
        self.free: dict[tuple[int, int | None, bool], list[Kept]] = {}

    def take(self, size: int, *, lead: int | None = None, huge: bool = False) -> HostBuffer:
        """A buffer as `HostBuffer` makes it, perhaps one that was used before."""
        waiting = self.free.setdefault((size, lead, huge), [])
        if not waiting:
            return Kept(size, waiting, lead=lead, huge=huge)
        found = waiting.pop()
        found.pinned = False
        return found

    def close(self) -> None:
        """Unmap all."""
        for waiting in self.free.values():
            for buffer in waiting:
                buffer.unmap()
        self.free.clear()


class Kept(HostBuffer):
    """A buffer of a pool."""

    __slots__ = ("_home", "_touched")

    def __init__(
        self, size: int, home: list[Kept], *, lead: int | None = None, huge: bool = False
    ) -> None:
        super().__init__(size, lead=lead, huge=huge)
        self._home, self._touched = home, False

    def touch(self, threads: int = 1) -> None:
        """Once is enough."""
        if not self._touched:
            super().touch(threads)
        self._touched = True

    def close(self) -> None:
        """Back to the pool."""
        self._home.append(self)

    def unmap(self) -> None:
        """Give the memory back."""
        super().close()
