"""Readers together: between and beyond the cells, on other wires, and what is refused."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, strategies as st
from pydantic import ValidationError

from planner.machine.curve import Curve
from planner.machine.reads import ReadTable

MIB = 2**20


def table(**changes: Any) -> ReadTable:
    """One reader: 1 and 2 GB/s; four: 2.4 and 1.2 GB/s; requests of 1 and 4 MiB."""
    fields = {
        "workers": (1, 4),
        "requests": (MIB, 4 * MIB),
        "rates": ((1e9, 2e9), (2.4e9, 1.2e9)),
    }
    return ReadTable.model_validate(fields | changes)


@pytest.mark.parametrize(
    ("workers", "request_bytes", "expected"),
    [
        (1, MIB, 1e9),
        (4, 4 * MIB, 1.2e9),
        # 2 is half way from 1 to 4 in logarithms, on either axis.
        (2, MIB, 1.7e9),
        (1, 2 * MIB, 1.5e9),
        (2, 2 * MIB, 1.65e9),
        # Beyond the largest these hold.
        (64, MIB, 2.4e9),
        (1, 64 * MIB, 2e9),
        # A quarter of the smallest request takes as long as that.
        (1, MIB / 4, 0.25e9),
    ],
)
def test_rates_in_and_beyond_the_table(workers: int, request_bytes: float, expected: float) -> None:
    assert table().rate(workers, request_bytes) == pytest.approx(expected)


def test_fewer_readers_than_the_fewest_get_their_share() -> None:
    assert table(workers=(2, 4)).rate(1, MIB) == pytest.approx(0.5e9)


def test_what_was_not_measured_takes_the_smaller_request_else_the_larger() -> None:
    holes = table(rates=((None, 2e9), (2.4e9, None)))
    assert holes.rate(1, MIB) == 2e9
    assert holes.rate(4, 4 * MIB) == 2.4e9
    assert holes.fastest == 2.4e9


def test_more_readers_may_make_up_for_few_and_cannot_for_too_many() -> None:
    # 1 MiB under way leaves what the best reaches; of 16 MiB the disk gives 1.2 GB/s, to anybody.
    assert table().reach(1, MIB) == 2.4e9
    assert table().reach(4, 4 * MIB) == 1.2e9


@given(st.floats(0.3, 3), st.integers(1, 8), st.integers(1, 16))
def test_another_wire_adds_the_same_time_to_each_byte(scale: float, workers: int, mib: int) -> None:
    curve = Curve(latency=0.0, rate=2.4e9, readers=table())
    other = curve.at_rate(2.4e9 * scale)
    assert other.readers is not None
    assert other.readers.fastest == pytest.approx(2.4e9 * scale)
    before, after = table().rate(workers, mib * MIB), other.readers.rate(workers, mib * MIB)
    assert after <= before * 1.0000001 if scale <= 1 else after >= before * 0.9999999


def test_slower_divides_every_rate_and_forgets_what_it_derived() -> None:
    fast = table()
    assert fast.fastest == 2.4e9
    curve = Curve(latency=0.0, rate=2.4e9, readers=fast).slower(2)
    assert curve.readers is not None
    assert curve.readers.fastest == 1.2e9
    assert curve.readers.rate(1, MIB) == 0.5e9


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"workers": (4, 1)}, "grow and are above 0"),
        ({"requests": (MIB, MIB)}, "grow and are above 0"),
        ({"rates": ((1e9, 2e9),)}, "one row for each entry of workers"),
        ({"rates": ((1e9,), (1e9,))}, "one cell for each entry of requests"),
        ({"rates": ((None, None), (1e9, 1e9))}, "at least one measured cell"),
        ({"rates": ((0, 1e9), (1e9, 1e9))}, "above 0"),
    ],
)
def test_what_is_no_table(changes: dict[str, Any], message: str) -> None:
    with pytest.raises(ValidationError, match=message):
        table(**changes)
