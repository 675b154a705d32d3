"""The events of a lane of the cuda backend, on a driver that only keeps the books."""

from __future__ import annotations

import random
from typing import Any, cast

import pytest

from planner.engine.backends import cuda_lane
from planner.engine.backends.base import Engine
from planner.engine.backends.cuda_lane import CudaLane
from planner.engine.backends.cuda_library import DriverError

KEPT, MORE = 24, 4


class Driver:
    """Events that remember what was recorded in them; copies are named by their target."""

    def __init__(self) -> None:
        self.alive: dict[int, int | None] = {}
        self.most = self.made = 0
        self.current = 0
        self.unread: set[int] = set()
        self.fails_at = -1
        self.streams = 0
        self.driver = self

    def stream(self) -> int:
        self.streams += 1
        return 7

    def drop_stream(self, stream: int) -> None:
        assert stream == 7
        self.streams -= 1

    def wait_stream(self, _stream: int) -> None:
        assert self.streams

    def attach(self, gpu: int) -> None:
        pass

    def event(self, **_words: bool) -> int:
        self.made += 1
        if self.made == self.fails_at:
            raise DriverError("cuEventCreate")
        self.alive[self.made] = None
        self.most = max(self.most, len(self.alive))
        return self.made

    def forget(self, event: int) -> None:
        del self.alive[event]

    def copy(self, target: int, _source: int, _length: int, _stream: int) -> None:
        self.current = target

    def record(self, event: int, _stream: int) -> None:
        # A copy that is in flight, or whose time nobody has asked for yet, keeps its event.
        assert self.alive[event] not in self.unread
        self.alive[event] = self.current or None
        if self.current:
            self.unread.add(self.current)

    def wait(self, event: int) -> None:
        assert event in self.alive

    def when(self, _gpu: int, event: int) -> float:
        found = self.alive[event]
        assert found is not None
        self.unread.discard(found)
        return float(found)


def made(driver: Driver, slots: int, monkeypatch: pytest.MonkeyPatch) -> CudaLane:
    monkeypatch.setattr(cuda_lane, "quick_calls", lambda: driver)
    monkeypatch.setattr(cuda_lane, "LEAST_KEPT", KEPT)
    monkeypatch.setattr(cuda_lane, "KEPT", 0)
    monkeypatch.setattr(cuda_lane, "MORE", MORE)
    return CudaLane(cast("Any", driver), Engine("h2d", 0), slots, spin=True)


@pytest.mark.parametrize("slots", [1, 2, 5, KEPT + 7])
def test_every_copy_that_was_waited_for_is_logged_once_and_in_turn(
    slots: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    chance, driver = random.Random(slots), Driver()  # noqa: S311 - the same every time
    lane = made(driver, slots, monkeypatch)
    in_slot: dict[int, int] = {}
    waited: list[int] = []

    def wait(slot: int) -> None:
        lane.wait(slot)
        if slot in in_slot:
            waited.append(in_slot.pop(slot))

    for copy in range(1, 3000):
        slot = chance.randrange(slots)
        wait(slot)
        if chance.random() < 0.9:
            lane.copy(slot, copy, 0, 1)
            in_slot[slot] = copy
        if chance.random() < 0.02:
            assert lane.log[1::2] == waited
            assert lane.log[1::2] == waited  # and not again
        if chance.random() < 0.02:
            lane.log.clear()
            waited.clear()
    for slot in range(slots):
        wait(slot)
    assert lane.log[1::2] == waited
    assert driver.most <= max(KEPT + MORE, 2 * slots + KEPT)
    lane.close()
    lane.close()
    assert (driver.alive, driver.streams) == ({}, 0)


def test_a_lane_that_is_settled_again_and_again_keeps_its_events(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    driver = Driver()
    lane = made(driver, 2, monkeypatch)
    for _ in range(50):
        for copy in range(1, 2 * KEPT):
            lane.wait(copy % 2)
            lane.copy(copy % 2, copy, 0, 1)
        lane.settle()
        driver.unread.clear()  # the two that were in flight are of no interest any more
        # What was waited for before stays logged.
        assert lane.log[1::2] == list(range(1, 2 * KEPT - 2))
        lane.log.clear()
    assert driver.most <= KEPT + MORE
    lane.close()
    lane.close()
    assert (driver.alive, driver.streams) == ({}, 0)


def test_events_that_were_made_before_one_failed_are_given_back(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    driver = Driver()
    lane = made(driver, 2, monkeypatch)
    driver.fails_at = 2 + MORE // 2 + 1
    for copy in (1, 2):
        lane.copy(copy % 2, copy, 0, 1)
        lane.wait(copy % 2)
    with pytest.raises(DriverError):
        lane.copy(0, 3, 0, 1)
    assert len(driver.alive) == driver.fails_at - 1
    lane.close()
    lane.close()
    assert (driver.alive, driver.streams) == ({}, 0)


def test_a_lane_that_cannot_be_made_leaves_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    driver = Driver()
    driver.fails_at = 2
    with pytest.raises(DriverError):
        made(driver, 3, monkeypatch)
    assert (driver.alive, driver.streams) == ({}, 0)


def test_what_a_closed_lane_had_queued_has_arrived(monkeypatch: pytest.MonkeyPatch) -> None:
    driver = Driver()
    lane = made(driver, 2, monkeypatch)
    lane.copy(1, 5, 0, 1)
    lane.close()
    lane.arrived(1)  # another class's flow may ask what stood in front of it
    assert not driver.alive
