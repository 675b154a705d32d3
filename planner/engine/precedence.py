"""Strict priorities on copy engines, which themselves serve in the order of issue.

While a flow of a higher class has repeats to move over an engine, a lower class queues a chunk on
it only when nothing else stands there: no chunk of a higher class, and none of its own or of a
class below. A higher class so waits for one chunk at most, the residual that the model charges.
Nothing is polled: who has to wait waits for the arrival of what stands in front.

A plan of one class never comes here: its flows get the backend as it is.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from itertools import count
from threading import Lock
from typing import Any, cast

from planner.engine.backends.base import Backend, Engine, Lane, Part, Server, SlotCopy
from planner.engine.waits import OneAtATime, Stop


class _Queue:
    """What stands on one engine, by class: its last copy, and the number of that."""

    def __init__(self, ranks: Sequence[int], stop: Stop) -> None:
        self.under_way = dict.fromkeys(ranks, 0)
        self._last: dict[int, tuple[Lane, int] | None] = dict.fromkeys(ranks)
        self._issued = dict.fromkeys(ranks, 0)
        self._turn = {rank: OneAtATime(stop) for rank in ranks[:-1]}
        self._above = {rank: [r for r in ranks if r > rank] for rank in ranks}
        self._serial = count(1)
        self._guard = Lock()
        self._stop = stop

    def count(self, rank: int, more: int) -> None:
        """So many more flows of the class have repeats to move over the engine."""
        with self._guard:
            self.under_way[rank] += more

    def issue(self, rank: int, lane: Lane, slot: int, send: Callable[[], None]) -> None:
        """Send one copy when its class may; the top class at once."""
        turn = self._turn.get(rank)
        if turn is None:
            self._send(rank, lane, slot, send)
            return
        with turn:
            while not self._sent(rank, lane, slot, send):
                pass

    def _sent(self, rank: int, lane: Lane, slot: int, send: Callable[[], None]) -> bool:
        """Wait for what stands in front, and send unless more came meanwhile."""
        self._stop.check()
        above = self._above[rank]
        if not any(self.under_way[r] for r in above):
            self._send(rank, lane, slot, send)
            return True
        seen = list(self._issued.values())
        for last in list(self._last.values()):
            # An engine is a FIFO: behind the last copy of a class, none of it is left.
            if last is not None:
                last[0].arrived(last[1])
        with self._guard:
            if seen != list(self._issued.values()):
                return False
            self._send(rank, lane, slot, send)
            return True

    def _send(self, rank: int, lane: Lane, slot: int, send: Callable[[], None]) -> None:
        self._issued[rank] = next(self._serial)
        send()
        self._last[rank] = lane, slot


class Precedence:
    """The classes of a plan's flows and the engines that they share."""

    def __init__(self, ranks: Collection[int], stop: Stop) -> None:
        self._ranks, self._stop = sorted(ranks), stop
        self._queues: dict[Server, _Queue] = {}
        self._guard = Lock()

    def queue(self, server: Server) -> _Queue:
        """The queue of one engine."""
        with self._guard:
            if server not in self._queues:
                self._queues[server] = _Queue(self._ranks, self._stop)
            return self._queues[server]

    def backend(self, device: Backend, rank: int) -> Ranked:
        """The backend as a flow of this class sees it."""
        return Ranked(device, self, rank)


class Ranked:
    """A backend whose lanes keep to the order of classes; all else is the backend's own."""

    def __init__(self, device: Backend, precedence: Precedence, rank: int) -> None:
        self._device, self._precedence, self._rank = device, precedence, rank
        self._mine: dict[Server, _Queue] = {}
        self._moving = 0
        self._guard = Lock()

    def __getattr__(self, name: str) -> Any:
        """Whatever the backend has."""
        return getattr(self._device, name)

    def lane(self, engine: Engine, slots: int, *, spin: bool = True) -> Lane:
        """A lane in its class."""
        with self._guard:
            queue = self._mine.get(engine.server)
            if queue is None:
                queue = self._mine[engine.server] = self._precedence.queue(engine.server)
                queue.count(self._rank, self._moving)
        return RankedLane(self._device.lane(engine, slots, spin=spin), queue, self._rank)

    def begin(self) -> None:
        """The flow has repeats to move from now on."""
        self._count(1)

    def end(self) -> None:
        """Its last repeat has ended."""
        self._count(-1)

    def _count(self, more: int) -> None:
        with self._guard:
            self._moving += more
            for queue in self._mine.values():
                queue.count(self._rank, more)


class RankedLane:
    """A lane whose copies wait until their class may go; see `backends.base.Lane`."""

    __slots__ = (
        "_queue",
        "_rank",
        "arrived",
        "close",
        "engine",
        "inner",
        "landed",
        "settle",
        "wait",
    )

    def __init__(self, inner: Lane, queue: _Queue, rank: int) -> None:
        self.inner, self._queue, self._rank = inner, queue, rank
        self.engine = inner.engine
        self.wait, self.landed, self.arrived = inner.wait, inner.landed, inner.arrived
        self.settle, self.close = inner.settle, inner.close

    @property
    def log(self) -> list[float]:
        """The lane's own."""
        return self.inner.log

    def copy(self, slot: int, target: int, source: int, length: int) -> None:
        """Queue one copy when its class may."""
        inner = self.inner
        send = lambda: inner.copy(slot, target, source, length)  # noqa: E731 - what `issue` sends
        self._queue.issue(self._rank, inner, slot, send)

    def copy_parts(self, slot: int, parts: Sequence[Part]) -> None:
        """Queue several copies when their class may."""
        inner = self.inner
        self._queue.issue(self._rank, inner, slot, lambda: inner.copy_parts(slot, parts))

    def copy_slots(self, copies: Sequence[SlotCopy]) -> None:
        """One by one: a higher class waits for one chunk at most."""
        for slot, target, source, length in copies:
            self.copy(slot, target, source, length)

    def copy_now(self, target: int, source: int, length: int) -> None:
        """The driver's copy, begun when its class may; once begun it goes through."""
        inner = self.inner
        self._queue.issue(self._rank, inner, 0, lambda: inner.copy_now(target, source, length))

    def follow(self, slot: int, other: Lane) -> None:
        """Behind the same slot of the other lane itself."""
        self.inner.follow(slot, cast("RankedLane", other).inner)
