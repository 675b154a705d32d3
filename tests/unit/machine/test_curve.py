from __future__ import annotations

import pytest
from hypothesis import given, strategies as st
from pydantic import ValidationError

from planner.machine.curve import Curve, Point

MiB = 2**20
SIZES = st.integers(1, 2**34)
RATES = st.floats(1e6, 1e12)
LATENCIES = st.floats(1e-7, 1e-2)


@st.composite
def curves(draw: st.DrawFn) -> Curve:
    sizes = sorted(draw(st.lists(SIZES, min_size=1, max_size=6, unique=True)))
    times = [draw(st.floats(1e-7, 10.0)) for _ in sizes]
    gap = draw(st.none() | LATENCIES)
    rows = tuple(zip(sizes, times, strict=True))
    return Curve.model_validate(
        {"points": rows, "latency": draw(LATENCIES), "gap": gap, "rate": draw(RATES)}
    )


@given(LATENCIES, RATES, SIZES)
def test_without_points_a_curve_is_latency_plus_bytes_by_rate(
    latency: float, rate: float, size: int
) -> None:
    assert Curve(latency=latency, rate=rate).seconds(size) == latency + size / rate


@given(LATENCIES, RATES, st.lists(SIZES, min_size=2, max_size=6, unique=True), SIZES)
def test_points_on_a_line_give_the_line_everywhere(
    latency: float, rate: float, sizes: list[int], size: int
) -> None:
    rows = tuple((s, latency + s / rate) for s in sorted(sizes))
    curve = Curve.model_validate({"points": rows, "latency": latency, "rate": rate})
    assert curve.seconds(size) == pytest.approx(latency + size / rate, rel=1e-9)


@given(curves())
def test_points_are_met_as_nearly_as_times_that_never_fall_can(curve: Curve) -> None:
    # The max-min formula of isotonic regression: of all means over stretches around a point, the
    # largest over the beginnings of the smallest over the ends. In order it is the point itself.
    times = [point.seconds for point in curve.points]
    for i, point in enumerate(curve.points):
        wanted = max(
            min(sum(times[j : k + 1]) / (k + 1 - j) for k in range(i, len(times)))
            for j in range(i + 1)
        )
        assert curve.seconds(point.size_bytes) == pytest.approx(wanted, rel=1e-9)


@given(curves(), SIZES, SIZES)
def test_more_bytes_are_never_faster(curve: Curve, one: int, other: int) -> None:
    less, more = sorted((one, other))
    # Interpolation rounds: equal times may differ in the last digit.
    assert curve.seconds(less) <= curve.seconds(more) * (1 + 1e-12)


def test_between_two_points_time_grows_with_size() -> None:
    # Half way from 1 MiB in 20 us to 3 MiB in 60 us: 2 MiB in 40 us. Below the first point, half
    # way from the latency of 10 us: 15 us. Above the last one 1 MiB more at 1 MiB / 50 us.
    curve = Curve.model_validate(
        {"points": [(MiB, 20e-6), (3 * MiB, 60e-6)], "latency": 10e-6, "rate": MiB / 50e-6}
    )
    assert curve.seconds(2 * MiB) == pytest.approx(40e-6)
    assert curve.seconds(MiB // 2) == pytest.approx(15e-6)
    assert curve.seconds(4 * MiB) == pytest.approx(110e-6)
    assert curve.seconds(0) == 10e-6


@given(curves(), SIZES)
def test_a_queued_copy_saves_the_latency_but_pays_the_gap(curve: Curve, size: int) -> None:
    saved = curve.latency - curve.queued_gap
    assert saved >= 0
    assert curve.service(size) >= curve.queued_gap
    assert curve.service(size) >= curve.seconds(size) - saved
    assert curve.service(size) <= curve.seconds(size) + curve.queued_gap


@given(LATENCIES, RATES, st.floats(0, 1), SIZES)
def test_service_on_a_line_is_gap_plus_bytes_by_rate(
    latency: float, rate: float, share: float, size: int
) -> None:
    curve = Curve(latency=latency, gap=share * latency, rate=rate)
    expected = share * latency + size / rate
    assert curve.service(size) == pytest.approx(expected, rel=1e-9, abs=1e-18)


def test_a_gap_above_the_latency_counts_as_the_latency() -> None:
    assert Curve(latency=5e-6, gap=9e-6, rate=1e9).queued_gap == 5e-6
    assert Curve(latency=5e-6, rate=1e9).queued_gap == 5e-6


@given(LATENCIES, RATES, RATES, SIZES)
def test_another_rate_changes_only_the_share_of_the_bytes(
    latency: float, rate: float, other: float, size: int
) -> None:
    rows = ((MiB, latency + MiB / rate), (64 * MiB, latency + 64 * MiB / rate))
    curve = Curve.model_validate({"points": rows, "latency": latency, "rate": rate})
    moved = curve.at_rate(other)
    assert moved.rate == other
    assert moved.seconds(size) == pytest.approx(latency + size / other, rel=1e-6)


def test_no_point_becomes_faster_than_the_wire() -> None:
    # 1 GB in 0.9 s on a wire of 1 GB/s was measured too fast; at 2 GB/s the change of -0.5 s would
    # leave 0.4 s, less than the 0.5 s that the bytes need.
    curve = Curve.model_validate({"points": [(10**9, 0.9)], "latency": 0, "rate": 1e9})
    assert curve.at_rate(2e9).points[0].seconds == 0.5


@given(curves(), st.floats(0.1, 10), SIZES)
def test_slower_multiplies_every_time(curve: Curve, factor: float, size: int) -> None:
    before = curve.seconds(size)  # asked first: what was derived must not be carried along
    slower = curve.slower(factor)
    assert slower.seconds(size) == pytest.approx(before * factor, rel=1e-9)
    assert slower.service(size) == pytest.approx(curve.service(size) * factor, rel=1e-9)


@pytest.mark.parametrize(
    ("points", "complaint"),
    [
        ([(2, 1.0), (1, 2.0)], "grow in size"),
        ([(1, 1.0), (1, 2.0)], "grow in size"),
        ([(1, 0.0)], "above 0"),
        ([(0, 1.0)], "above 0"),
        ([(1, 1.0, 2.0)], "a pair"),
    ],
)
def test_points_that_cannot_be_are_refused(points: list[tuple[float, ...]], complaint: str) -> None:
    with pytest.raises(ValidationError, match=complaint):
        Curve.model_validate({"points": points, "latency": 0, "rate": 1e9})


def test_points_are_read_as_people_write_them() -> None:
    curve = Curve.model_validate(
        {"points": [["4KiB", "5.6us"]], "latency": "5us", "rate": "54.8GB/s"}
    )
    assert (curve.points[0].size_bytes, curve.points[0].seconds) == (4096, 5.6e-6)


def test_measured_copies_in_a_queue_are_what_a_pipeline_pays() -> None:
    # A lone copy of 4 MiB takes 119 us (it wakes the link), in a queue 78.5 us. Half way between
    # 1 MiB (22.9 us) and 4 MiB the queue takes (22.9 + 78.5) / 2; above it goes on at the rate.
    curve = Curve(
        points=(Point(size_bytes=4 << 20, seconds=119e-6),),
        queued=(
            Point(size_bytes=1 << 20, seconds=22.9e-6),
            Point(size_bytes=4 << 20, seconds=78.5e-6),
        ),
        latency=12e-6,
        gap=3e-6,
        rate=55e9,
    )
    assert curve.seconds(4 << 20) == pytest.approx(119e-6)
    assert curve.service(4 << 20) == pytest.approx(78.5e-6)
    assert curve.service(5 << 19) == pytest.approx((22.9e-6 + 78.5e-6) / 2)
    assert curve.service(8 << 20) == pytest.approx(78.5e-6 + (4 << 20) / 55e9)
    assert curve.slower(2).service(4 << 20) == pytest.approx(157e-6)


def test_neighbours_in_the_wrong_order_take_their_mean() -> None:
    # 16 KiB took longer than 64 and 128 KiB: (26 + 20 + 20) / 3 = 22 us for all three; the copies
    # around them are as measured. 8 KiB is a third of the way from 4 to 16 KiB: 20 + (22 - 20) / 3.
    rows = [[4, 20], [16, 26], [64, 20], [128, 20], [256, 25]]
    points = [[kib << 10, us * 1e-6] for kib, us in rows]
    made = Curve.model_validate({"points": points, "latency": 20e-6, "rate": 50e9})
    for kib, us in ((4, 20), (8, 20 + 2 / 3), (16, 22), (64, 22), (128, 22), (256, 25)):
        assert made.seconds(kib << 10) == pytest.approx(us * 1e-6)


@given(st.floats(1e-6, 1e-4), st.floats(1e9, 1e11), st.floats(0.1, 10), st.floats(0.1, 10), SIZES)
def test_what_is_beside_the_bytes_may_be_slower_by_itself(
    latency: float, rate: float, factor: float, lone: float, size: int
) -> None:
    sizes = (1 << 12, 1 << 20, 1 << 30)
    line = [Point(size_bytes=n, seconds=latency + n / rate) for n in sizes]
    for points in ((), tuple(line)):
        curve = Curve(points=points, latency=latency, overhead=1e-5, idle=2e-5, rate=rate)
        slower = curve.slower(factor, lone)
        assert slower.seconds(size) == pytest.approx(latency * lone + size / rate * factor)
        assert (slower.overhead, slower.idle) == pytest.approx((1e-5 * lone, 2e-5 * lone))


def test_a_latency_above_the_smallest_point_counts_as_that_point() -> None:
    points = [Point(size_bytes=n << 20, seconds=s) for n, s in ((1, 7.9e-6), (2, 9.4e-6))]
    curve = Curve(points=tuple(points), latency=8.1e-6, rate=1e12)
    low, high = curve.slower(1.01, 1.4), curve.slower(0.99, 0.6)
    for size in (1, 1 << 20, 1_300_000, 1 << 21, 1 << 24):
        assert low.seconds(size) > curve.seconds(size) > high.seconds(size)
