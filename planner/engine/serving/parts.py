"""What a call moves, cut into chunks: large pieces in several, many small ones together.

A part is so many bytes of one end that go to one place of another. Parts that follow each other at
both ends are one.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import NamedTuple

from planner.engine.cutting import cuts
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


def chunks_of(parts: Sequence[Part], chunk: int) -> list[Chunk]:
    """The chunks that workers take: none is larger than `chunk` bytes, grains included."""
    found: list[Chunk] = []
    packed: list[Part] = []
    used = 0
    for part in joined(parts):
        source, start, target, to, size = part
        if size >= chunk:
            found += [
                (Part(source, start + low, target, to + low, high - low),)
                for low, high in cuts(0, size, chunk, _behind_page(source, start, chunk))
            ]
            continue
        room = round_up(size, GRAIN)
        if packed and (used + room > chunk or len(packed) >= MOST_PARTS):
            found.append(tuple(packed))
            packed, used = [], 0
        packed.append(part)
        used += room
    if packed:
        found.append(tuple(packed))
    return found
