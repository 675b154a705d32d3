"""Many points over several processes, spawned, so that no thread or lock of ours is copied.

Ctrl-C is the parent's: it stops handing out work, and every process hands back the points that it
has done. Processes end with their parent, however it ends.
"""

from __future__ import annotations

import multiprocessing
import os
import signal
import threading
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ProcessPoolExecutor, as_completed
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Final

from planner.results.sweep import SweepPoint
from planner.review.point import Scene, point

if TYPE_CHECKING:
    from multiprocessing.synchronize import Event

Work = Sequence[tuple[int, tuple[str, ...]]]
"""Indices of points with their values."""
Done = Callable[[int], None]
"""Told how many points are done."""

LEAST_POINTS: Final = 60
"""Points that are worth another process: its start takes as long as about so many of them
(0.6 s to 10 ms each, `benchmarks/sweep.py`)."""
_MOST_A_TURN: Final = 25
_TURNS: Final = 8
"""Turns that each process should get at least, so that none is left with a long rest."""


class InterruptedSweepError(Exception):
    """Ctrl-C; `points` are those that were done."""

    def __init__(self, points: list[SweepPoint]) -> None:
        super().__init__("interrupted")
        self.points = points


def processes_for(points: int) -> int:
    """How many processes are worth while on this computer's cores."""
    return max(1, min(len(os.sched_getaffinity(0)), points // LEAST_POINTS))


def work(scene: Scene, todo: Work, processes: int, done: Done) -> list[SweepPoint]:
    """The points, in order; raises `InterruptedSweepError` with those that are done."""
    found: list[SweepPoint] = []
    try:
        source = _here(scene, todo) if processes == 1 else _spread(scene, todo, processes)
        for several in source:
            found += several
            done(len(found))
    except KeyboardInterrupt:
        raise InterruptedSweepError(_ordered(found)) from None
    except InterruptedSweepError as late:
        raise InterruptedSweepError(_ordered([*found, *late.points])) from None
    return _ordered(found)


def _ordered(points: list[SweepPoint]) -> list[SweepPoint]:
    return sorted(points, key=lambda each: each.index)


def _here(scene: Scene, todo: Work) -> Iterator[list[SweepPoint]]:
    for index, values in todo:
        yield [point(scene, index, values)]


def _spread(scene: Scene, todo: Work, processes: int) -> Iterator[list[SweepPoint]]:
    """The points of each turn as it comes in."""
    context = multiprocessing.get_context("spawn")
    stop = context.Event()
    turn = max(1, min(_MOST_A_TURN, len(todo) // (processes * _TURNS)))
    turns = [todo[start : start + turn] for start in range(0, len(todo), turn)]
    pool = ProcessPoolExecutor(processes, context, _begin, (scene, stop))
    waiting: set[Future[list[SweepPoint]]] = set()
    try:
        with _interrupts_held():  # processes inherit that: a Ctrl-C at a terminal reaches them too
            waiting = {pool.submit(_turn, each) for each in turns}
        for future in as_completed(list(waiting)):
            result = future.result()
            waiting.discard(future)
            yield result
    except KeyboardInterrupt:
        stop.set()
        pool.shutdown(wait=True, cancel_futures=True)
        late = [future.result() for future in waiting if _succeeded(future)]
        raise InterruptedSweepError([each for several in late for each in several]) from None
    finally:
        stop.set()
        pool.shutdown(wait=True, cancel_futures=True)


def _succeeded(future: Future[Any]) -> bool:
    return future.done() and not future.cancelled() and future.exception() is None


@contextmanager
def _interrupts_held() -> Iterator[None]:
    """Keep Ctrl-C for after this block; what is started inside never sees it."""
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


_scene: Scene | None = None
_stop: Event | None = None


def _begin(scene: Scene, stop: Event) -> None:
    """Make a fresh process ready."""
    global _scene, _stop
    _scene, _stop = scene, stop
    parent = multiprocessing.parent_process()
    if parent is not None:
        threading.Thread(target=_end_with, args=(parent.sentinel,), daemon=True).start()


def _end_with(sentinel: int) -> None:
    """End at once when the parent has ended: nobody is left to take a result."""
    from multiprocessing.connection import wait

    wait([sentinel])
    os.kill(os.getpid(), signal.SIGKILL)


def _turn(todo: Work) -> list[SweepPoint]:
    """The points of one turn, as far as it goes before the sweep is stopped."""
    if _scene is None or _stop is None:  # pragma: no cover - `_begin` has run
        raise RuntimeError("the process was not made ready")
    found = []
    for index, values in todo:
        if _stop.is_set():
            break
        found.append(point(_scene, index, values))
    return found
