"""One copy as a run of the engine does it, awake and as a flow's first: what is beside the copy.

Curves are of copies back to back. A run of one copy takes longer: its thread is new, and the caller
makes its chunks, notes and waits (the overhead of a curve). The first run of a flow finds what it
executes in no cache, its stream unused and its link idle (`idle`). Both cost the same whatever the
size, so one size tells them: what its run takes longer than the curve says, and what the first one
takes longer than that.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, cast

from planner.engine.awake import Waker
from planner.engine.backends.base import Backend, DeviceBuffer
from planner.engine.caches import THROUGH
from planner.engine.calibration.copies import Walk, curve_of
from planner.engine.calibration.device import Memory, engine_for
from planner.engine.calibration.first import SIZE, First
from planner.engine.calibration.once import Move, Once, cleared
from planner.engine.calibration.rounds import Cell
from planner.engine.memory import HostBuffer, copy_memory
from planner.engine.places import DevicePlace, HostPlace, Place
from planner.engine.strategies.host_gpu import driver, engine
from planner.machine.curve import Curve
from planner.machine.schema import Machine

LITTLE: Final = 1 << 20
"""Bytes of a copy at the most that is hardly more than its latency: 20 us at 55 GB/s, where kernels
and pages take 160 and more."""


class Lone:
    """A movement of one small copy: made ready to be run `awake`, and by a new flow (`asleep`)."""

    def __init__(self, backend: Backend, machine: Machine, gpu: int, walk: Walk) -> None:
        target, source = cast("Memory", walk.target), cast("Memory", walk.source)
        self.size = min(SIZE, target.size, source.size)
        kind = engine_for(gpu, target, source)
        host = target if target.gpu < 0 else source
        ordinary = host.gpu < 0 and not host.pinned
        name, stage = ("pageable", driver(kind)) if ordinary else ("pinned", engine(kind))
        self._target = _place(target)
        move = Move(name, (stage,), _place(source), self._target, self.size)
        self._waker = Waker(backend)
        self._swept = HostBuffer(2 * THROUGH * self.size)
        self._swept.touch()
        self.asleep = First(backend, machine, gpu, walk, self._sweep)
        """The first run of a flow of its own, after a pause."""
        self.awake = Once(backend, gpu, move, self._waker, self._sweep)
        """Its run with the engine woken right before."""
        self.awake()  # the first run pays for what is made once

    def _sweep(self) -> None:
        half = self._swept.size // 2
        copy_memory(self._swept.address + half, self._swept.address, half)
        if isinstance(self._target, HostPlace):
            cleared(self._target, self.size)

    def close(self) -> None:
        """Give lanes and memory back."""
        self._waker.close()
        self.awake.close()
        self._swept.close()


def _place(block: Memory) -> Place:
    if block.gpu < 0:
        return HostPlace(block.owner)
    return DevicePlace(block.gpu, DeviceBuffer(block.gpu, block.address, block.size))


def cells(name: str, run: Lone) -> list[Cell]:
    """The cells of the lone copy of a curve."""
    return [
        Cell(("awake", name, run.size), run.awake),
        Cell(("idle", name, run.size), run.asleep.moved),
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
            "lone_spread": _spread(name, cells),
        }
    )


def _spread(name: str, cells: Sequence[Cell]) -> float | None:
    """The spread of a small copy's run: of the lone one, else of the curve's smallest."""
    known = {cell.key: cell for cell in cells if isinstance(cell.key, tuple) and cell.taken}
    lone = [cell for key, cell in known.items() if key[:2] == ("awake", name)]
    small = [(key[2], cell) for key, cell in known.items() if key[:2] == (name, "alone")]
    lone += [cell for size, cell in sorted(small, key=lambda pair: pair[0])[:1] if size <= LITTLE]
    return lone[0].summary().spread if lone else None
