"""One slot a worker: three bounds that add up in a power."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from planner.model.one_slot import in_turn, together
from planner.model.pipeline import exact, throughput
from planner.model.stage import Stage, Turns

C = 1_000_000


def pool(alone: float, turn: float = 0.0, one_slot: float = 0.5**0.25) -> Stage:
    """Copies of which four equal bounds in the fourth power would leave a quarter."""
    turns = Turns(lambda _: alone, lambda _: turn, one_slot)
    return Stage("cpu", "pool", lambda _: alone, turns=turns)


def _of(seconds: float) -> Callable[[int], float]:
    return lambda _: seconds


def engine(seconds: float, lag: float = 0.0) -> Stage:
    return Stage("dma", "engine", lambda _: seconds, lag=lag)


def test_two_equal_bounds_leave_the_measured_share() -> None:
    # Eight workers, 0.7 ms of copying and 0.1 ms of DMA: the round trip of 0.8 ms allows a chunk
    # each 0.1 ms, and so does the engine. 2^(-1/4) of that is left.
    stages = in_turn((pool(0.7e-3), engine(0.1e-3)), 8)
    assert throughput(stages, C, 8, 1) == pytest.approx(C / 0.1e-3 * 0.5**0.25)


def test_bounds_far_apart_are_met() -> None:
    # A round trip of 0.4 ms for 8 workers is half of the engine's 0.1 ms: (1 + 1/16)^(1/4).
    quick = in_turn((pool(0.3e-3), engine(0.1e-3)), 8)
    assert C / throughput(quick, C, 8, 1) == pytest.approx(0.1e-3 * (1 + 1 / 16) ** 0.25)
    # Two workers are 4 times slower than the engine: (1 + 1/256)^(1/4), a thousandth.
    slow = in_turn((pool(0.7e-3), engine(0.1e-3)), 2)
    assert C / throughput(slow, C, 2, 1) == pytest.approx(0.4e-3, rel=2e-3)


def test_the_locks_are_a_third_bound() -> None:
    # Engine, round trip and locks of 0.1 ms each: 3^(1/4).
    stages = in_turn((pool(0.7e-3, 0.1e-3), engine(0.1e-3)), 8)
    assert C / throughput(stages, C, 8, 1) == pytest.approx(0.1e-3 * 3**0.25)


def test_a_slot_that_stands_idle_makes_the_round_longer() -> None:
    # (0.7 + 0.1 + 0.24) ms of a round, by 8 workers; nothing else comes near.
    copies = Stage(
        "cpu", "pool", lambda _: 0.7e-3, turns=Turns(_of(0.7e-3), _of(0.0), late=0.24e-3)
    )
    stages = in_turn((copies, engine(0.1e-3)), 8)
    assert throughput(stages, C, 8, 1) == pytest.approx(C / 0.13e-3)


def test_an_engine_that_is_the_slowest_hides_the_idle_slot() -> None:
    copies = Stage(
        "cpu", "pool", lambda _: 0.7e-3, turns=Turns(_of(0.7e-3), _of(0.0), late=0.24e-3)
    )
    stages = in_turn((copies, engine(0.2e-3)), 8)
    assert throughput(stages, C, 8, 1) == pytest.approx(C / 0.2e-3)


@pytest.mark.parametrize("drains", [False, True])
def test_chunk_by_chunk_it_takes_as_long(drains: bool) -> None:
    stages = (
        (engine(0.1e-3, 5e-6), pool(0.7e-3)) if drains else (pool(0.7e-3), engine(0.1e-3, 5e-6))
    )
    paced = in_turn(stages, 8)
    trace = exact(paced, [C] * 4000, 8, 1)
    assert trace.total_s == pytest.approx(4000 * C / throughput(paced, C, 8, 1), rel=0.01)


def test_nothing_changes_without_a_share_or_an_engine() -> None:
    whole = (pool(0.7e-3, one_slot=1.0), engine(0.1e-3))
    assert in_turn(whole, 8) == whole
    assert in_turn((pool(0.7e-3),), 8)[0].seconds(C) == 0.7e-3


def test_no_bound_is_beaten() -> None:
    assert together((0.0, 0.0), 3.0) == 0.0
    assert together((2.0, 0.0), 3.0) == 2.0
    assert together((3.0, 4.0), 2.0) == 5.0
