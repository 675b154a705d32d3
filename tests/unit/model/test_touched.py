"""What a GPU moves when it touches data in place."""

from __future__ import annotations

import random

import pytest
from hypothesis import given, settings, strategies as st

from planner.model.touched import (
    BLOCK,
    LEAVES,
    REGION,
    THRESHOLD,
    Pattern,
    Use,
    evenly,
    faulted,
    in_place,
    of_hbm,
    regions_taken,
)

MIB = 1 << 20


def test_a_dense_share_moves_itself_in_lines_of_128_bytes() -> None:
    touch = in_place(MIB, Use(fraction=0.25), 32)
    assert touch.size == MIB / 4
    assert touch.requests == MIB / 4 / 128


def test_strided_elements_move_whole_sectors() -> None:
    # 16 of every 64 bytes: 16,384 elements in 1 MiB, a sector of 32 bytes each.
    touch = in_place(MIB, Use(0.25, 1, "strided"), 32)
    assert touch.size == 16384 * 32
    # Two sectors lie in each line of 128 bytes and go out together.
    assert touch.requests == MIB / 128


def test_elements_closer_than_a_sector_share_it() -> None:
    # 16 of every 32 bytes are all sectors: everything moves.
    assert in_place(MIB, Use(0.5, 1, "strided"), 32).size == MIB
    # Where sectors move in pairs, 16 of every 64 want one of each: that costs 0.88 of both.
    assert in_place(MIB, Use(0.25, 1, "strided"), 64).size == pytest.approx(0.88 * MIB)
    assert in_place(MIB, Use(0.5, 1, "strided"), 64).size == MIB
    # Lines of 128 bytes move whole.
    assert in_place(MIB, Use(0.25, 1, "strided"), 128).size == MIB


def test_far_elements_cost_a_request_each() -> None:
    # 16 of every 4096 bytes: 256 elements in 1 MiB.
    touch = in_place(MIB, Use(16 / 4096, 1, "strided"), 32)
    assert (touch.size, touch.requests) == (256 * 32, 256)


def test_random_reads_are_single_sectors() -> None:
    # 1/1024 of 1 MiB are 1,024 bytes: 32 sectors.
    touch = in_place(MIB, Use(1 / 1024, 1, "random"), 32)
    assert (touch.size, touch.requests) == (1024, 32)


@pytest.mark.parametrize(
    ("touched", "factor"),
    [
        *[(1, 1.0), (4, 1.01), (6, 1.02), (8, 1.05), (12, 1.17), (16, 1.41)],
        # From 17 of 32 (53 %) the whole block moves: 32 / touched.
        *[(17, 32 / 17), (20, 1.6), (24, 32 / 24), (32, 1.0)],
    ],
)
def test_over_fetch_of_random_regions(touched: int, factor: float) -> None:
    assert regions_taken(LEAVES, touched) / touched == pytest.approx(factor, abs=0.005)


def taken(pattern: list[bool]) -> int:
    """The rule once more, from the leaves up: mark every subtree that is more than 51 % touched."""
    marked = list(pattern)
    width = 2
    while width <= len(pattern):
        for start in range(0, len(pattern), width):
            if sum(pattern[start : start + width]) > THRESHOLD * width:
                marked[start : start + width] = [True] * width
        width *= 2
    return sum(marked)


@pytest.mark.parametrize("touched", [3, 8, 16, 20])
def test_over_fetch_equals_many_random_blocks_under_the_rule(touched: int) -> None:
    rng = random.Random(touched)  # noqa: S311 - repeatable cases, no secret
    rounds, total = 4000, 0
    for _ in range(rounds):
        chosen = set(rng.sample(range(LEAVES), touched))
        total += taken([i in chosen for i in range(LEAVES)])
    # One block's standard deviation is below 6 regions: 4,000 blocks know the mean to 0.1.
    assert regions_taken(LEAVES, touched) == pytest.approx(total / rounds, abs=0.3)


@pytest.mark.parametrize(("touched", "moved"), [(1, 1), (8, 8), (16, 16), (32, 32)])
def test_even_distances_up_to_a_half_fetch_nothing_more(touched: int, moved: int) -> None:
    # Every subtree is touched by the same share, at most a half.
    assert evenly(touched) == moved


def test_faults_of_a_dense_share_move_that_share() -> None:
    moved = faulted(64 * BLOCK, Use(0.5), 32)
    assert (moved.blocks, moved.size) == (32, 32 * BLOCK)


def test_strides_within_a_region_move_everything() -> None:
    # 16 of every 4096 bytes: each region of 64 KiB is hit.
    moved = faulted(64 * BLOCK, Use(16 / 4096, 1, "strided"), 32)
    assert (moved.blocks, moved.size) == (64, 64 * BLOCK)


def test_strides_over_regions_move_single_regions() -> None:
    # 16 bytes each 512 KiB: 4 of 32 regions of each block, evenly, nothing more.
    moved = faulted(64 * BLOCK, Use(16 / (512 << 10), 1, "strided"), 32)
    assert (moved.blocks, moved.size) == (64, 64 * 4 * REGION)
    # 16 bytes each 8 MiB: one region of every fourth block.
    moved = faulted(64 * BLOCK, Use(16 / (8 << 20), 1, "strided"), 32)
    assert (moved.blocks, moved.size) == (16, 16 * REGION)


def test_few_random_sectors_fetch_a_region_each() -> None:
    # One sector in 2^24 of 2^31 bytes: 4 sectors, far apart: 4 blocks fault, a region each.
    size = 1 << 31
    moved = faulted(size, Use(4 * 32 / size, 1, "random"), 32)
    assert moved.blocks == pytest.approx(4, rel=0.01)
    assert moved.size == pytest.approx(4 * REGION, rel=0.01)


def test_many_random_sectors_fetch_everything() -> None:
    # 1 % of the sectors: (1 - 0.01)^2048 regions stay untouched, 1e-9 of them.
    moved = faulted(64 * BLOCK, Use(0.01, 1, "random"), 32)
    assert moved.size == pytest.approx(64 * BLOCK)


@settings(max_examples=200)
@given(
    st.integers(1, 1 << 34),
    st.floats(1e-6, 1.0),
    st.sampled_from(["dense", "strided", "random"]),
    st.sampled_from([32, 64]),
)
def test_never_more_than_all_and_never_less_than_what_is_touched(
    size: int, fraction: float, pattern: Pattern, sector: int
) -> None:
    use = Use(fraction, 1, pattern)
    wanted = size * fraction
    assert wanted * (1 - 1e-9) <= in_place(size, use, sector).size <= size * (1 + 1e-9)
    assert faulted(size, use, sector).size <= size * (1 + 1e-9)


def test_reading_from_hbm_pays_for_each_read() -> None:
    # Half of 1 GB ten times at 1 TB/s: 5 ms.
    assert of_hbm(10**9, Use(0.5, 10), 1e12) == pytest.approx(5e-3)
    assert of_hbm(10**9, Use(0.5, 10), None) == 0.0
