"""Where the pieces of a flow lie in memory: in any order, with gaps between them.

What a worker needs of a chunk is found by two searches and a few slices, so nothing is prepared for
each chunk or piece; pieces that lie one behind the other in memory are one piece.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Callable, Iterable, Sequence
from typing import Final

import numpy as np
from numpy.typing import NDArray

from planner.engine.memory import round_up
from planner.engine.pattern import BLOCK, Pattern
from planner.plan.schema import Flow

ALIGN: Final = 64
"""Bytes that scattered pieces are aligned to, as allocators align tensors on a host."""
_SCATTER: Final = 2654435761
"""A prime near 2^32 / golden ratio (Knuth, TAOCP 3, 6.4): neighbours in the flow lie far apart."""

Run = tuple[int, int, int]
"""(offset in the flow, offset in the memory, bytes)"""


class Layout:
    """The pieces of a flow in one stretch of memory.

    Parameters
    ----------
    pieces
        Offset in the memory and bytes of each piece, in the order of the flow.

    Attributes
    ----------
    size, extent
        Bytes of the flow, and of the memory from its start to the end of the last piece.

    """

    def __init__(self, pieces: Iterable[tuple[int, int]]) -> None:
        starts: list[int] = []
        places: list[int] = []
        lengths: list[int] = []
        size = extent = 0
        for place, length in pieces:
            if length <= 0:
                continue
            if places and places[-1] + lengths[-1] == place:
                lengths[-1] += length
            else:
                starts.append(size)
                places.append(place)
                lengths.append(length)
            size += length
            extent = max(extent, place + length)
        self._starts, self._places, self._lengths = starts, places, lengths
        self.size, self.extent = size, extent

    def __len__(self) -> int:
        """Pieces, neighbours counted as one."""
        return len(self._starts)

    def runs(self, low: int, high: int) -> Sequence[Run]:
        """The pieces that hold the flow's bytes low … high, cut to them, in the flow's order."""
        if low >= high:
            return ()
        starts, places, lengths = self._starts, self._places, self._lengths
        first, end = bisect_right(starts, low) - 1, bisect_left(starts, high)
        cut = low - starts[first]
        if end - first == 1:
            return ((low, places[first] + cut, high - low),)
        last = end - 1
        return [
            (low, places[first] + cut, lengths[first] - cut),
            *zip(
                starts[first + 1 : last],
                places[first + 1 : last],
                lengths[first + 1 : last],
                strict=True,
            ),
            (starts[last], places[last], high - starts[last]),
        ]

    def write(self, put: Callable[[int, NDArray[np.uint8]], object], pattern: Pattern) -> None:
        """Give the pattern's bytes to `put(offset in the memory, bytes)`, piece by piece."""
        block = np.empty(min(BLOCK, max(1, self.size)), np.uint8)
        for low in range(0, self.size, BLOCK):
            high = min(low + BLOCK, self.size)
            pattern.write(block[: high - low], low)
            for at, place, length in self.runs(low, high):
                put(place, block[at - low : at - low + length])


def scattered(sizes: Sequence[int]) -> Layout:
    """Pieces of these bytes, none beside the one that it follows in the flow.

    >>> scattered([100, 100]).extent > 200
    True
    """
    places = [0] * len(sizes)
    at = 0
    for number in sorted(range(len(sizes)), key=lambda i: (i * _SCATTER) & 0xFFFFFFFF):
        places[number] = at
        at = round_up(at + sizes[number], ALIGN) + ALIGN
    return Layout(zip(places, sizes, strict=True))


def pieces_of(flow: Flow, offset: int, size: int) -> list[int]:
    """The pieces of the flow's bytes `offset` to `offset + size`, in order; empty for fewer than 2.

    Where only their count is known they are equal, the first ones a byte longer if need be.
    """
    pieces = flow.pieces
    if pieces is None or pieces.count < 2:
        return []
    sizes: Sequence[int] = pieces.sizes
    if not sizes:
        whole = flow.size or sum(file.size_bytes for file in flow.files)
        each, rest = divmod(whole, pieces.count)
        sizes = [each + 1] * rest + [each] * (pieces.count - rest)
    found, start = [], 0
    for length in sizes:
        low, high = max(offset, start), min(offset + size, start + length)
        if low < high:
            found.append(high - low)
        start += length
    return found if len(found) > 1 else []
