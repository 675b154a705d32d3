"""Where a stretch of bytes is cut, and at which pages: for files, memory and calls alike."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise


def cuts(low: int, high: int, step: int, phase: int = 0) -> Iterator[tuple[int, int]]:
    """The ranges of at most `step` bytes that make up the bytes from `low` to `high`, in order.

    `phase`, less than `step`, is how far behind a page's start `low` lies. With a step of whole
    pages every range but the last then ends where a page ends, so that no two of them share one:
    the first is shorter by the phase. Nothing comes where there are no bytes.

    >>> list(cuts(10, 20, 4)), list(cuts(10, 20, 4, phase=1))
    ([(10, 14), (14, 18), (18, 20)], [(10, 13), (13, 17), (17, 20)])
    """
    if high <= low:
        return iter(())
    return pairwise((low, *range(low - phase + step, high, step), high))
