"""Medians, spreads, and the signs of disturbance."""

from __future__ import annotations

import pytest

from planner.engine.calibration import noise
from planner.engine.calibration.statistics import quartile, spread_around, summary, typical


def test_the_summary_of_five_samples() -> None:
    # Sorted 1 2 3 4 10: median 3, quartiles 2 and 4, so half the range is 1 and a third of 3.
    found = summary([10, 1, 3, 2, 4])
    assert (found.median, found.samples) == (3, 5)
    assert found.spread == pytest.approx(1 / 3)


def test_quartiles_lie_between_samples() -> None:
    # A quarter of the way through three steps is 0.75 steps in: 1 + 0.75 x (3 - 1).
    assert quartile([1, 3, 5, 7], 0.25) == pytest.approx(2.5)


def test_one_sample_has_no_spread_and_none_has_no_summary() -> None:
    assert summary([5.0]).spread is None  # one sample tells nothing of it
    with pytest.raises(ValueError, match="at least one"):
        summary([])
    assert typical([]) is None
    assert typical([None, 0.2, None]) == 0.2
    assert typical([None]) is None
    assert typical([0.1, 0.3, 0.2]) == 0.2


@pytest.mark.parametrize(
    ("busy", "own", "steal", "waiting", "threads", "told"),
    [
        (1.0, 1.0, 0.0, 0.0, 1, False),
        # One second on two cores allows 0.03 x 2 and two ticks of 10 ms = 0.08 s of others' time.
        (1.07, 1.0, 0.0, 0.0, 1, False),
        (1.09, 1.0, 0.0, 0.0, 1, True),
        (1.0, 1.0, 0.09, 0.0, 1, True),
        # One thread may wait 0.03 s and a millisecond.
        (1.0, 1.0, 0.0, 0.03, 1, False),
        (1.0, 1.0, 0.0, 0.04, 1, True),
        # Two threads on two cores stand in each other's way by themselves.
        (1.0, 1.0, 0.0, 0.04, 2, False),
    ],
)
def test_signs_of_disturbance(
    monkeypatch: pytest.MonkeyPatch,
    busy: float,
    own: float,
    steal: float,
    waiting: float,
    threads: int,
    told: bool,
) -> None:
    monkeypatch.setattr(noise, "_tick", lambda: 0.01)
    before = noise._Reading(0.0, 0.0, 0.0, 0.0, 0.0)
    after = noise._Reading(1.0, own, busy, steal, waiting)
    assert noise.verdict(before, after, threads, 2) is told


@pytest.mark.parametrize(
    ("faults", "waits", "threads", "told"),
    [
        (64, 0, 1, False),
        (65, 0, 1, True),
        # Each thread may have its own 64 pages.
        (128, 0, 2, False),
        # A fault that waits for a disk is one too many.
        (1, 1, 1, True),
    ],
)
def test_memory_that_is_there_has_no_faults(
    faults: int, waits: int, threads: int, told: bool
) -> None:
    before = noise._Reading(0.0, 0.0, 0.0, 0.0, 0.0)
    after = noise._Reading(1.0, 1.0, 1.0, 0.0, 0.0, faults, waits)
    assert noise.verdict(before, after, threads, 2, resident=True) is told
    assert noise.verdict(before, after, threads, 2) is False


def test_the_spread_around_several_values_takes_every_sample() -> None:
    # Over their values: 0.9, 1.1 and 0.8, 1.2, so quartiles 0.875 and 1.125 around 1.
    samples = {"a": [9.0, 11.0], "b": [16.0, 24.0]}
    assert spread_around(samples, {"a": 10.0, "b": 20.0}) == pytest.approx(0.125)
    # One sample of each says nothing, however far it lies from the value that others gave it.
    assert spread_around({"a": [9.0], "b": [24.0]}, {"a": 10.0, "b": 20.0}) is None
