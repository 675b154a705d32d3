"""The tight loops answer what a plain account of the same queues does."""

from __future__ import annotations

import pytest
from hypothesis import given, strategies as st

from planner.model.pipeline import exact
from planner.model.stage import Noted, Stage, lengths


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
