"""What a kernel kept of a flow that it read in place, and what it should have found there."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Sequence
from typing import Final

import numpy as np
from numpy.typing import NDArray

from planner.engine.touch import Touch, Touching, places

Expected = Callable[[NDArray[np.uint8], int], None]
"""`expected(target, offset)`: writes what the source has from `offset` on into the target."""

SPAN: Final = 16 << 20
"""Bytes of the source that are looked at together while scattered pieces are gathered."""


class Kept:
    """The touched bytes of all chunks, one chunk after another.

    Parameters
    ----------
    touching
        How each chunk is touched.
    lows, sizes
        Offset in the flow and bytes of each chunk.

    """

    def __init__(self, touching: Touching, lows: Sequence[int], sizes: Sequence[int]) -> None:
        self._lows = lows
        self._touches = [touching.of(size) for size in sizes]
        self.starts = [0]
        for touch in self._touches:
            self.starts.append(self.starts[-1] + touch.size)

    @property
    def size(self) -> int:
        """Bytes that are kept."""
        return self.starts[-1]

    def expected(self, source: Expected) -> Expected:
        """What must lie at each offset of the kept bytes, from what the flow's source has."""

        def gather(target: NDArray[np.uint8], offset: int) -> None:
            done = 0
            while done < target.size:
                chunk = bisect_right(self.starts, offset + done) - 1
                inside = offset + done - self.starts[chunk]
                touch = self._touches[chunk]
                length = min(target.size - done, touch.size - inside)
                _gather(target[done : done + length], touch, inside, self._lows[chunk], source)
                done += length

        return gather


def _gather(
    target: NDArray[np.uint8], touch: Touch, inside: int, low: int, source: Expected
) -> None:
    """Fill `target` with the kept bytes from `inside` on of the chunk that begins at `low`."""
    if not touch.unit:
        source(target, low + inside)
        return
    first, skip = divmod(inside, touch.unit)
    last = -(-(inside + target.size) // touch.unit)
    found = np.empty((last - first, touch.unit), np.uint8)
    at = places(touch, first, last) * touch.unit
    begin = 0
    while begin < len(at):
        # As many pieces as lie within one stretch of the source.
        end = max(begin + 1, int(np.searchsorted(at, at[begin] + SPAN - touch.unit, "right")))
        stretch = np.empty(int(at[end - 1] - at[begin]) + touch.unit, np.uint8)
        source(stretch, low + int(at[begin]))
        rows = (at[begin:end] - at[begin])[:, None] + np.arange(touch.unit)
        found[begin:end] = stretch[rows]
        begin = end
    target[:] = found.reshape(-1)[skip : skip + target.size]
