"""Intervals of differences: by counting ranks, held against enumeration and integration."""

from __future__ import annotations

import math
import random
from itertools import combinations, product

import pytest
from hypothesis import given, strategies as st

from planner.review import noise
from planner.review.noise import RISK, Once, lone, shift, shift_from

TIMES = st.lists(st.integers(50, 200).map(lambda t: t / 100), min_size=3, max_size=7)


@pytest.mark.parametrize(("n", "m"), [(1, 1), (2, 3), (3, 3), (4, 2), (5, 4)])
def test_orders_are_counted_as_enumeration_does(n: int, m: int) -> None:
    counts = [0] * (n * m + 1)
    for places in combinations(range(n + m), n):
        # Of the samples at `places`, the k-th (from 0) has places[k] - k of the others before it.
        counts[sum(place - k for k, place in enumerate(places))] += 1
    assert noise._rank_sums(n, m) == counts


@pytest.mark.parametrize("n", [1, 3, 5])
def test_signs_are_counted_as_enumeration_does(n: int) -> None:
    counts = [0] * (n * (n + 1) // 2 + 1)
    for signs in product([0, 1], repeat=n):
        counts[sum(rank for rank, sign in enumerate(signs, 1) if sign)] += 1
    assert noise._signed_ranks(n) == counts


def test_three_beside_three_are_just_enough() -> None:
    # Of 20 orders one has all of A before all of B: a risk of exactly 5 %. So the interval goes
    # from the smallest difference of pairs, 4 - 3, to the largest, 6 - 1.
    assert shift([1.0, 2.0, 3.0], [4.0, 5.0, 6.0]) == (1.0, 5.0)


def test_fewer_samples_tell_nothing() -> None:
    # 2 beside 3: one of 10 orders, a risk of 10 %. 2 beside 5: one of 21, less than 5 %.
    assert shift([1.0, 2.0], [4.0, 5.0, 6.0]) is None
    assert shift([1.0, 2.0], [4.0] * 5) == (2.0, 3.0)
    assert shift([1.0], [2.0]) is None


def test_an_exact_value_needs_five_samples() -> None:
    # All above it by chance: 1 of 2**5 ways, 3 %; of 2**4 ways it would be 6 %.
    assert shift_from(1.0, [2.0, 2.0, 2.0, 2.0]) is None
    assert shift_from(1.0, [2.0, 3.0, 2.0, 3.0, 4.0]) == (1.0, 3.0)


def test_one_disturbed_sample_decides_nothing() -> None:
    quiet, disturbed = [1.0, 1.01, 0.99, 1.0, 1.02], [1.0, 0.99, 1.01, 9.0, 1.01]
    found = shift(quiet, disturbed)
    assert found is not None
    assert found.low <= 0 <= found.high


@given(TIMES, TIMES)
def test_swapping_the_sides_mirrors_the_interval(a: list[float], b: list[float]) -> None:
    there, back = shift(a, b), shift(b, a)
    assert there is not None
    assert back is not None
    assert (there.low, there.high) == pytest.approx((-back.high, -back.low))


@given(TIMES, st.floats(-0.3, 0.3))
def test_a_shift_is_inside_its_interval(a: list[float], by: float) -> None:
    found = shift(a, [sample + by for sample in a])
    assert found is not None
    assert found.low - 1e-9 <= by <= found.high + 1e-9


def test_many_samples_are_judged_like_few() -> None:
    # 60 x 60 pairs go by the normal distribution; counting them gives the same rank within 1.
    n = 60
    assert n * n > noise._EXACT_UP_TO
    counted = noise._rank(noise._rank_sums(n, n))
    approximate = noise._normal_rank(n * n / 2, n * n * (2 * n + 1) / 12)
    assert abs(counted - approximate) <= 1
    a = [1.0 + k / 1000 for k in range(n)]
    assert shift(a, [x + 1 for x in a]) is not None
    assert shift_from(0.0, a) is not None


def test_single_observations_have_the_noise_of_their_samples() -> None:
    # Variances 1 and 4 of 3 samples each: pooled 2.5, two sides, 4 degrees of freedom, t = 2.132.
    found = lone(10.0, Once(2.0, [1.0, 2.0, 3.0]), Once(4.0, [2.0, 4.0, 6.0]))
    assert found is not None
    assert found.half == pytest.approx(2.132 * math.sqrt(2.5 * 2))
    assert found.low + found.half == pytest.approx(10.0)
    assert lone(1.0, Once(1.0, [1.0, 2.0]), Once(1.0, [1.0])) is None
    assert lone(1.0) is None


def test_a_longer_observation_varies_in_proportion() -> None:
    # Five times as long as the median of its samples, 2 s: their standard deviation of 1 s counts
    # five times; one side, 2 degrees of freedom, t = 2.920. A shorter one keeps it.
    for seconds, times in ((10.0, 5.0), (1.0, 1.0)):
        found = lone(0.0, Once(seconds, [1.0, 2.0, 3.0]))
        assert found is not None
        assert found.half == pytest.approx(2.920 * times)


@pytest.mark.parametrize("count", [3, 5, 8])
def test_alike_computers_are_seldom_told_apart(count: int) -> None:
    # Both sides drawn alike: each side is wrongly called slower in at most 5 % of the cases. Of
    # 1,000 draws that is 50, and 3 standard deviations more: 3 x sqrt(1000 x 0.05 x 0.95) = 21.
    draw = random.Random(count)  # noqa: S311 - no secret
    ranks = first = 0
    for _ in range(1000):
        a, b = ([draw.gauss(1.0, 0.1) for _ in range(count + 1)] for _ in range(2))
        found = shift(a[1:], b[1:])
        once = lone(b[0] - a[0], Once(a[0], a[1:]), Once(b[0], b[1:]))
        assert found is not None
        assert once is not None
        ranks += found.low > 0
        first += once.low > 0
    assert ranks <= 71
    assert first <= 71


@pytest.mark.parametrize("freedom", [1, 2, 5, 10, 11, 20, 100])
def test_the_quantile_of_student(freedom: int) -> None:
    # Integrates the density from 0 to t: 0.45 of it lies there if 0.95 lies below t.
    t = noise._student(freedom)
    scale = math.gamma((freedom + 1) / 2) / math.gamma(freedom / 2) / math.sqrt(freedom * math.pi)
    steps = 4000
    points = [(k + 0.5) * t / steps for k in range(steps)]
    density = [scale * (1 + x * x / freedom) ** (-(freedom + 1) / 2) for x in points]
    assert sum(density) * t / steps == pytest.approx(0.5 - RISK, abs=2e-4)
