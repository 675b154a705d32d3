"""Host memory: plain buffers, rings of slots, and files mapped in place."""

from __future__ import annotations

import contextlib
import ctypes
import mmap
import os
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Final

import numpy as np
from numpy.typing import NDArray

from planner.errors import ExecutionError, InfeasibleError
from planner.units import format_size

PAGE: Final = mmap.PAGESIZE
HUGE: Final = 2 << 20
"""Bytes that a huge page has where ordinary ones have 4 KiB; elsewhere just a round number."""

copy_memory: Final[Callable[[int, int, int], object]] = ctypes.memmove
"""`copy_memory(target, source, length)` between addresses; the interpreter is free meanwhile."""

_held_copy = ctypes.PyDLL(None).memmove
_held_copy.argtypes = (ctypes.c_void_p, ctypes.c_void_p, ctypes.c_size_t)
_held_copy.restype = None
copy_held: Final[Callable[[int, int, int], object]] = _held_copy
"""The same without letting other threads run: for copies that are over before one could."""


def round_up(size: int, unit: int) -> int:
    """The smallest multiple of `unit` that is at least `size`."""
    return -(-size // unit) * unit


class HostBuffer:
    """Anonymous private memory of exactly `size` bytes, page aligned unless a lead is asked for.

    Parameters
    ----------
    size
        Bytes.
    lead
        If given, the address is so many bytes behind a page's start (O_DIRECT wants the address in
        memory and the offset in the file to agree in their low bits), and there is a spare page at
        either end, since whole blocks are read.
    huge
        Whether the kernel is asked to back the memory with huge pages, which it does for whole ones
        only: so the memory begins at one's start and has its last one to itself. A disk that reads
        into memory which lies together is told so by few entries, where scattered pages take one
        each: 2.3 GB/s instead of 0.9 around the page cache of a virtual disk (requests of 1 and
        4 MiB by two readers, measured 2026-11-29).

    """

    __slots__ = ("_map", "_skip", "address", "array", "managed", "pinned", "size", "view")

    def __init__(self, size: int, *, lead: int | None = None, huge: bool = False) -> None:
        room = max(size, 1) if lead is None else round_up(size + lead, PAGE) + 2 * PAGE
        skip = 0 if lead is None else PAGE + lead
        if huge:
            room = round_up(room, HUGE) + HUGE  # what is never touched takes no memory
        self.size = size
        self.pinned = False
        self.managed = False
        try:
            self._map = mmap.mmap(-1, room, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
        except (OSError, OverflowError) as error:
            raise InfeasibleError(
                f"the system gives no {format_size(size)} of memory: {error}",
                hint="take a smaller size, or raise the limit (ulimit -v)",
            ) from error
        if huge:
            skip += -int(np.frombuffer(self._map, np.uint8).ctypes.data) % HUGE
            with contextlib.suppress(OSError):  # a kernel without them says EINVAL
                self._map.madvise(mmap.MADV_HUGEPAGE)
        self._skip = skip
        self.view = memoryview(self._map)[skip : skip + size]
        self.array: NDArray[np.uint8] = np.frombuffer(self._map, np.uint8)[skip : skip + size]
        self.address = int(self.array.ctypes.data)

    def touch(self, threads: int = 1) -> None:
        """Write to every page, so that the kernel gives the memory now; keeps nothing."""
        self._each(lambda low, high: self.array[low:high:PAGE].fill(0), threads)

    def fill(self, value: int, threads: int = 1) -> None:
        """Set every byte."""
        self._each(lambda low, high: self.array[low:high].fill(value), threads)

    def put(self, offset: int, found: NDArray[np.uint8]) -> None:
        """Write bytes from an offset on."""
        self.array[offset : offset + found.size] = found

    def _each(self, do: Callable[[int, int], None], threads: int) -> None:
        """Let each thread do a share of whole pages, the range from one byte to another."""
        share = max(PAGE, round_up(-(-self.size // threads), PAGE))
        starts = range(0, self.size, share)
        if len(starts) <= 1:
            do(0, self.size)
            return
        with ThreadPoolExecutor(threads) as pool:
            list(pool.map(lambda low: do(low, min(low + share, self.size)), starts))

    def around(self, start: int, length: int) -> memoryview:
        """`length` bytes from `start` on, which may lie in the spare page at either end."""
        at = self._skip + start
        return memoryview(self._map)[at : at + length]

    def close(self) -> None:
        """Give the memory back."""
        self.view.release()
        self.array = np.empty(0, np.uint8)
        close_map(self._map)


def memory_at(address: int, size: int) -> memoryview:
    """The bytes at an address; whoever asks sees to it that they stay there."""
    return memoryview((ctypes.c_ubyte * size).from_address(address)).cast("B")


class LentBuffer(HostBuffer):
    """Host memory that somebody else allocated, the driver say, and takes back at `close`.

    Parameters
    ----------
    address, size
        Where it lies and how many bytes it has.
    give_back
        Called once, at the end.

    """

    __slots__ = ("_give_back",)

    def __init__(self, address: int, size: int, give_back: Callable[[], None]) -> None:
        self.address, self.size = address, size
        self.pinned = False
        self.managed = False
        self._skip = 0
        self.view = memory_at(address, size)
        self.array = np.frombuffer(self.view, np.uint8)
        self._give_back: Callable[[], None] | None = give_back

    def around(self, start: int, length: int) -> memoryview:
        """A part of it; nothing lies before or behind."""
        return self.view[start : start + length]

    def close(self) -> None:
        """Give it back; slices of it that somebody still holds must not be used any more."""
        give_back, self._give_back = self._give_back, None
        if give_back is not None:
            self.view = memoryview(b"")
            self.array = np.empty(0, np.uint8)
            give_back()


def close_map(mapping: mmap.mmap) -> None:
    """Unmap; where a view is still held (by a traceback, say) its end unmaps."""
    try:
        mapping.close()
    except BufferError:
        return


def ring_memory(size: int) -> HostBuffer:
    """Ordinary memory for a ring: disks read into it and engines copy out of it."""
    return HostBuffer(size, huge=True)


class Ring:
    """Workers x depth slots of `slot` bytes in one buffer; each worker owns its row of slots.

    `memory` makes the buffer: ordinary memory unless another kind is asked for. Its huge pages made
    no difference to touching or registering on the guests that were measured (1 GiB, 2026-11-29).
    """

    __slots__ = ("buffer", "depth", "slot", "stride", "workers")

    def __init__(
        self,
        workers: int,
        depth: int,
        slot: int,
        memory: Callable[[int], HostBuffer] = ring_memory,
    ) -> None:
        self.workers, self.depth, self.slot = workers, depth, slot
        self.stride = round_up(max(slot, 1), PAGE)
        self.buffer = memory(workers * depth * self.stride)

    @property
    def size(self) -> int:
        """Bytes, page rounding included."""
        return self.buffer.size

    def _start(self, worker: int, slot: int) -> int:
        return (worker * self.depth + slot) * self.stride

    def addresses(self, worker: int) -> list[int]:
        """Address of each slot of a worker."""
        return [self.buffer.address + self._start(worker, s) for s in range(self.depth)]

    def views(self, worker: int) -> list[memoryview]:
        """Each slot of a worker as writable bytes."""
        starts = (self._start(worker, s) for s in range(self.depth))
        return [self.buffer.view[at : at + self.slot] for at in starts]

    def touch(self, worker: int) -> None:
        """Touch the worker's own slots: by the thread that will use them, so they are near it."""
        start, end = self._start(worker, 0), self._start(worker + 1, 0)
        self.buffer.array[start:end:PAGE] = 0

    def close(self) -> None:
        """Give the memory back."""
        self.buffer.close()


@dataclass(frozen=True, slots=True)
class Region:
    """A piece of memory that may be registered: address and bytes."""

    address: int
    size: int


class Mapping:
    """The range of a file mapped for reading; `address` is where its first wanted byte lies.

    A mapping starts at a page of the file, so the region to register may start before `address`.
    """

    __slots__ = ("_array", "_map", "address", "region", "size")

    def __init__(self, path: str, offset: int, size: int) -> None:
        start = offset - offset % PAGE
        length = offset + size - start
        fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
        try:
            self._map = mmap.mmap(
                fd, length, flags=mmap.MAP_SHARED, prot=mmap.PROT_READ, offset=start
            )
        except (OSError, ValueError) as error:  # the latter where it has become shorter
            raise ExecutionError(f"{path} cannot be mapped: {error}") from error
        finally:
            os.close(fd)
        self._array = np.frombuffer(self._map, np.uint8)
        base = int(self._array.ctypes.data)
        self.region = Region(base, length)
        self.address = base + offset - start
        self.size = size

    def touch(self) -> None:
        """Bring every page into the mapping's page table."""
        int(self._array[::PAGE].max())

    def forget(self) -> None:
        """Take every page out of the mapping's page table; it stays in the page cache."""
        self._map.madvise(mmap.MADV_DONTNEED)

    def close(self) -> None:
        """Unmap."""
        self._array = np.empty(0, np.uint8)
        close_map(self._map)


class Mapped:
    """The mapped files of a flow, in order."""

    def __init__(self, maps: Sequence[Mapping]) -> None:
        self.maps = tuple(maps)
        self._starts = [0]
        for one in self.maps:
            self._starts.append(self._starts[-1] + one.size)

    def pieces(self, low: int, high: int) -> Iterator[tuple[int, int, int]]:
        """(flow offset, address, length), one for each file that the range touches."""
        for start, one in zip(self._starts, self.maps, strict=False):
            first, last = max(low, start), min(high, start + one.size)
            if first < last:
                yield first, one.address + first - start, last - first
