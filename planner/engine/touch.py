"""What a GPU touches of the bytes that it reads in place: the same places in every emulation.

The pattern of a plan's `use` is made concrete here, for kernels, for their emulation and for the
verification alike:

    dense     the first part of the chunk, in one piece
    strided   elements of 16 bytes at equal distances over the whole chunk
    random    sectors, each at a random place in its own share of the chunk, in scattered order

Pieces never overlap and their order in what is kept is that of their places, so that what a kernel
gathered can be compared piece by piece with the source.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from planner.model.touched import ELEMENT, Use

SCATTER: Final = 2654435761
"""A prime near 2^32 / golden ratio (Knuth, TAOCP 3, 6.4): thread t serves piece t * SCATTER mod
count, so that neighbouring threads read far from each other."""
_MIX: Final = (0x9E3779B97F4A7C15, 0xBF58476D1CE4E5B9, 0x94D049BB133111EB)
"""Constants of splitmix64 (Steele, Lea, Flood 2014)."""


class Touch(NamedTuple):
    """One pass over a chunk.

    `target` is where the touched bytes are kept one after another, 0 where they are only read.
    There are `pieces` of `unit` bytes each among `total` units from `source` on; `unit` is 0 for a
    dense pass over `pieces` bytes.
    """

    target: int
    source: int
    unit: int
    pieces: int
    total: int
    scattered: bool = False

    @property
    def size(self) -> int:
        """Bytes that are touched."""
        return self.pieces * (self.unit or 1)

    @property
    def reach(self) -> int:
        """Bytes from `source` on within which all pieces lie."""
        return self.total * self.unit if self.unit else self.pieces


@dataclass(frozen=True, slots=True)
class Touching:
    """How a GPU touches each chunk: the plan's `use`, and the bytes of a scattered read."""

    use: Use = field(default_factory=Use)
    sector: int = 32

    def of(self, length: int, source: int = 0, target: int = 0) -> Touch:
        """One pass over a chunk of `length` bytes.

        >>> Touching(Use(0.5, 1, "strided")).of(64)
        Touch(target=0, source=0, unit=16, pieces=2, total=4, scattered=False)
        """
        use = self.use
        unit = ELEMENT if use.pattern == "strided" else self.sector
        total = length // unit
        if use.pattern == "dense" or use.fraction >= 1 or total == 0:
            touched = min(length, max(1, round(length * use.fraction))) if length else 0
            return Touch(target, source, 0, touched, touched)
        count = min(total, max(1, round(total * use.fraction)))
        return Touch(target, source, unit, count, total, use.pattern == "random")

    def whole(self, length: int, source: int, target: int) -> Touch:
        """One pass over every byte of a chunk, whatever the plan uses of it."""
        return Touch(target, source, 0, length, length)


def mixed(numbers: NDArray[np.uint64]) -> NDArray[np.uint64]:
    """A random word for each number."""
    z = (numbers + np.uint64(1)) * np.uint64(_MIX[0])
    z = (z ^ (z >> np.uint64(30))) * np.uint64(_MIX[1])
    z = (z ^ (z >> np.uint64(27))) * np.uint64(_MIX[2])
    return z ^ (z >> np.uint64(31))


def places(touch: Touch, first: int, last: int) -> NDArray[np.int64]:
    """The units that pieces `first` to `last` lie at, rising.

    >>> places(Touch(0, 0, 16, 3, 9), 0, 3).tolist()
    [0, 3, 6]
    """
    numbers = np.arange(first, last, dtype=np.uint64)
    total, count = np.uint64(touch.total), np.uint64(touch.pieces)
    low = numbers * total // count
    if touch.scattered:
        span = (numbers + np.uint64(1)) * total // count - low
        low += mixed(numbers) % span
    return low.astype(np.int64)
