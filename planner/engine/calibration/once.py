"""A movement of one hop, run as a plan's run does it: for what no copy engine does by itself.

Copies back to back find everything that they use in caches. A run of a plan does not: its thread is
new, and other threads have just compared bytes or written them. What the driver does with a CPU's
thread, and what a kernel does, takes another time then; so each size is a movement of the engine
here, and its time is what a run takes: a steady one, whose engines have been woken, or the first.

A steady run follows others of the same plan. The first run of a small one behind other cells finds
neither its code nor its stream in a cache, and took 46 to 68 us where plans of the same size took
38 to 45, kernels that read in place 190 to 320 where they took 165 (H200s, measured 2026-11-30); so
a sample of a small movement is the middle of a few runs in a row.

Between two samples of a plan a GPU's target is cleared and caches are swept or written, and then
the next one begins. That leaves memory, caches and GPU at work, which a pause would let fall
asleep; so a steady run comes right behind the same here, and only the first one after a pause.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from dataclasses import dataclass, field
from time import perf_counter
from typing import Final

from planner.engine.awake import Waker
from planner.engine.backends.base import Backend, DeviceBuffer
from planner.engine.calibration.pause import after_pause, at_once
from planner.engine.calibration.statistics import middle
from planner.engine.ends import THREADS
from planner.engine.kept import Kept
from planner.engine.memory import LentBuffer
from planner.engine.places import DevicePlace, HostPlace, Place
from planner.engine.route import Rest, Route
from planner.engine.strategies.base import Stage
from planner.engine.team import Team
from planner.engine.terms import Terms
from planner.engine.transfer import Line, Moved, Transfer
from planner.engine.waits import Stop
from planner.results import Hop

IN_A_ROW: Final = 9
"""Runs of a small movement in a sample. The first ones behind other kernels and copies are slow,
and by three in a row a kernel that reads 64 KiB in place seemed to take 202 us where plans of the
same size took 157 beside it (one H200, measured 2026-12-01)."""
FEW_IN_A_ROW: Final = 3
"""The same where what is done before each takes longer than the run by far."""
SMALL: Final = 4 << 20
"""Bytes of the largest one: beyond them what is in caches is a hundredth of a run."""
CLEARED: Final = 0xA5
"""What every byte of a target is set to before each run."""


@dataclass(frozen=True, slots=True)
class Move:
    """What moves, and how: the strategy with its stages, the ends, bytes, chunk, slots, workers."""

    strategy: str
    stages: tuple[Stage, ...]
    source: Place
    target: Place
    size: int
    chunk: int = 0
    depth: int = 1
    workers: int = 1
    rests: tuple[Rest, ...] = ()
    terms: Terms = field(default_factory=Terms)


def made_ready(
    backend: Backend, move: Move, undo: contextlib.ExitStack, gpu: int | None = None
) -> Transfer:
    """The movement outside of any flow; `undo` ends its threads, and gives lanes and memory back.

    The threads have reached the `gpu` where one takes part.
    """
    hop = Hop(
        link="",
        start="source",
        end="target",
        strategy=move.strategy,
        chunk_bytes=move.chunk or move.size,
        depth=move.depth,
        workers=move.workers,
        coupled=False,
    )
    route = Route((hop,), move.stages, (0,) * len(move.stages), move.rests)
    line = Line("calibration", move.size, (route,), move.source, move.target)
    stop = Stop()
    team = Team(move.workers, stop, "calibration")
    undo.callback(team.close)
    if gpu is not None:
        team.run(lambda _number: backend.attach(gpu))
    transfer = Transfer(backend, team, stop, line, move.terms)
    undo.callback(transfer.close)
    transfer.prepare()
    return transfer


class Once:
    """A movement made ready; a call runs it once and gives its seconds.

    Parameters
    ----------
    backend, gpu
        What does it, and which GPU takes part.
    move
        The movement, by one worker.
    waker
        Wakes its engines before each run; `None` is a run after a pause.
    before
        What is done before each run and not timed, behind the clearing of a GPU's target: it leaves
        bytes and caches as a plan's run finds them.
    took
        What of a run is asked for; its seconds unless told otherwise.
    in_a_row
        Runs of a sample where the movement is small and awake.

    """

    def __init__(
        self,
        backend: Backend,
        gpu: int,
        move: Move,
        waker: Waker | None,
        before: Callable[[], object] = lambda: None,
        took: Callable[[Moved], float] = lambda moved: moved.end - moved.start,
        in_a_row: int = IN_A_ROW,
    ) -> None:
        self._backend, self._gpu, self._waker = backend, gpu, waker
        self._before, self._took = before, took
        self._runs = in_a_row if waker is not None and move.size <= SMALL else 1
        self.undone = 0.0
        """Seconds in which the last run's registrations were given back."""
        if isinstance(move.target, DevicePlace) and move.terms.use is not None:
            move.target.touched = Kept(move.terms.touching, [0], [move.size])
        self._cleared = _target_of(move)
        self._undo = contextlib.ExitStack()
        self._transfer = made_ready(backend, move, self._undo, gpu)

    def __call__(self) -> float:
        """Run it, or a small one a few times: the seconds of the one in the middle."""
        return middle([self._run() for _ in range(self._runs)])

    def _run(self) -> float:
        """Run it once, in a thread of its own as flows have it."""
        self._backend.attach(self._gpu)  # other cells of this thread use other GPUs
        if self._cleared is not None:
            self._backend.fill(self._cleared, CLEARED)
        self._before()
        begin = after_pause if self._waker is None else at_once
        try:
            return begin(self._backend, self._gpu, self._go, self._wake)
        finally:
            begun = perf_counter()
            self._transfer.give_back()  # another cell may register the same memory
            self.undone = perf_counter() - begun

    def _wake(self) -> None:
        if self._waker is not None:
            self._waker(self._transfer.engines())

    def _go(self) -> float:
        return self._took(self._transfer.run())

    def close(self) -> None:
        """Give lane and memory back."""
        self._undo.close()


def cleared(place: HostPlace, size: int) -> None:
    """Set the first bytes of a target in host memory, by as many threads as a plan has for it."""
    block = LentBuffer(place.buffer.address, min(size, place.buffer.size), lambda: None)
    block.fill(CLEARED, THREADS)
    block.close()


def _target_of(move: Move) -> DeviceBuffer | None:
    """What of a GPU's memory the movement writes, `None` where it goes elsewhere."""
    target = move.target
    if not isinstance(target, DevicePlace) or target.buffer is None:
        return None
    size = move.size if target.touched is None else target.touched.size
    whole = target.buffer
    return DeviceBuffer(whole.gpu, whole.address, min(size, whole.size))
