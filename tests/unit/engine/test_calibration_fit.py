"""From samples of copies to a curve."""

from __future__ import annotations

import pytest

from planner.engine.calibration.fit import asymptotic_rate, curve, grid
from planner.engine.calibration.statistics import Summary

MIB = 1 << 20
ALPHA, GAP, RATE = 8e-6, 2e-6, 50e9
SIZES = grid(4096, 256 * MIB)


def _line(start: float, sizes: list[int]) -> dict[int, Summary]:
    """Copies that take `start` and their bytes at RATE."""
    return {size: Summary(start + size / RATE, 0.02, 5) for size in sizes}


def test_the_grid_goes_in_steps_of_four() -> None:
    # 4 KiB x 4^8 = 256 MiB.
    assert [4096 * 4**k for k in range(9)] == SIZES


def test_a_straight_line_is_found_again() -> None:
    found = curve(_line(ALPHA, SIZES), _line(GAP, [4096, 65536, MIB, 16 * MIB]))
    # 16 MiB queued: 2 us beside 336 us; 256 MiB alone: 8 us beside 5369 us, 0.15 %.
    assert found.rate == pytest.approx(RATE, rel=2e-3)
    assert found.latency == pytest.approx(ALPHA, rel=1e-2)
    assert found.gap == pytest.approx(GAP, rel=1e-2)
    assert found.spread == 0.02
    assert found.seconds(64 * MIB) == pytest.approx(ALPHA + 64 * MIB / RATE)


def test_a_disturbed_largest_size_does_not_set_the_rate() -> None:
    times = {size: size / RATE for size in SIZES} | {256 * MIB: 3 * 256 * MIB / RATE}
    # The 82 ns of 4 KiB are taken for what every copy takes: 0.02 % of the 336 us of 16 MiB.
    assert asymptotic_rate(times, {}) == pytest.approx(RATE, rel=5e-4)


def test_without_large_sizes_the_largest_counts() -> None:
    # 1 MiB in 0.1 ms, of which 1 us is what the smallest copy takes: 10.6 GB/s, whatever that one
    # reached.
    assert asymptotic_rate({65536: 1e-6, MIB: 1e-4}, {}) == pytest.approx(MIB / 99e-6)


def test_what_the_smallest_copies_take_is_no_part_of_the_rate() -> None:
    # 20 us and 2 TB/s: 256 MiB take 154 us, which would be 1.74 TB/s. 16 MiB that took 20.5 us
    # would be 34 TB/s without the 20: they do not count.
    times = {4096: 20e-6, 16 * MIB: 20.5e-6, 256 * MIB: 20e-6 + 256 * MIB / 2e12}
    assert asymptotic_rate(times, {}) == pytest.approx(2e12)


def test_nothing_queued_means_no_gap() -> None:
    assert curve(_line(ALPHA, SIZES)).gap is None
