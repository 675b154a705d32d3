"""Two pipelines at once, each into a GPU of its own: what the copies can do when no engine limits.

One copy engine beside many workers is slower than it is alone, which looks as if they copied less.
Two engines tell the two apart: whatever both bring together, the copies have done.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from dataclasses import replace
from threading import Barrier, BrokenBarrierError
from typing import Final

from planner.engine.awake import Waker
from planner.engine.backends.base import Backend
from planner.engine.calibration.joint import CHUNK, MIB, Pipelines, Run, Stock, runs
from planner.engine.calibration.pause import after_pause
from planner.engine.calibration.rounds import Cell
from planner.engine.transfer import Moved
from planner.machine.schema import CopyName, Machine
from planner.model.strategies import Shape

PAIR: Final = "pair"
"""First part of the key of such a run; its bytes are those of both."""
COPIES: Final[tuple[CopyName, ...]] = ("file", "memory")
"""Copies that are run: those towards the GPUs."""
LEAST_EACH: Final = 4
"""Workers of each at the least: fewer never meet."""


def counts(workers: Sequence[int]) -> list[int]:
    """Workers of each of the two: together they are as many as a table has a row for.

    >>> counts([1, 2, 4, 8, 16, 24, 32]), counts([1, 2])
    ([4, 8, 12, 16], [1])
    """
    halves = [count // 2 for count in workers if count % 2 == 0]
    return [half for half in halves if half >= LEAST_EACH] or halves[-1:]


class Pairs:
    """Pairs of pipelines of one kind of copy, made ready when they are asked for."""

    def __init__(
        self, backend: Backend, machine: Machine, copy: CopyName, stocks: tuple[Stock, Stock]
    ) -> None:
        self._backend, self.copy = backend, copy
        self._undo = ExitStack()
        self._gpus = [stock.device.gpu for stock in stocks]
        self._each = [Pipelines(backend, machine, copy, stock) for stock in stocks]
        for one in self._each:
            self._undo.callback(one.close)
        self._most = min(stock.size for stock in stocks)

    def cells(self, workers: Sequence[int], each: int) -> list[Cell]:
        """One cell for each number of workers; each pair has run once.

        Parameters
        ----------
        workers
            Numbers of workers that the table has rows for, each of the two has half of them.
        each
            Bytes that a worker moves at the least, as far as the stock goes.

        """
        chunk = min(CHUNK, max(MIB, self._most // 16))
        planned = [Shape(chunk, 2, count) for count in counts(workers)]
        found = []
        for one in runs(planned, self._most, each, again=True):
            shape = one.shape
            key = (PAIR, self.copy, shape.chunk, shape.depth, shape.workers, 2 * one.total)
            found.append(Cell(key, self._ready(one), 2 * shape.workers + 2))
        return found

    def close(self) -> None:
        """Give rings, lanes and threads back."""
        self._undo.close()

    def _ready(self, one: Run) -> Callable[[], float]:
        pipelines = [each.prepared(one) for each in self._each]
        waker = Waker(self._backend)
        self._undo.callback(waker.close)

        def go() -> float:
            both = Barrier(2)

            def turn(k: int) -> Moved:
                try:
                    self._backend.attach(self._gpus[k])  # waking the engines has left another one
                    both.wait()
                except BaseException:
                    both.abort()
                    raise
                return pipelines[k].run()

            with ThreadPoolExecutor(1, "calibration") as pool:
                other = pool.submit(turn, 1)
                try:
                    moved = turn(0), other.result()
                except BrokenBarrierError:
                    other.result()  # why it did not come
                    raise
            return max(m.end for m in moved) - min(m.start for m in moved)

        def once() -> float:
            engines = [engine for each in pipelines for engine in each.engines()]
            return after_pause(self._backend, self._gpus[0], go, lambda: waker(engines))

        once()
        return once


def halves(one: Stock, other: Stock, node: str) -> tuple[Stock, Stock]:
    """The stocks of two pipelines that share no byte: a half of the file each, memory of their own.

    `node` is the name of the other one's GPU.
    """
    half = min(one.size, other.size) // 2
    half -= half % MIB
    beside = replace(other, host=other.through, node=node, offset=half, size=half)
    return replace(one, size=half), beside
