"""Lanes of the cuda backend: when each copy was issued and has arrived, however many there are."""

from __future__ import annotations

import contextlib
from itertools import pairwise

import pytest

from planner.engine.backends.base import Engine
from planner.engine.backends.cuda import CudaBackend
from planner.engine.backends.cuda_lane import KEPT, LEAST_KEPT
from planner.engine.memory import HostBuffer
from tests.helpers.machines import MIB

pytestmark = pytest.mark.gpu

SLOTS = 2
MOST = max(LEAST_KEPT, SLOTS * KEPT)
TIED = 1e-4
"""Seconds within which the device's clock is tied to the host's."""


@pytest.mark.parametrize("count", [1, MOST - SLOTS, MOST + 1, 3 * MOST])
def test_every_copy_is_logged_once(devices: int, count: int) -> None:
    gpu = devices - 1
    with contextlib.ExitStack() as undo:
        backend = CudaBackend()
        undo.callback(backend.close)
        backend.attach(gpu)
        source = HostBuffer(MIB)
        undo.callback(source.close)
        source.touch()
        backend.register(source.address, source.size)
        undo.callback(backend.unregister, source.address)
        target = backend.allocate(gpu, MIB)
        undo.callback(backend.release, target)
        lane = backend.lane(Engine("h2d", gpu), SLOTS)
        undo.callback(lane.close)
        for _ in range(2):  # the second time no event is new
            backend.start_clock()
            for turn in range(count):
                lane.wait(turn % SLOTS)
                lane.copy(turn % SLOTS, target.address, source.address, MIB)
            for slot in range(SLOTS):
                lane.wait((count + slot) % SLOTS)
            log = list(lane.log)
            assert len(log) == 2 * count
            assert lane.log == log  # nothing is logged again
            lane.log.clear()
            issued, ends = log[::2], log[1::2]
            assert issued == sorted(issued)
            assert all(before < after for before, after in pairwise(ends))
            assert all(issue - TIED < end for issue, end in zip(issued, ends, strict=True))
            # A stream is a FIFO over one link: no copy is faster than the fastest there is.
            assert ends[-1] - ends[0] >= (count - 1) * MIB / 200e9
