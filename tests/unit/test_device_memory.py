"""The wait for device memory to come back, which tests on real GPUs rely on."""

from __future__ import annotations

from itertools import chain, repeat

from tests.helpers.devices import missing
from tests.helpers.first_use import SLACK
from tests.helpers.machines import MIB

BEFORE = 1000 * MIB


def test_memory_that_comes_back_late_is_not_missing() -> None:
    """126 MiB are gone at the first three looks, and there at the fourth."""
    looks = chain(repeat(BEFORE - 126 * MIB, 3), repeat(BEFORE))
    asked: list[int] = []
    assert missing([BEFORE], look=lambda _gpu: next(looks), ask=asked.append) == [0]
    assert asked == [0, 0, 0]


def test_a_leak_is_told_by_device_after_the_wait() -> None:
    """One byte over the slack never comes back on the second device; only it is asked."""
    free = [BEFORE, BEFORE - SLACK - 1]
    asked: list[int] = []
    left = missing([BEFORE, BEFORE], look=free.__getitem__, ask=asked.append, patience_s=0.05)
    assert left == [0, SLACK + 1]
    assert set(asked) == {1}


def test_what_the_driver_may_keep_is_not_waited_for() -> None:
    """Within the slack the first look is the last: no device is asked for anything."""
    asked: list[int] = []
    assert missing([BEFORE], look=lambda _gpu: BEFORE - SLACK, ask=asked.append) == [SLACK]
    assert asked == []
