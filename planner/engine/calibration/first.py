"""The first run of a flow of one small copy: what the program does before its first byte.

Between the steps of a setup that have a name (workers, lanes, memory) the program makes routes,
places and chunks, most of it for the first time in a thread. That is the same for every flow and,
on a fast link, more than a small copy itself; so the engine's own flow is run once, as a plan's.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, cast

from planner.engine.backends.base import Backend, DeviceBuffer
from planner.engine.calibration.device import Memory
from planner.engine.calibration.lone import SIZE
from planner.engine.calibration.pause import after_pause
from planner.engine.ends import Ends
from planner.engine.flow import FlowRunner
from planner.engine.pattern import Pattern
from planner.engine.places import DevicePlace, HostPlace
from planner.engine.verify import from_pattern
from planner.engine.waits import Stop
from planner.machine.schema import Machine
from planner.model.movement import READY
from planner.results import FlowSchedule, Hop

if TYPE_CHECKING:
    from planner.engine.calibration.copies import Walk


class First:
    """A copy from page-locked memory into the first GPU, by a new flow at each call."""

    def __init__(self, backend: Backend, machine: Machine, walk: Walk) -> None:
        self._backend, self._machine = backend, machine
        self._target, self._source = cast("Memory", walk.target), cast("Memory", walk.source)

    def __call__(self) -> float:
        """Seconds of it."""
        size = min(SIZE, self._target.size, self._source.size)
        gpu = self._target.gpu
        hop = Hop(
            link="pcie0",
            start="host0",
            end="gpu0",
            strategy="pinned",
            chunk_bytes=size,
            depth=1,
            workers=1,
            coupled=False,
        )
        schedule = FlowSchedule(flow="calibration", size_bytes=size, hops=(hop,))
        target = DevicePlace(gpu, DeviceBuffer(gpu, self._target.address, size))
        ends = Ends(HostPlace(self._source.owner), target, from_pattern(Pattern(0)))
        runner = FlowRunner(self._backend, self._machine, schedule, ends, Stop())

        def run() -> float:
            setup = runner.sample().setup
            return sum(step.duration_s for step in setup if step.name == READY)

        try:
            return after_pause(self._backend, gpu, run)
        finally:
            runner.close()
