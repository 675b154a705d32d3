"""One copy as a run of the engine does it, awake and after a pause: what is beside the copy.

Curves are of copies back to back. A run of one copy takes longer: its thread is new, and the caller
makes its chunks, notes and waits (the overhead of a curve). After a pause what it executes is in no
cache, and the link has idled (`idle`). Both cost the same whatever the size, so one size tells
them: what its run takes longer than the curve says, and what it takes longer after a pause.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, cast

from planner.engine.awake import Waker
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
        self._waker = Waker(backend)
        self._swept = HostBuffer(2 * SWEPT)
        self._swept.touch()
        self._go()

    def asleep(self) -> float:
        """Seconds of the run of one copy after a pause, in a thread of its own as flows have it."""
        self._sweep()
        return after_pause(self._backend, self._gpu, self._go)

    def awake(self) -> float:
        """The same with the engine woken right before."""
        self._sweep()
        engines = self._transfer.engines()
        return after_pause(self._backend, self._gpu, self._go, lambda: self._waker(engines))

    def _sweep(self) -> None:
        address = self._swept.address
        copy_memory(address + SWEPT, address, SWEPT)

    def _go(self) -> float:
        moved = self._transfer.run()
        return moved.end - moved.start

    def close(self) -> None:
        """Give lane and memory back."""
        self._waker.close()
        self._transfer.close()
        self._team.close()
        self._swept.close()


def _place(block: Memory) -> Place:
    if block.gpu < 0:
        return HostPlace(block.owner)
    return DevicePlace(block.gpu, DeviceBuffer(block.gpu, block.address, block.size))


def cells(name: str, run: Lone) -> list[Cell]:
    """The cells of the lone copy of a curve."""
    return [
        Cell(("awake", name, run.size), run.awake),
        Cell(("idle", name, run.size), run.asleep),
    ]


def rested(name: str, cells: Sequence[Cell]) -> Curve | None:
    """The curve of that name with what a run of one copy takes longer, `None` without a curve.

    The lone copy is always of the same place, so ordinary memory is held against its hot curve;
    overhead and pause cost the same for cold memory.
    """
    curve = curve_of(name, cells)
    base = name.removesuffix("_hot")
    if curve is None:
        return None
    alike = curve_of(f"{base}_hot", cells) or curve
    runs = {
        own.key[0]: (own.key[2], own.summary().median)
        for own in cells
        if isinstance(own.key, tuple) and own.key[:2] in {("idle", base), ("awake", base)}
        if own.taken
    }
    if not runs:
        return curve
    # A curve whose points are runs of the engine themselves holds the overhead already.
    size, asleep = runs.get("idle", (0, 0.0))
    size, awake = runs.get("awake", (size, alike.seconds(size)))
    return curve.model_copy(
        update={
            "overhead": max(0.0, awake - alike.seconds(size)),
            "idle": max(0.0, asleep - awake),
        }
    )
