"""What a call moves, cut into chunks: large pieces in several, many small ones together.

A part is so many bytes of one end that go to one place of another. Parts that follow each other at
both ends are one.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple, overload

from planner.engine.memory import PAGE, round_up
from planner.engine.serving.ends import End, FileEnd

MOST_PARTS: int = 256
"""Parts of one chunk: each is a copy of its own, some 2 us of issue, so more would starve."""
GRAIN: int = 64
"""Bytes that a part's place in a slot is a multiple of: a cache line."""


class Part(NamedTuple):
    """`size` bytes at `start` of the source, which go to `to` of the target."""

    source: End
    start: int
    target: End
    to: int
    size: int


Chunk = tuple[Part, ...]


def joined(parts: Iterable[Part]) -> list[Part]:
    """The parts without empty ones, those that touch at both ends as one."""
    found: list[Part] = []
    for part in parts:
        if not part.size:
            continue
        last = found[-1] if found else None
        if (
            last is not None
            and last.source is part.source
            and last.target is part.target
            and last.start + last.size == part.start
            and last.to + last.size == part.to
        ):
            found[-1] = last._replace(size=last.size + part.size)
        else:
            found.append(part)
    return found


def _behind_page(source: End, start: int, chunk: int) -> int:
    """How far behind a page of its file a part begins, where whole pages fit into a chunk.

    Chunks end where pages of the file end: the kernel then copies whole pages into slots that are
    aligned like them. The data of a safetensors file begins behind a header of any length.
    """
    return start % PAGE if isinstance(source, FileEnd) and chunk % PAGE == 0 else 0


class Chunks(Sequence[Chunk]):
    """The chunks that workers take: none is larger than `chunk` bytes, grains included.

    Those of a large part are cut when they are asked for: 32 GB are 7,630 of 4 MiB, a list of which
    takes 4 ms to make before the first byte moves, and one more to give back.
    """

    __slots__ = ("_chunk", "_count", "_runs", "_starts")

    def __init__(self, parts: Iterable[Part], chunk: int) -> None:
        self._chunk, self._count = chunk, 0
        # Parts of a run, and how far behind a page it begins; packed ones are one chunk as it is.
        self._runs: list[tuple[Chunk, int | None]] = []
        self._starts: list[int] = []
        packed: list[Part] = []
        used = 0
        for part in joined(parts):
            if part.size >= chunk:
                phase = _behind_page(part.source, part.start, chunk)
                self._add((part,), phase, -(-(part.size + phase) // chunk))
                continue
            room = round_up(part.size, GRAIN)
            if packed and (used + room > chunk or len(packed) >= MOST_PARTS):
                self._add(tuple(packed), None, 1)
                packed, used = [], 0
            packed.append(part)
            used += room
        if packed:
            self._add(tuple(packed), None, 1)

    def _add(self, parts: Chunk, phase: int | None, count: int) -> None:
        self._runs.append((parts, phase))
        self._starts.append(self._count)
        self._count += count

    def runs(self) -> Iterator[Chunk]:
        """The parts of each run of chunks: a large one, or those that are one chunk together."""
        return (parts for parts, _ in self._runs)

    def __len__(self) -> int:
        return self._count

    @overload
    def __getitem__(self, number: int) -> Chunk: ...
    @overload
    def __getitem__(self, number: slice) -> list[Chunk]: ...
    def __getitem__(self, number: int | slice) -> Chunk | list[Chunk]:
        """One chunk, or a list of some."""
        if isinstance(number, slice):
            return [self[k] for k in range(*number.indices(self._count))]
        if number < 0:
            number += self._count
        if not 0 <= number < self._count:
            raise IndexError(f"there is no chunk {number} of {self._count}")
        run = bisect_right(self._starts, number) - 1
        parts, phase = self._runs[run]
        if phase is None:
            return parts
        source, start, target, to, size = parts[0]
        end = (number - self._starts[run] + 1) * self._chunk - phase
        low = max(0, end - self._chunk)
        return (Part(source, start + low, target, to + low, min(size, end) - low),)


def runs_of(chunks: Sequence[Chunk]) -> Iterable[Chunk]:
    """What says as much of all chunks as they do, and is less: none is cut for it."""
    return chunks.runs() if isinstance(chunks, Chunks) else chunks
