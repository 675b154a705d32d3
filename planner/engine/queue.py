"""One queue of chunks for the workers of all routes of a flow: whoever is free takes the next.

There are no shares beforehand, so all routes end together whatever each of them does. Routes may
take chunks of different sizes: the flow is then cut into units that all sizes are multiples of, a
place of the queue is the start of a unit, and a worker takes as many units as its route's chunk
has.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Sequence
from itertools import accumulate, pairwise
from math import gcd
from threading import Lock
from typing import Final

from planner.engine.places import FilePlace, MappedPlace, Place
from planner.engine.route import Route
from planner.engine.strategies.base import Chunks, cut_source

MOST_UNITS: Final = 1 << 16
"""Units of a flow at the most: each has a row in the table of every route."""


class Queue:
    """The chunks of a flow.

    Parameters
    ----------
    cut
        Cuts the flow into chunks of so many bytes.
    size, chunks
        Bytes of the flow, and the chunk of each route.
    borders
        Where its files begin: no chunk spans two.
    times
        How often all bytes are in the queue, one time after another.

    Attributes
    ----------
    tables
        For each route what it gets from each place of the queue.

    """

    def __init__(
        self,
        cut: Callable[[int], Chunks],
        size: int,
        chunks: Sequence[int],
        borders: Sequence[int] = (),
        times: int = 1,
    ) -> None:
        self.tables: tuple[Chunks, ...] = ()
        self._spans: list[list[int]] | None = None
        if len(set(chunks)) == 1:
            self.tables = (cut(chunks[0]).repeated(times),) * len(chunks)
        elif chunks:
            unit = _unit(size, chunks)
            units = cut(unit)
            rows = [_taken(units, max(1, chunk // unit), {0, *borders}) for chunk in chunks]
            self.tables = tuple(table.repeated(times) for table, _ in rows)
            self._spans = [spans * times for _, spans in rows]

    def __len__(self) -> int:
        """Places of the queue."""
        return len(self.tables[0]) if self.tables else 0

    def start(self) -> list[Iterator[int]]:
        """A fresh queue: for each route what its workers take from, all of the same chunks."""
        if self._spans is None:
            # `next` of one range iterator is a single call into C and needs no lock.
            return [iter(range(len(self)))] * len(self.tables)
        cursor = _Cursor()
        return [_Taker(cursor, spans) for spans in self._spans]


def _unit(size: int, chunks: Sequence[int]) -> int:
    """What all chunks are multiples of, or the smallest chunk where that is too little."""
    unit = gcd(*chunks)
    return unit if -(-size // unit) <= MOST_UNITS else min(chunks)


def _taken(units: Chunks, most: int, borders: Collection[int]) -> tuple[Chunks, list[int]]:
    """What a route gets from each unit on: `most` units, or what the file has left."""
    count = len(units)
    stops = [i for i in range(1, count) if units.lows[i] in borders] + [count]
    ends = [0, *accumulate(units.sizes)]
    spans: list[int] = []
    for begin, stop in pairwise([0, *stops]):
        spans += [min(most, stop - i) for i in range(begin, stop)]
    sizes = [ends[i + span] - ends[i] for i, span in enumerate(spans)]
    return Chunks(units.lows, sizes), spans


class _Cursor:
    """The next place of a queue."""

    __slots__ = ("at", "guard")

    def __init__(self) -> None:
        self.at = 0
        self.guard = Lock()


class _Taker:
    """One route's side of a queue: the numbers of the places at which its chunks begin."""

    __slots__ = ("_cursor", "_spans")

    def __init__(self, cursor: _Cursor, spans: Sequence[int]) -> None:
        self._cursor, self._spans = cursor, spans

    def __iter__(self) -> Iterator[int]:
        return self

    def __next__(self) -> int:
        cursor = self._cursor
        with cursor.guard:
            at = cursor.at
            if at >= len(self._spans):
                raise StopIteration
            cursor.at = at + self._spans[at]
            return at


def queue_of(routes: Sequence[Route], source: Place, size: int, times: int = 1) -> Queue:
    """The chunks of a movement: cut at files' borders, and by pages where memory is registered.

    `source` is where the bytes are, unless a route has a source of its own; see `Queue`.
    """
    moving = [route for route in routes if route.stages]
    staying = [route for route in moving if route.stays]
    start = (staying[0].source if staying else None) or source
    borders = start.ranges.starts if isinstance(start, (FilePlace, MappedPlace)) else ()
    chunks = [route.hops[0].chunk_bytes for route in moving]
    pages = bool(staying)
    return Queue(
        lambda chunk: cut_source(start, size, chunk, pages=pages), size, chunks, borders, times
    )
