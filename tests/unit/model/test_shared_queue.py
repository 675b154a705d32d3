"""Ways that take chunks from one queue, followed chunk by chunk."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given, strategies as st

from planner.model.pipeline import Stage
from planner.model.shared_queue import Track, ends, unevenness


def _engine(name: str, rate: float, lag: float = 0.0) -> Stage:
    return Stage(name, "engine", lambda length: length / rate, lag=lag)


def _pool(rate: float) -> Stage:
    return Stage("host0.copy", "pool", lambda length: length / rate)


def test_two_equal_engines_take_turns() -> None:
    # Chunks of 10 bytes at 1 byte/s; 50 bytes: 3 and 2 chunks, the last arrives after 30 s.
    tracks = [Track((_engine(name, 1.0),), 10, 1, 2) for name in ("a", "b")]
    assert ends(tracks, 50) == (30.0, [30, 20])
    assert ends(tracks, 40) == (20.0, [20, 20])
    # A rest of 5 bytes costs 5 s.
    assert ends(tracks, 45) == (25.0, [25, 20])


def test_slots_that_are_full_when_the_queue_runs_dry_set_the_end() -> None:
    # The slow way holds two chunks from the start, 20 s each; the fast one does the rest in 10 s.
    tracks = [Track((_engine("slow", 0.5),), 10, 1, 2), Track((_engine("fast", 4.0),), 10, 1, 2)]
    seconds, taken = ends(tracks, 60)
    assert (seconds, taken) == (40.0, [20, 40])


def test_a_detour_gives_its_slot_back_when_the_chunk_has_arrived() -> None:
    # One slot: 10 s on the first engine, 5 s on the second, then the next chunk: 2 x 15 s.
    detour = Track((_engine("in", 1.0), _engine("across", 2.0)), 10, 1, 1)
    assert ends([detour], 20) == (30.0, [20])
    # Two slots: the second chunk is on the first engine meanwhile: 10, 20, and 5 s across.
    assert ends([Track(detour.stages, 10, 1, 2)], 20) == (25.0, [20])
    # With a pool before them, host memory is free again when the first engine has the chunk: two
    # workers of one slot copy 1 s, wait for the engine (1 + 10, 21), and copy again.
    ring = Track((_pool(10.0), *detour.stages), 10, 1, 1)
    # 1 + 10 on the first; the next is copied from 11 to 12, its DMA waits until 16 for the place
    # on the way (15 s after its first), so it arrives at 16 + 10 + 5.
    assert ends([ring], 20) == (31.0, [20])


def test_a_call_that_blocks_holds_one_chunk_whatever_the_slots() -> None:
    # The driver takes 10 s for a chunk, the engine 1 s. With three slots, a way that only issues
    # takes three chunks at once, and the last arrives after 30 s; one that waits takes the second
    # chunk when the engine has had all others.
    slow, other = _engine("slow", 1.0), Track((_engine("fast", 10.0),), 10, 1, 1)
    assert ends([Track((slow,), 10, 1, 3), other], 60) == (30.0, [30, 30])
    waits = Track((replace(slow, blocks=True),), 10, 1, 3)
    assert ends([waits, other], 60) == (10.0, [10, 50])


def test_one_engine_of_two_ways_serves_in_order() -> None:
    tracks = [Track((_engine("same", 1.0),), 10, 1, 1) for _ in range(2)]
    assert ends(tracks, 40) == (40.0, [20, 20])


@given(
    st.lists(st.tuples(st.integers(1, 9), st.integers(1, 3), st.integers(1, 3)), min_size=1),
    st.integers(1, 400),
)
def test_all_bytes_are_taken_and_nothing_beats_the_rates(
    shapes: list[tuple[int, int, int]], size: int
) -> None:
    tracks = [
        Track((_engine(f"e{k}", 1.0 + k),), chunk, workers, depth)
        for k, (chunk, workers, depth) in enumerate(shapes)
    ]
    seconds, taken = ends(tracks, size)
    assert sum(taken) == size
    assert seconds >= size / sum(1.0 + k for k in range(len(tracks))) * (1 - 1e-9)
    # Nor is it later than each way's slots at the end, all of them full, one after the other.
    full = max((t.workers * t.depth + 1) * t.chunk / (1.0 + k) for k, t in enumerate(tracks))
    assert seconds <= size / sum(1.0 + k for k in range(len(tracks))) + full + 1e-9


def test_two_equal_ways_end_a_quarter_of_a_chunk_late_on_average() -> None:
    tracks = [Track((_engine(name, 1.0),), 100, 1, 3) for name in ("a", "b")]
    late = unevenness(tracks, 100 * 40, [1.0, 1.0], [0.0, 0.0])
    # Sizes 4000, 3950, 3900, 3850: the ways do 20 and 20 chunks, 20 and 19.5, 20 and 19, 19.5 and
    # 19, so the last one ends 0, 1/4, 1/2 and 1/4 of a chunk's 100 s behind the middle.
    assert late == pytest.approx((0 + 25 + 50 + 25) / 4)


def test_a_single_way_is_not_late() -> None:
    track = Track((_engine("a", 2.0),), 10, 1, 2)
    assert unevenness([track], 200, [2.0], [0.0]) == pytest.approx(0.0)
