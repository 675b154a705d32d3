"""Where stretches of bytes are cut."""

from __future__ import annotations

from itertools import pairwise

import pytest
from hypothesis import given, strategies as st

from planner.engine.cutting import cuts


@given(
    low=st.integers(0, 1000),
    size=st.integers(1, 1000),
    step=st.integers(1, 100),
    data=st.data(),
)
def test_cuts_make_up_the_stretch_and_end_at_pages(
    low: int, size: int, step: int, data: st.DataObject
) -> None:
    phase = data.draw(st.integers(0, step - 1))
    found = list(cuts(low, low + size, step, phase))
    # One follows the other from the first byte to the last, none is empty and none too large.
    assert [found[0][0], found[-1][1]] == [low, low + size]
    assert all(before[1] == after[0] for before, after in pairwise(found))
    assert all(0 < end - start <= step for start, end in found)
    # `low` lies `phase` behind a page's start, so that start is at low - phase.
    assert all((end - (low - phase)) % step == 0 for _, end in found[:-1])
    # No fewer ranges can do it: one for each step that the bytes behind that start reach into.
    assert len(found) == -(-(phase + size) // step)


@pytest.mark.parametrize("high", [5, 4])
def test_no_bytes_are_no_ranges(high: int) -> None:
    assert list(cuts(5, high, 4, 1)) == []
