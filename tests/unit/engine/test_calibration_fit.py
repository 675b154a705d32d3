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
    assert asymptotic_rate(times, {}) == pytest.approx(RATE)


def test_without_large_sizes_the_largest_counts() -> None:
    # 1 MiB in 0.1 ms is 10.5 GB/s, whatever 64 KiB reached.
    assert asymptotic_rate({65536: 1e-6, MIB: 1e-4}, {}) == pytest.approx(MIB / 1e-4)


def test_nothing_queued_means_no_gap() -> None:
    assert curve(_line(ALPHA, SIZES)).gap is None
