"""The tight loops answer what a plain account of the same queues does."""

from __future__ import annotations

import pytest
from hypothesis import given, strategies as st

from planner.model.pipeline import exact
from planner.model.stage import Busy, Noted, Stage, lengths


def pool(rate: float) -> Stage:
    return Stage("host0.copy", "pool", lambda length: length / rate)


def engine(rate: float, gap: float, lag: float) -> Stage:
    return Stage("pcie0.forward", "engine", lambda length: gap + length / rate, lag=lag)


def plainly(stages: list[Stage], chunks: list[int], workers: int, depth: int) -> float:
    """The end of the last copy: each step takes the worker that is free first, the first of equals.

    A worker copies, issues at the copy's end, and goes on when its next slot is free; issues are
    served in the order of their times.
    """
    copy, dma = stages
    ready = [(0.0, worker) for worker in range(workers)]
    issues: list[tuple[float, int, int]] = []
    released = [[0.0] * depth for _ in range(workers)]
    turn = [0] * workers
    left = list(chunks)
    free = last = 0.0
    while left or issues:
        soonest = min(ready) if left and ready else (float("inf"), 0)
        if issues and min(issues)[0] <= soonest[0]:
            now, worker, length = min(issues)
            issues.remove((now, worker, length))
            free = max(free, now) + dma.seconds(length)
            released[worker][turn[worker] % depth] = free + dma.lag
            last = max(last, free + dma.lag)
            turn[worker] += 1
            ready.append((max(now, released[worker][turn[worker] % depth]), worker))
        else:
            now, worker = soonest
            ready.remove(soonest)
            length = left.pop(0)
            issues.append((now + copy.seconds(length), worker, length))
    return last


@given(
    size=st.integers(1, 10**7),
    chunk=st.integers(10**4, 10**6),
    workers=st.integers(1, 6),
    depth=st.integers(1, 3),
    rates=st.tuples(st.sampled_from([1e9, 3e9, 7e9]), st.sampled_from([2e9, 5e9, 11e9])),
    lag=st.sampled_from([0.0, 3.7e-6]),
)
def test_filling_a_ring(
    size: int, chunk: int, workers: int, depth: int, rates: tuple[float, float], lag: float
) -> None:
    stages = [pool(rates[0]), engine(rates[1], 1.3e-6, lag)]
    # Chunks that differ keep two workers from wanting the same thing at the same instant.
    chunks = [length + 17 * i for i, length in enumerate(lengths(size, chunk))]
    trace = exact(stages, chunks, workers, depth)
    assert trace.total_s == pytest.approx(plainly(stages, chunks, workers, depth), rel=1e-12)
    assert trace.busy_s[1] == pytest.approx(sum(map(stages[1].seconds, chunks)), rel=1e-9)
    noted = [Noted(), Noted()]
    assert exact(stages, chunks, workers, depth, noted) == trace
    assert [len(each.intervals) for each in noted] == [len(chunks)] * 2
    assert tuple(each.total for each in noted) == pytest.approx(trace.busy_s, rel=1e-12)


@given(
    counts=st.lists(st.integers(1, 400), min_size=1, max_size=4),
    rest=st.integers(0, 7),
    workers=st.integers(1, 9),
    depth=st.integers(1, 3),
    times=st.one_of(
        # Quarters of a second and eighths add up exactly: many things happen at one instant.
        st.tuples(*[st.integers(1, 8).map(lambda n: n / 8)] * 2, st.sampled_from([0.0, 0.25, 2.0])),
        st.tuples(*[st.floats(1e-4, 1.0)] * 2, st.floats(0.0, 3.0)),
    ),
)
def test_equal_chunks_by_turns_are_equal_chunks_by_events(
    counts: list[int], rest: int, workers: int, depth: int, times: tuple[float, float, float]
) -> None:
    copy, serve, lag = times
    stages = [
        Stage("host0.copy", "pool", lambda length: copy * length / 8),
        Stage("pcie0.forward", "engine", lambda length: serve * length / 8, lag=lag),
    ]
    for count in counts:  # a line that was followed before goes on, or answers for fewer chunks
        chunks = lengths(8 * count + rest, 8)
        # Somebody who is told of every service has it followed by events.
        by_events = exact(stages, chunks, workers, depth, [Busy(), Busy()])
        assert exact(stages, chunks, workers, depth) == by_events


def test_one_odd_chunk_in_the_middle_is_no_last_one() -> None:
    # One worker, one slot: copies and services add up, 1.5 ns a byte of 1 + 3 + 1 MB.
    stages = [pool(1e9), engine(2e9, 0.0, 0.0)]
    assert exact(stages, [10**6, 3 * 10**6, 10**6], 1, 1).total_s == pytest.approx(7.5e-3)


def test_copies_queued_by_one_caller() -> None:
    # 1 ms each, arriving 3 ms after: with two under way the third waits for the first to arrive.
    stage = engine(1e9, 0.0, 3e-3)
    trace = exact([stage], [10**6] * 4, 1, 2)
    # Starts 0, 1, 4 and 5 ms; the last ends at 6 and arrives at 9 ms.
    assert trace.total_s == pytest.approx(9e-3)
    assert trace.busy_s[0] == pytest.approx(4e-3)
    assert trace.first_s == pytest.approx(4e-3)


def test_what_was_followed_before_is_not_mixed_up() -> None:
    stages = [pool(1e9), engine(2e9, 0.0, 0.0)]
    # Alone with one slot the copies add up: 3 x (1 + 0.5) ms and one of twice that, wherever it is.
    for chunks in ([10**6] * 4, [10**6, 2 * 10**6, 10**6, 10**6], [10**6] * 3 + [2 * 10**6]):
        wanted = 1.5e-9 * sum(chunks)
        assert exact(stages, chunks, 1, 1).total_s == pytest.approx(wanted)
        assert exact(stages, chunks, 1, 1).total_s == pytest.approx(wanted)


def test_nothing_takes_no_time_and_an_empty_piece_only_its_gap() -> None:
    stages = [pool(1e9), engine(1e9, 1e-6, 0.0)]
    assert exact(stages, [], 2, 2).total_s == 0.0
    assert exact(stages, [0], 1, 1).total_s == pytest.approx(1e-6)
