"""A queue of units from which routes take chunks of different sizes."""

from __future__ import annotations

from hypothesis import given, strategies as st

from planner.engine.queue import Queue
from planner.engine.strategies.base import cut


@given(
    size=st.integers(1, 400),
    chunks=st.tuples(st.integers(1, 60), st.integers(1, 60)),
    inner=st.sets(st.integers(1, 399), max_size=3),
)
def test_a_chunk_is_whole_units_up_to_the_files_end(
    size: int, chunks: tuple[int, int], inner: set[int]
) -> None:
    borders = sorted({0, *(b for b in inner if b < size)})
    queue = Queue(lambda chunk: cut(size, chunk, borders), size, chunks, borders)
    for chunk, table in zip(chunks, queue.tables, strict=True):
        for low, length in zip(table.lows, table.sizes, strict=True):
            end = min((b for b in borders if b > low), default=size)
            assert 1 <= length <= min(chunk, end - low)
            # Less than asked for only at the end of its file: units divide every chunk, but those
            # that a file's end cuts short.
            assert low + length == end or length > chunk - min(chunks)
    # Whoever takes, and in whatever turns: each byte is taken once.
    takers = [iter(taker) for taker in queue.start()]
    taken = []
    while takers:
        for number, taker in enumerate(list(takers)):
            try:
                at = next(taker)
            except StopIteration:
                takers = []
                break
            table = queue.tables[number]
            taken.append((table.lows[at], table.lows[at] + table.sizes[at]))
    edges = sorted(taken)
    assert [low for low, _ in edges] == [0, *(high for _, high in edges[:-1])]
    assert edges[-1][1] == size
