"""Slices of service: intervals of one server made disjoint, merged to a bounded number."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import pairwise, repeat
from typing import Any, NamedTuple

from planner.results import TimelineRow


class Slice(NamedTuple):
    """`chunks` services of `size` bytes from `start` to `end`, `busy` seconds of them at work."""

    start: float
    end: float
    busy: float
    size: int
    chunks: int


def disjoint(intervals: Iterable[tuple[float, float]], sizes: Iterable[int]) -> list[Slice]:
    """The union of intervals, cut where one ends: several workers at once count as one.

    `sizes` are the bytes of each, in the order of the starts. A service that lies within others
    adds its bytes to the slice before.

    >>> [tuple(s)[:3] for s in disjoint([(0.0, 2.0), (1.0, 3.0), (5.0, 6.0)], [8, 8, 8])]
    [(0.0, 2.0, 2.0), (2.0, 3.0, 1.0), (5.0, 6.0, 1.0)]
    """
    found: list[Slice] = []
    reached = float("-inf")
    for (start, end), size in zip(sorted(intervals), sizes, strict=False):
        if end > reached or not found:
            begin = max(start, reached)
            found.append(Slice(begin, end, end - begin, size, 1))
            reached = end
        else:
            last = found[-1]
            found[-1] = last._replace(size=last.size + size, chunks=last.chunks + 1)
    return found


def merged(slices: Sequence[Slice], most: int) -> list[Slice]:
    """At most `most` slices: neighbours are joined, in groups that are as equal as can be.

    >>> merged([Slice(0, 1, 1, 8, 1), Slice(2, 3, 1, 8, 1), Slice(3, 4, 1, 8, 1)], 1)
    [Slice(start=0, end=4, busy=3, size=24, chunks=3)]
    """
    count = len(slices)
    if count <= most:
        return list(slices)
    bounds = [i * count // most for i in range(most + 1)]
    return [_joined(slices[a:b]) for a, b in pairwise(bounds) if a < b]


def _joined(group: Sequence[Slice]) -> Slice:
    return Slice(
        group[0].start,
        max(s.end for s in group),
        sum(s.busy for s in group),
        sum(s.size for s in group),
        sum(s.chunks for s in group),
    )


def even(start: float, end: float, whole: Slice, parts: int) -> list[Slice]:
    """One slice spread evenly from `start` to `end`, where no chunk was followed."""
    parts = max(1, min(parts, whole.chunks))
    step = (end - start) / parts
    return [
        Slice(
            start + i * step,
            start + (i + 1) * step,
            whole.busy / parts,
            _share(whole.size, i, parts),
            _share(whole.chunks, i, parts),
        )
        for i in range(parts)
    ]


def _share(total: int, i: int, parts: int) -> int:
    return total * (i + 1) // parts - total * i // parts


def sizes_of(size: int, count: int) -> list[int]:
    """`size` bytes over `count` services, as equal as can be."""
    return [_share(size, i, count) for i in range(count)]


def thinned(line: TimelineRow, most: int) -> TimelineRow:
    """A row with at most `most` slices."""
    columns = (line.start_s, line.end_s, line.busy_s, line.size_bytes, line.chunks)
    found = merged([Slice(*cells) for cells in zip(*columns, strict=True)], most)
    about = line.model_dump(include={"lane", "kind", "flow", "hop", "members"})
    return row(found, **about)


def row(slices: Sequence[Slice], *, digits: int | None = None, **about: Any) -> TimelineRow:
    """Slices as columns; `digits` after the point where they are to be saved."""
    columns = zip(*slices, strict=True) if slices else repeat((), 5)
    start, end, busy, size, chunks = columns
    if digits is not None:
        start, end, busy = (tuple(round(v, digits) for v in c) for c in (start, end, busy))
    return TimelineRow(
        start_s=start, end_s=end, busy_s=busy, size_bytes=size, chunks=chunks, **about
    )
