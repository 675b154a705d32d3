"""Pipelines of any length: hand-worked clocks, the pace, and agreement with the short lines."""

from __future__ import annotations

import random
from itertools import pairwise

import pytest

from planner.model import chain
from planner.model.pipeline import FEW_WAVES, exact, seconds
from planner.model.stage import Stage, lengths


def pool(per_chunk: float, *, through: bool = False) -> Stage:
    return Stage("cpu", "pool", lambda _: per_chunk, through=through)


def engine(per_chunk: float, lag: float = 0.0, *, through: bool = False) -> Stage:
    return Stage("dma", "engine", lambda _: per_chunk, lag=lag, through=through)


def test_three_engines_overlap_like_three_stations() -> None:
    # 1, 2 and 1 s, three chunks, slots enough: 0-1 1-3 3-4, 1-2 3-5 5-6, 2-3 5-7 7-8.
    trace = chain.follow([engine(1.0), engine(2.0), engine(1.0)], [1] * 3, 1, 3)
    assert trace.total_s == 8.0
    assert trace.busy_s == (3.0, 6.0, 3.0)
    assert trace.first_s == 4.0


def test_one_slot_takes_the_whole_line_in_turn() -> None:
    # A chunk takes 1 + 2 + 1 s, and the next one starts when its slot is back: 3 x 4.
    assert chain.follow([engine(1.0), engine(2.0), engine(1.0)], [1] * 3, 1, 1).total_s == 12.0


def test_every_pool_stage_has_threads_of_its_own() -> None:
    # A reader of 2 s and a sender of 2 s side by side: 2, then one chunk each 2 s: 2 + 3 x 2.
    stages = [pool(2.0), pool(2.0), engine(0.5)]
    assert chain.follow(stages, [1] * 3, 1, 3).total_s == 2.0 + 3 * 2.0 + 0.5


def test_a_thread_serves_its_chunks_one_by_one() -> None:
    # Both chunks are there after 1 s, but the one receiver takes 3 s each: 1 + 2 x 3.
    assert chain.follow([engine(0.5), pool(3.0), engine(0.0)], [1, 1], 1, 2).total_s == 0.5 + 6.0


def test_what_passes_on_takes_the_time_of_the_slowest_not_the_sum() -> None:
    # Adapter 1 s, wire 3 s, adapter 1 s: the chunk leaves the last one with the wire's end.
    stages = [engine(1.0), engine(3.0, through=True), engine(1.0, through=True)]
    assert chain.alone(stages, 1) == 3.0
    assert chain.follow(stages, [1], 1, 1).total_s == 3.0
    # Without passing on it would be 1 + 3 + 1.
    assert chain.alone([engine(1.0), engine(3.0), engine(1.0)], 1) == 5.0


def test_slow_streams_share_a_wire_without_holding_it() -> None:
    # Four streams of 4 s a chunk, a wire of 1 s: all four chunks are through after 4 s, not 16.
    stages = [pool(4.0), engine(1.0, through=True)]
    assert chain.follow(stages, [1] * 4, 4, 1).total_s == 4.0
    assert chain.throughput(stages, 1, 4, 2) == 1.0


def test_latency_is_paid_once_where_bytes_pass_on() -> None:
    # Two wires of 1 s with a lag of 2 s each: start 2 s later on the second, arrive 2 s behind it.
    stages = [engine(1.0, 2.0), engine(1.0, 2.0, through=True)]
    assert chain.alone(stages, 1) == 1.0 + 2.0 + 2.0


def test_slots_bound_the_pace() -> None:
    # Two slots, 10 s once round: 2 chunks each 10 s, whatever the stages could do.
    stages = [engine(1.0, 4.0), engine(1.0, 4.0), engine(0.0)]
    assert chain.throughput(stages, 1, 1, 2) == pytest.approx(0.2)


def test_nothing_takes_no_time() -> None:
    assert chain.follow([engine(1.0)] * 3, [], 1, 1).total_s == 0.0


def affine(rng: random.Random, low: float, high: float) -> tuple[float, float]:
    return rng.uniform(1e-6, 3e-5), rng.uniform(low, high)


def timed(kind: str, overhead: float, rate: float) -> Stage:
    return Stage("x", "pool" if kind == "pool" else "engine", lambda n: overhead + n / rate)


def random_stage(rng: random.Random, workers: int, *, first: bool) -> Stage:
    """A pool or an engine of a plausible machine, every third one passing on."""
    through = not first and rng.random() < 1 / 3
    if rng.random() < 0.5:
        overhead, rate = affine(rng, 3e9, 8e9)
        rate = min(workers * rate, rng.uniform(20e9, 80e9)) / workers
        return Stage("cpu", "pool", lambda n: overhead + n / rate, through=through)
    overhead, rate = affine(rng, 10e9, 60e9)
    return Stage("dma", "engine", lambda n: overhead + n / rate, lag=3e-6, through=through)


@pytest.mark.parametrize("seed", range(150))
def test_leaving_out_full_rounds_changes_less_than_two_per_cent(seed: int) -> None:
    rng = random.Random(seed)  # noqa: S311 - repeatable cases, no secret
    workers, depth = rng.choice((1, 2, 3, 4, 8)), rng.choice((1, 2, 3))
    count = rng.choice((3, 4, 5, 6))
    stages = [random_stage(rng, workers, first=i == 0) for i in range(count)]
    chunk = int(2 ** rng.uniform(20, 25))
    size = int(chunk * rng.uniform(1, 3 * FEW_WAVES * workers * max(2, depth)))
    truth = chain.follow(stages, lengths(size, chunk), workers, depth).total_s
    assert seconds(stages, size, chunk, workers, depth) == pytest.approx(truth, rel=0.02)


@pytest.mark.parametrize("seed", range(100))
def test_a_short_line_is_the_same_by_either_account(seed: int) -> None:
    """`exact` knows lines of one and two stages by heart; the general account must agree."""
    rng = random.Random(500 + seed)  # noqa: S311 - repeatable cases, no secret
    kinds = rng.choice(
        (("pool", "engine"), ("engine", "pool"), ("engine", "engine"), ("pool",), ("engine",))
    )
    workers, depth = rng.choice((1, 2, 3, 4, 8)), rng.choice((1, 2, 3))
    stages = [timed(kind, *affine(rng, 3e9, 60e9)) for kind in kinds]
    chunks = lengths(int(rng.uniform(1, 200) * 2**22), 2**22)
    short = exact(stages, chunks, workers, depth)
    general = chain.follow(stages, chunks, workers, depth)
    assert general.total_s == pytest.approx(short.total_s, rel=1e-12)
    assert general.busy_s == pytest.approx(short.busy_s, rel=1e-12)


def test_the_formula_ranks_like_the_clock() -> None:
    # Deeper rings are never slower in either account.
    stages = [pool(3.0), engine(1.0), engine(2.0)]
    by_clock = [chain.follow(stages, [1] * 60, 2, d).total_s for d in (1, 2, 3)]
    by_formula = [chain.formula(stages, 60, 1, 2, d) for d in (1, 2, 3)]
    assert all(a >= b for a, b in pairwise(by_clock))
    assert all(a >= b for a, b in pairwise(by_formula))
    assert by_formula == pytest.approx(by_clock, rel=0.06)
