"""The first run of a flow of one small copy: what the program does before its first byte.

Between the steps of a setup that have a name (workers, lanes, memory) the program makes routes,
places and chunks, most of it for the first time in a thread. That is the same for every flow and,
on a fast link, more than a small copy itself. Its worker starts in a thread that is new, too, and
the copy is the first one of a stream, by code that is in no cache, over a link that idles. So the
engine's own flow is run once, as a plan's is, and told step by step.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Final, cast

from planner.engine.backends.base import Backend, DeviceBuffer
from planner.engine.calibration.device import Memory
from planner.engine.calibration.once import cleared
from planner.engine.calibration.pause import LONG_PAUSE, PAUSE, after_pause
from planner.engine.ends import Ends
from planner.engine.flow import FlowRunner
from planner.engine.flow_sample import FlowSample
from planner.engine.pattern import Pattern
from planner.engine.places import DevicePlace, HostPlace, Place
from planner.engine.verify import from_pattern
from planner.engine.waits import Stop
from planner.machine.schema import Hbm, Machine
from planner.model.movement import LANES, READY, REGISTER, START
from planner.model.strategies import Shape
from planner.results import FlowSchedule, Hop

if TYPE_CHECKING:
    from planner.engine.calibration.copies import Walk

SIZE = 256 << 10
"""Bytes of the copy: 5 us at 55 GB/s, so that a rate that is 10 % off changes nothing."""
CHUNK: Final = 1 << 20
"""Bytes of a chunk of a ring."""
RING_WORKERS: Final = 8
"""Workers that fill a ring, at most: about as many fill a link."""


class First:
    """A copy from one block of memory into another, by a new flow at each call.

    Parameters
    ----------
    backend, machine, gpu
        What does it, the names of the places, and which GPU takes part.
    walk
        The two blocks; of ordinary memory it is the driver's own copy.
    before
        What is done before each run and not timed.
    workers
        So many fill a ring, a chunk each; without, it is one copy by one worker.

    """

    def __init__(
        self,
        backend: Backend,
        machine: Machine,
        gpu: int,
        walk: Walk,
        before: Callable[[], object] = lambda: None,
        workers: int = 0,
    ) -> None:
        self._backend, self._machine, self._gpu, self._before = backend, machine, gpu, before
        self._target, self._source = cast("Memory", walk.target), cast("Memory", walk.source)
        wanted = workers * CHUNK or SIZE
        self.size = min(wanted, self._target.size, self._source.size)
        self._shape = Shape(CHUNK, 1, workers) if workers else Shape(self.size, 1, 1)
        self._strategy = "staged" if workers else _strategy(self._source, self._target)

    def moved(self) -> float:
        """Seconds of the movement itself."""
        moves = self._sample().moves
        return moves[-1].end - moves[0].start

    def ready(self) -> float:
        """Seconds in which the movement is made ready."""
        return self._step(READY)

    def started(self) -> float:
        """Seconds in which its worker is started."""
        return self._step(START)

    def registered(self) -> float:
        """Seconds in which its ring is registered."""
        return self._step(REGISTER)

    def opened(self) -> float:
        """Seconds in which its lane is opened."""
        return self._step(LANES)

    def _step(self, name: str) -> float:
        return sum(step.duration_s for step in self._sample().setup if step.name == name)

    def _sample(self) -> FlowSample:
        """The first sample of a new flow, in a thread of its own."""
        hop = Hop(
            link="",
            start=self._node(self._source),
            end=self._node(self._target),
            strategy=self._strategy,
            chunk_bytes=self._shape.chunk,
            depth=self._shape.depth,
            workers=self._shape.workers,
            coupled=False,
        )
        schedule = FlowSchedule(flow="calibration", size_bytes=self.size, hops=(hop,))
        source, target = (self._place(block) for block in (self._source, self._target))
        ends = Ends(source, target, from_pattern(Pattern(0)))
        self._backend.attach(self._gpu)  # other cells of this thread use other GPUs
        if isinstance(target, HostPlace):
            cleared(target, self.size)
        self._before()
        runner = FlowRunner(self._backend, self._machine, schedule, ends, Stop())
        found: list[FlowSample] = []

        def run() -> float:
            found.append(runner.sample())
            return 0.0

        try:
            pause = LONG_PAUSE if self._strategy == "peer" else PAUSE
            after_pause(self._backend, self._gpu, run, seconds=pause)
        finally:
            runner.close()
        return found[0]

    def _node(self, block: Memory) -> str:
        """The name of the place that a block lies in."""
        if block.gpu < 0:
            return "host0"
        nodes = self._machine.nodes.items()
        return next(n for n, node in nodes if isinstance(node, Hbm) and node.device == block.gpu)

    def _place(self, block: Memory) -> Place:
        if block.gpu < 0:
            return HostPlace(block.owner)
        return DevicePlace(block.gpu, DeviceBuffer(block.gpu, block.address, self.size))


def _strategy(source: Memory, target: Memory) -> str:
    """How a flow copies between two blocks."""
    if source.gpu >= 0 and target.gpu >= 0:
        return "local" if source.gpu == target.gpu else "peer"
    host = source if source.gpu < 0 else target
    return "pinned" if host.pinned else "pageable"
