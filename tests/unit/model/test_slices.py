"""Slices: disjoint, merged without losing a second or a byte."""

from __future__ import annotations

import itertools

from hypothesis import given, strategies as st

from planner.engine.measure import union
from planner.model.slices import Slice, disjoint, even, merged, sizes_of

INTERVALS = st.lists(
    st.tuples(st.integers(0, 200), st.integers(0, 20)).map(
        lambda pair: (float(pair[0]), float(pair[0] + pair[1]))
    ),
    min_size=1,
    max_size=60,
)


@given(INTERVALS, st.integers(1, 70))
def test_merging_keeps_every_second_byte_and_chunk(
    intervals: list[tuple[float, float]], most: int
) -> None:
    sizes = list(range(1, len(intervals) + 1))
    found = merged(disjoint(intervals, sizes), most)
    assert 1 <= len(found) <= most
    # Whole numbers add up exactly in floats.
    assert sum(s.busy for s in found) == union(intervals)
    assert sum(s.size for s in found) == sum(sizes)
    assert sum(s.chunks for s in found) == len(intervals)


@given(INTERVALS)
def test_slices_do_not_overlap(intervals: list[tuple[float, float]]) -> None:
    found = disjoint(intervals, [1] * len(intervals))
    assert all(a.end <= b.start for a, b in itertools.pairwise(found))
    assert all(s.end - s.start == s.busy for s in found)


def test_a_service_within_another_adds_its_bytes_to_it() -> None:
    # 0 … 4 holds 1 … 2: one slice of four seconds with both chunks.
    assert disjoint([(0.0, 4.0), (1.0, 2.0)], [8, 4]) == [Slice(0.0, 4.0, 4.0, 12, 2)]


def test_what_was_not_followed_is_spread_evenly() -> None:
    found = even(1.0, 5.0, Slice(0.0, 0.0, 2.0, 10, 4), 2)
    # Two halves of two seconds, each at work for one of them.
    assert found == [Slice(1.0, 3.0, 1.0, 5, 2), Slice(3.0, 5.0, 1.0, 5, 2)]


def test_sizes_are_as_equal_as_can_be() -> None:
    assert sizes_of(10, 3) == [3, 3, 4]
