"""The chunked pipeline: expectations worked out by hand, the formula against every chunk."""

from __future__ import annotations

import math
import random
from collections.abc import Callable, Sequence

import pytest
from hypothesis import given, settings, strategies as st

from planner.model.pipeline import (
    FEW_WAVES,
    Stage,
    closed_form,
    exact,
    lengths,
    seconds,
    throughput,
)


def pool(per_chunk: float, resource: str = "cpu") -> Stage:
    """A pool stage that takes the same time for any chunk."""
    return Stage(resource, "pool", lambda _: per_chunk)


def engine(per_chunk: float, lag: float = 0.0, resource: str = "dma") -> Stage:
    """An engine stage that takes the same time for any chunk."""
    return Stage(resource, "engine", lambda _: per_chunk, lag=lag)


def test_lengths_cover_the_size() -> None:
    assert lengths(10, 4) == [4, 4, 2]
    assert lengths(8, 4) == [4, 4]
    assert lengths(3, 4) == [3]
    assert lengths(0, 4) == []


def test_one_worker_with_two_slots_overlaps_copy_and_dma() -> None:
    # copy 2 s, DMA 1 s, 3 chunks. Copies end at 2, 4, 6; DMAs run 2-3, 4-5, 6-7.
    trace = exact([pool(2.0), engine(1.0)], [1, 1, 1], workers=1, depth=2)
    assert trace.total_s == 7.0
    assert trace.busy_s == (6.0, 3.0)
    assert trace.first_s == 3.0


def test_one_worker_with_one_slot_serialises() -> None:
    # One slot: copy 2, DMA 1, and only then the next copy: 3 * (2 + 1).
    trace = exact([pool(2.0), engine(1.0)], [1, 1, 1], workers=1, depth=1)
    assert trace.total_s == 9.0


def test_the_first_chunk_takes_one_workers_time() -> None:
    # Two workers copy 4 s each, side by side; the DMAs of 1 s queue: 4-5, 5-6.
    # With the plain min() of rates it would be 2 chunks at 2 chunks / 4 s = 4 s.
    trace = exact([pool(4.0), engine(1.0)], [1, 1], workers=2, depth=2)
    assert trace.total_s == 6.0


def test_an_engine_that_limits_never_waits() -> None:
    # Copies of 1 s by two workers feed an engine of 2 s: first at 1, then 5 chunks back to back.
    trace = exact([pool(1.0), engine(2.0)], [1] * 5, workers=2, depth=2)
    assert trace.total_s == 1.0 + 5 * 2.0


@pytest.mark.parametrize("workers", [1, 2])
@pytest.mark.parametrize(
    "stages",
    [
        [pool(2.0)],
        [engine(1.0)],
        [pool(2.0), engine(1.0)],
        [engine(1.0), pool(2.0)],
        [engine(1.0), engine(2.0, resource="second")],
        [pool(2.0), engine(1.0), engine(2.0, resource="second")],
    ],
)
def test_slots_that_no_chunk_needs_change_nothing(stages: list[Stage], workers: int) -> None:
    """And cost nothing: a million million of them would fill no memory of this world."""
    chunks = [1, 1, 1]
    assert exact(stages, chunks, workers, 10**12) == exact(stages, chunks, workers, len(chunks))


def test_draining_writes_behind_the_dma() -> None:
    # DMA 1 s into two slots (0-1, 1-2), writes of 3 s: 1-4, 4-7; the third DMA waits for a slot
    # until 4 and is long there at 7: 7-10.
    trace = exact([engine(1.0), pool(3.0)], [1, 1, 1], workers=1, depth=2)
    assert trace.total_s == 10.0


def test_a_relay_with_one_slot_takes_both_copies_in_turn() -> None:
    # One slot: in 1 s, out 2 s, and only then the next: 3 + 3.
    trace = exact([engine(1.0), engine(2.0, resource="other")], [1, 1], workers=1, depth=1)
    assert trace.total_s == 6.0
    # Two slots: in 0-1, 1-2; out 1-3, 3-5.
    trace = exact([engine(1.0), engine(2.0, resource="other")], [1, 1], workers=1, depth=2)
    assert trace.total_s == 5.0


def test_latency_delays_but_does_not_hold_the_engine() -> None:
    # Four copies of 1 s queue on the engine; each arrives 0.5 s after its service: 4 + 0.5.
    trace = exact([engine(1.0, lag=0.5)], [1] * 4, workers=1, depth=4)
    assert trace.total_s == 4.5
    assert trace.busy_s == (4.0,)


def test_a_pool_alone_goes_in_waves() -> None:
    # Five chunks of 1 s on two workers: three waves.
    assert exact([pool(1.0)], [1] * 5, workers=2, depth=1).total_s == 3.0


def test_nothing_takes_no_time() -> None:
    assert exact([engine(1.0)], [], workers=1, depth=1).total_s == 0.0
    assert seconds([engine(1.0)], 0, 4, 1, 1) == 0.0


def affine(overhead: float, rate: float) -> Callable[[int], float]:
    """Seconds of a chunk: an overhead and its bytes at a rate."""
    return lambda length: overhead + length / rate


def random_case(rng: random.Random) -> tuple[list[Stage], int, int, int, int]:
    """Stages of a plausible machine, size 64 MiB to 32 GB, 1 to 32 workers."""
    shapes: Sequence[tuple[str, ...]] = (
        ("pool", "engine"),
        ("engine", "pool"),
        ("engine", "engine"),
        ("pool",),
        ("engine",),
    )
    workers = rng.choice((1, 2, 3, 4, 6, 8, 12, 16, 32))
    stages = []
    for kind in rng.choice(shapes):
        if kind == "pool":
            capacity = min(workers * rng.uniform(3e9, 8e9), rng.uniform(20e9, 80e9))
            stages.append(Stage("cpu", "pool", affine(3e-5, capacity / workers)))
        else:
            stages.append(Stage("dma", "engine", affine(3e-6, rng.uniform(10e9, 60e9)), lag=3e-6))
    size = int(2 ** rng.uniform(26, math.log2(32e9)))
    return stages, size, int(2 ** rng.uniform(21, 26)), workers, rng.choice((1, 2, 3))


@pytest.mark.parametrize("seed", range(300))
def test_the_formula_is_within_two_per_cent_where_it_is_used(seed: int) -> None:
    stages, size, chunk, workers, depth = random_case(random.Random(seed))  # noqa: S311 - repeatable cases, no secret
    truth = exact(stages, lengths(size, chunk), workers, depth).total_s
    used = seconds(stages, size, chunk, workers, depth)
    assert used == pytest.approx(truth, rel=0.02)
    few = -(-size // chunk) <= FEW_WAVES * workers * max(depth, 2)
    assert (used == truth) or not few


@pytest.mark.parametrize("seed", range(60))
def test_tiny_chunks_that_wait_for_their_slots_are_within_two_per_cent(seed: int) -> None:
    # Copies of 0.1 to 1 us, DMAs of 2 us that arrive 8 to 60 us later: too few slots go round.
    rng = random.Random(2000 + seed)  # noqa: S311 - repeatable cases, no secret
    workers, depth = rng.choice((1, 2)), rng.choice((2, 3))
    stages = [pool(rng.uniform(1e-7, 1e-6)), engine(2e-6, rng.uniform(8e-6, 60e-6))]
    if rng.random() < 0.5:
        stages.reverse()
    count = rng.randrange(FEW_WAVES * workers * depth + 1, 1000)
    truth = exact(stages, [1] * count, workers, depth).total_s
    assert closed_form(stages, count, 1, workers, depth) == pytest.approx(truth, rel=0.02)


@pytest.mark.parametrize("seed", range(50))
def test_many_chunks_reach_the_throughput(seed: int) -> None:
    # What 4,000 chunks take beyond 2,000 is 2,000 chunks at full pace, within the raggedness of one
    # wave of workers (at most 32 * 3 slots of 2,000 chunks, and far less in practice).
    stages, _, chunk, workers, depth = random_case(random.Random(1000 + seed))  # noqa: S311 - repeatable cases, no secret
    short = exact(stages, [chunk] * 2000, workers, depth).total_s
    long = exact(stages, [chunk] * 4000, workers, depth).total_s
    pace = 2000 * chunk / (long - short)
    assert pace == pytest.approx(throughput(stages, chunk, workers, depth), rel=0.02)


@settings(max_examples=60)
@given(
    st.lists(st.integers(1, 64), min_size=1, max_size=40),
    st.integers(1, 5),
    st.integers(1, 3),
    st.floats(0.1, 10),
    st.floats(0.1, 10),
)
def test_bounds_that_hold_for_any_fill(
    chunks: list[int], workers: int, depth: int, copy: float, dma: float
) -> None:
    """Never quicker than any one stage needs, never slower than everything in turn."""
    stages = [
        Stage("cpu", "pool", lambda n: n * copy),
        Stage("dma", "engine", lambda n: n * dma),
    ]
    total = exact(stages, chunks, workers, depth).total_s
    everything = sum(chunks) * (copy + dma)
    assert total <= everything * (1 + 1e-9)
    assert total >= sum(chunks) * dma * (1 - 1e-9)
    assert total >= sum(chunks) * copy / workers * (1 - 1e-9)


def test_the_formula_alone_reproduces_hand_arithmetic() -> None:
    # 4 workers, copy 8 s, DMA 1 s, 400 chunks: 100 waves of 8 s, then four DMAs of the last wave.
    stages = [pool(8.0), engine(1.0)]
    assert closed_form(stages, 400, 1, 4, 2) == pytest.approx(100 * 8 + 4)
    assert exact(stages, [1] * 400, 4, 2).total_s == pytest.approx(100 * 8 + 4)
