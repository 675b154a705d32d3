"""One copy after a pause, as a run of the engine does it: what waking up takes.

Copies back to back find caller, engine and link awake. The one copy of a run does not: its thread
is new, what it executes is in no cache, and the link has idled. That costs the same whatever the
size, so one size tells it: what its run takes longer than the curve says.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, cast

from planner.engine.backends.base import Backend, DeviceBuffer
from planner.engine.calibration.copies import Walk, curve_of
from planner.engine.calibration.device import Memory, engine_for
from planner.engine.calibration.pause import after_pause
from planner.engine.calibration.rounds import Cell
from planner.engine.memory import HostBuffer, copy_memory
from planner.engine.places import DevicePlace, HostPlace, Place
from planner.engine.route import Route
from planner.engine.strategies.host_gpu import driver, engine
from planner.engine.team import Team
from planner.engine.transfer import Line, Transfer
from planner.engine.waits import Stop
from planner.machine.curve import Curve
from planner.results import Hop

SIZE: Final = 256 << 10
"""Bytes of the copy: 5 us at 55 GB/s, so that a rate that is 10 % off changes nothing."""
SWEPT: Final = 4 << 20
"""Bytes copied by the CPU before each, as much as the private caches of a core hold: between two
runs of a plan bytes are verified, and sources written."""


class Lone:
    """A movement of one small copy, made ready."""

    def __init__(self, backend: Backend, gpu: int, walk: Walk) -> None:
        target, source = cast("Memory", walk.target), cast("Memory", walk.source)
        size = min(SIZE, target.size, source.size)
        kind = engine_for(gpu, target, source)
        host = target if target.gpu < 0 else source
        ordinary = host.gpu < 0 and not host.pinned
        hop = Hop(
            link="",
            start="source",
            end="target",
            strategy="pageable" if ordinary else "pinned",
            chunk_bytes=size,
            depth=1,
            workers=1,
            coupled=False,
        )
        stage = driver(kind) if ordinary else engine(kind)
        line = Line(
            "calibration",
            size,
            (Route((hop,), (stage,), (0,), ()),),
            _place(source),
            _place(target),
        )
        stop = Stop()
        backend.attach(gpu)
        self.size = size
        self._backend, self._gpu = backend, gpu
        self._team = Team(1, stop, "calibration")
        self._transfer = Transfer(backend, self._team, stop, line)
        self._transfer.prepare()
        self._swept = HostBuffer(2 * SWEPT)
        self._swept.touch()
        self._go()

    def __call__(self) -> float:
        """Seconds of the run of one copy, in a thread of its own as flows have it."""
        address = self._swept.address
        copy_memory(address + SWEPT, address, SWEPT)
        return after_pause(self._backend, self._gpu, self._go)

    def _go(self) -> float:
        moved = self._transfer.run()
        return moved.end - moved.start

    def close(self) -> None:
        """Give lane and memory back."""
        self._transfer.close()
        self._team.close()
        self._swept.close()


def _place(block: Memory) -> Place:
    if block.gpu < 0:
        return HostPlace(block.owner)
    return DevicePlace(block.gpu, DeviceBuffer(block.gpu, block.address, block.size))


def cell(name: str, run: Lone) -> Cell:
    """The cell of the lone copy of a curve."""
    return Cell(("idle", name, run.size), run)


def rested(name: str, cells: Sequence[Cell]) -> Curve | None:
    """The curve of that name with what a copy takes longer after a pause, `None` without a curve.

    The lone copy is always of the same place, so ordinary memory is held against its hot curve;
    the pause costs the same for cold memory.
    """
    curve = curve_of(name, cells)
    base = name.removesuffix("_hot")
    if curve is None:
        return None
    awake = curve_of(f"{base}_hot", cells) or curve
    for own in cells:
        key = own.key
        if isinstance(key, tuple) and key[:2] == ("idle", base) and own.taken:
            idle = max(0.0, own.summary().median - awake.seconds(key[2]))
            return curve.model_copy(update={"idle": idle})
    return curve
