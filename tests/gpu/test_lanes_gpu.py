"""Lanes of the cuda backend: when each copy was issued and has arrived, however many there are."""

from __future__ import annotations

import contextlib
from itertools import pairwise
from typing import Literal

import numpy as np
import pytest

from planner.engine.backends.base import Engine
from planner.engine.backends.cuda import CudaBackend
from planner.engine.backends.cuda_lane import KEPT, LEAST_KEPT
from planner.engine.backends.cuda_quick import quick_calls
from planner.engine.memory import HostBuffer
from tests.helpers.machines import MIB

pytestmark = pytest.mark.gpu

SLOTS = 2
MOST = max(LEAST_KEPT, SLOTS * KEPT)
TIED = 1e-4
"""Seconds within which the device's clock is tied to the host's."""


@pytest.mark.parametrize("at_once", [True, False])
@pytest.mark.parametrize("kind", ["h2d", "d2h"])
def test_copies_of_several_slots_all_arrive(
    devices: int, kind: Literal["h2d", "d2h"], at_once: bool
) -> None:
    gpu, size = devices - 1, MIB + 4097
    with contextlib.ExitStack() as undo:
        backend = CudaBackend()
        undo.callback(backend.close)
        backend.attach(gpu)
        there, back = HostBuffer(4 * size), HostBuffer(4 * size)
        for buffer in (there, back):
            undo.callback(buffer.close)
            buffer.touch()
            backend.register(buffer.address, buffer.size)
            undo.callback(backend.unregister, buffer.address)
        there.array[:] = np.random.default_rng(5).integers(0, 256, there.size, np.uint8)
        device = backend.allocate(gpu, 4 * size)
        undo.callback(backend.release, device)
        lane = backend.lane(Engine(kind, gpu), 4)
        undo.callback(lane.close)
        quick = quick_calls()
        if not at_once:
            undo.callback(setattr, quick, "_batch", quick._batch)
            undo.callback(setattr, quick, "_slow_batch", quick._slow_batch)
            quick._batch = quick._slow_batch = None
        # What is copied changes places, so that none of the pieces lies beside the next one.
        places = [(2, 0), (0, 3), (3, 1), (1, 2)]
        if kind == "h2d":
            pairs = [(device.address, there.address, to, at) for to, at in places]
        else:
            backend.write(device, 0, there.address, 4 * size)
            pairs = [(back.address, device.address, to, at) for to, at in places]
        copies = [
            (slot, target + to * size, source + at * size, size)
            for slot, (target, source, to, at) in enumerate(pairs)
        ]
        backend.start_clock()
        lane.copy_slots(copies)
        for slot in range(4):
            lane.wait(slot)
        assert len(lane.log) == 8
        assert len(set(lane.log[1::2])) == 1
        if kind == "h2d":
            backend.read(device, 0, back.address, 4 * size)
        found, wanted = back.array.reshape(4, size), there.array.reshape(4, size)
        for to, at in places:
            assert np.array_equal(found[to], wanted[at])


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
