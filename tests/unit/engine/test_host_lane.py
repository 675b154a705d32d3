"""An emulated engine whose copy fails: whoever waits for the slot is told, and the others go on."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing

import numpy as np
import pytest

from planner.engine.backends.base import Engine, Lane
from planner.engine.backends.host import HostBackend
from planner.engine.backends.host_lane import HostLane
from planner.engine.memory import HostBuffer

BAD = 1 << 30
"""An address at which the engine of these tests has nothing."""


@pytest.fixture
def lane(monkeypatch: pytest.MonkeyPatch) -> Iterator[Lane]:
    serve = HostLane.serve

    def faulty(self: HostLane, parts: list[tuple[int, int, int]]) -> None:
        if parts[0][1] == BAD:
            raise RuntimeError("the link is down")
        serve(self, parts)

    monkeypatch.setattr(HostLane, "serve", faulty)
    with closing(HostBackend()) as backend:
        yield backend.lane(Engine("h2d", 0), 2)


def test_the_error_comes_to_who_waits_and_the_slot_is_free_again(lane: Lane) -> None:
    with closing(HostBuffer(4096)) as source, closing(HostBuffer(4096)) as target:
        source.fill(7)
        target.fill(0)
        lane.copy(0, target.address, BAD, 4096)
        lane.copy(1, target.address, source.address, 100)
        with pytest.raises(RuntimeError, match="the link is down"):
            lane.wait(0)
        lane.wait(0)
        lane.wait(1)
        assert np.count_nonzero(target.array) == 100
        lane.copy(0, target.address, source.address, 200)
        while not lane.landed(0):
            pass
        assert np.count_nonzero(target.array) == 200


def test_asking_whether_it_landed_tells_too(lane: Lane) -> None:
    lane.copy(0, BAD, BAD, 1)
    lane.arrived(0)
    with pytest.raises(RuntimeError, match="the link is down"):
        lane.landed(0)
    assert lane.landed(0)


def test_settling_neither_hangs_nor_raises(lane: Lane) -> None:
    lane.copy(0, BAD, BAD, 1)
    lane.copy(1, BAD, BAD, 1)
    lane.settle()
    assert lane.landed(0)
    assert lane.landed(1)
