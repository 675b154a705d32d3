"""What a call moves, cut into chunks: large pieces in several, many small ones together.

A part is so many bytes of one end that go to one place of another. Parts that follow each other at
both ends are one.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import NamedTuple

from planner.engine.serving.ends import End

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


def chunks_of(parts: Sequence[Part], chunk: int) -> list[Chunk]:
    """The chunks that workers take: none is larger than `chunk` bytes, grains included."""
    found: list[Chunk] = []
    packed: list[Part] = []
    used = 0
    for part in joined(parts):
        source, start, target, to, size = part
        if size >= chunk:
            for at in range(0, size, chunk):
                length = min(chunk, size - at)
                found.append((Part(source, start + at, target, to + at, length),))
            continue
        room = -(-size // GRAIN) * GRAIN
        if packed and (used + room > chunk or len(packed) >= MOST_PARTS):
            found.append(tuple(packed))
            packed, used = [], 0
        packed.append(part)
        used += room
    if packed:
        found.append(tuple(packed))
    return found
