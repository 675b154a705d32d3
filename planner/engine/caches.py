"""The CPU's caches, emptied of what a run is about to use.

A plan's bytes come from memory unless it says that they were just written, so between two runs
whatever of them is left in a cache has to go. There is no call for that; other bytes that go
through the caches push them out.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from functools import cache
from pathlib import Path
from typing import Final

import psutil

from planner.engine.memory import HostBuffer, copy_memory
from planner.machine.system import allowed_cpus, last_level_cache

PIECE: Final = 1 << 20
"""Bytes copied by one call: far below the size from which a C library stores around the caches."""
THREADS: Final = 8
"""Threads that copy, at most: each core's own caches hold something, too."""
MORE: Final = 1.5
"""How much more than the last-level cache goes through it: what it evicts next is not the oldest
line in every case."""
UNKNOWN: Final = 64 << 20
"""Bytes that are taken for the cache where the system does not tell: a small server's."""
SHARE: Final = 16
"""Part of the free memory that is used for it at most."""

THROUGH: Final = 4
"""Times its own bytes that go through caches between two runs of a plan: target and source are
compared, and the target is written over."""
VERIFYING: Final = 64 << 20
"""Bytes of it at the most: more than the private caches of all cores that take part hold."""
COPIED: Final = frozenset({"staged", "write_combined", "buffered"})
"""Strategies whose threads need ring, code and tables in their caches, which verifying pushes out.
Runs of 150 to 950 MB behind runs that were not verified took up to 1 ms less than behind such that
were (four H200s, measured 2026-11-30 and 2026-12-01), so all find the same."""

FROM_MEMORY: Final = frozenset({"pageable", "registered_chunks"})
"""Strategies that take another time where the CPU has in a cache what it works on: the bytes, or
what the kernel knows of their pages."""


@cache
def enough() -> int:
    """Bytes that empty the caches of this computer when they go through them."""
    root = Path("/")
    found = last_level_cache(root, allowed_cpus(root))
    return int(MORE * (UNKNOWN if found is None else found.size_bytes * found.count))


def sweep(address: int, size: int, threads: int = THREADS) -> None:
    """Read one half of some memory and write the other, by several threads, piece by piece."""
    half = size // 2
    starts = range(0, half, PIECE)
    workers = max(1, min(threads, len(starts)))

    def part(first: int) -> None:
        for at in starts[first::workers]:
            copy_memory(address + half + at, address + at, min(PIECE, half - at))

    with ThreadPoolExecutor(workers) as pool:
        list(pool.map(part, range(workers)))


def verifying(size: int) -> int:
    """Bytes that go through the caches where a run of so many is verified, as far as it tells."""
    return min(VERIFYING, THROUGH * size)


def sweeper(strategies: Iterable[str], size: int, undo: ExitStack) -> Callable[[], None]:
    """What is done to the caches before a sample of so many bytes by these strategies.

    It empties them where that tells by one of the strategies, else it does to them what verifying
    does, or nothing. `undo` gives the memory for it back.
    """
    used = frozenset(strategies)
    if used.isdisjoint(FROM_MEMORY | COPIED):
        return lambda: None
    broom = Broom(verifying(size) if used.isdisjoint(FROM_MEMORY) else enough())
    undo.callback(broom.close)
    return broom.sweep


class Broom:
    """Memory of its own to empty the caches with, as much as there is room for.

    `size` bytes go through them, all that they hold unless told otherwise.
    """

    def __init__(self, size: int | None = None) -> None:
        room = psutil.virtual_memory().available // SHARE
        self._buffer = HostBuffer(min(enough() if size is None else size, room))
        self._buffer.touch(THREADS)

    def sweep(self) -> None:
        """Empty the caches."""
        sweep(self._buffer.address, self._buffer.size)

    def close(self) -> None:
        """Give the memory back."""
        self._buffer.close()
