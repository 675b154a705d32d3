"""The pool behind all calls: threads, a ring and lanes that stay from one job to the next.

Nothing is made before it is needed, and the slow parts are made beside the first reads: while
workers fill their slots, the thread that runs the job opens the backend (on a cold start it makes
the CUDA context) and allocates the destination. It fills no slots itself where others read into
the ring: a worker that comes late holds up the copies of its chunks. A slot is registered by its
own worker before its first copy: the read has touched it by then.
"""

from __future__ import annotations

import contextlib
import os
import sys
from collections.abc import Callable, Iterator
from functools import cache, partial
from threading import Lock
from time import perf_counter
from typing import Final

from planner.engine.backends.base import Backend, Engine, Lane, settle_all
from planner.engine.memory import Ring
from planner.engine.serving import intake
from planner.engine.serving.bank import REFUSALS, Bank, in_backend
from planner.engine.serving.failures import raise_error, told
from planner.engine.serving.job import Hand, Hands, Job, Operation
from planner.engine.serving.mapped import MappedHands, Maps
from planner.engine.serving.shape import ROOM
from planner.engine.team import Team
from planner.engine.waits import SWITCH_S, Stop, Stopped

_NOBODY: Final = Stop()


class Pump:
    """Does jobs, one after another; all calls come from one thread.

    `opener` opens the backend, for the first job that needs one.
    """

    def __init__(self, opener: Callable[[int], Backend]) -> None:
        self._opener = opener
        self.bank: Bank | None = None
        self.setup: dict[str, float] = {}
        self._team: Team | None = None
        self._ring: Ring | None = None
        self._hands: list[Hand] = []
        self._depth = 0
        self._common: dict[Engine, tuple[Lane, int]] = {}
        self._left: Maps | None = None
        self.lending = Lock()
        """Held by whoever of another thread uses lanes, and while they are taken away."""

    @property
    def pinned_bytes(self) -> int:
        """Bytes of the slots that are registered."""
        ring = self._ring
        return ring.stride * sum(sum(h.registered) for h in self._hands) if ring else 0

    def progress(self) -> int:
        """Bytes that have left their source in the job that runs."""
        return sum(hand.moved for hand in self._hands)

    def counted(self) -> tuple[int, int]:
        """Bytes that the last job read through the page cache and around it."""
        return sum(h.buffered for h in self._hands), sum(h.direct for h in self._hands)

    def lanes(self, job: Job) -> list[Lane]:
        """The lanes that a job's copies were queued in."""
        engine = job.engine
        if engine is None:
            return []
        found = [lane for hand in self._hands if (lane := hand.lanes.get(engine)) is not None]
        common = self._common.get(engine)
        return found if common is None else [*found, common[0]]

    def run(self, job: Job) -> None:
        """Do a job; raises what it failed with, when nothing of it is in flight any more."""
        apart = intake.suits(job)
        self._fit(job, intake.THREADS if apart else job.shape.workers + job.aside)
        team = self._team
        if team is None:
            raise RuntimeError("the pool has no workers")
        for hand in self._hands:
            hand.fresh()
        for lane, _ in self._common.values():
            lane.log.clear()
        numbers = iter(range(len(job.chunks)))

        def work(number: int) -> None:
            with job.stop.guarding():  # the team outlives the job, and tells nobody of errors
                if number == 0:
                    self._prepare(job)
                    job.survey()
                hand = number - job.aside
                if 0 <= hand < job.shape.workers and not job.stop.asked:
                    if apart:
                        self._take_in(job)
                    else:
                        self._drive(job, self._hands[hand], numbers)

        switch = sys.getswitchinterval()
        sys.setswitchinterval(min(switch, SWITCH_S))
        job.began = job.opened = perf_counter()
        try:
            with in_backend():
                team.run(work, intake.THREADS if apart else None)
        finally:
            sys.setswitchinterval(switch)
            job.ended = perf_counter()
            self._left = job.maps
            if job.stop.asked:
                self.clear_up()
            if self.bank is not None:
                self.bank.tidy()
        raise_error(job)
        job.issued.set()

    def _prepare(self, job: Job) -> None:
        """Open the backend if the job needs it, and make what the call allocates."""
        try:
            with job.stop.guarding():  # others must know before they go on
                if job.engine is not None:
                    self.open(job.engine.gpu)
                    job.opened = perf_counter()
                    if job.engine.peer is not None and self.bank is not None:
                        self.bank.backend.open_peer(job.engine.gpu, job.engine.peer)
                start = perf_counter()
                job.prepare()
                self.setup["allocate"] = perf_counter() - start
        finally:
            job.ready.set()

    def open(self, gpu: int) -> Bank:
        """The memory of the backend, which is opened now if it is not yet."""
        if self.bank is None:
            start = perf_counter()
            with in_backend():
                self.bank = Bank(self._opener(gpu))
            self.setup["open the device"] = perf_counter() - start
        return self.bank

    def _drive(self, job: Job, hand: Hand, numbers: Iterator[int]) -> None:
        """Let one worker do its part, or end it with nothing in flight."""
        with in_backend():
            operations, stop = self._operations(job, hand), job.stop
            slot = 0
            last: dict[int, int] = {}
            try:
                for code, slot, chunk in job.worker(numbers):
                    if stop.asked:
                        raise Stopped  # noqa: TRY301 - this loop is the hot path
                    if chunk >= 0:
                        last[slot] = chunk
                    operations[code](slot, chunk)
            except BaseException as error:
                stopped = stop.leaving(error, told(job, last.get(slot, 0), error))
                settle_all(hand.lanes.values())
                raise stopped from error

    def _take_in(self, job: Job) -> None:
        """Do the job by one thread, beside which the C library reads."""
        with in_backend():
            hands = self._hands[: job.shape.workers]
            # All of them share it: the caller's stream is followed once.
            reach = cache(partial(self._reach_all, job))
            work = intake.dispatcher(job, hands, reach, self._register)
            try:
                work.run()
            except BaseException as error:
                stopped = job.stop.leaving(error, told(job, work.at[1], error))
                settle_all(lane for lane, _ in self._common.values())
                raise stopped from error

    def _operations(self, job: Job, hand: Hand) -> list[Operation]:
        """What a worker does in this job, by the codes of its generator."""
        if job.maps is None:
            return Hands(job, hand, self._reach, self._register).operations()
        return MappedHands(job, hand, self._reach, self._backend).operations()

    def _backend(self) -> Backend:
        if self.bank is None:
            raise RuntimeError("the backend is not open")
        return self.bank.backend

    def clear_up(self) -> None:
        """Give back what a job left registered, if any did; never raises.

        Whoever asked has the answer already, or an error that says more. What ails the driver the
        next call will tell, which waits for this thread.
        """
        maps, self._left = self._left, None
        if maps is not None:
            with in_backend(), contextlib.suppress(*REFUSALS):
                maps.close(self.bank.backend if self.bank is not None else None)

    def _reach(self, hand: Hand, job: Job) -> Lane:
        """The worker's lane to the job's engine, behind what the caller's stream holds."""
        job.stop.wait(job.ready)
        engine, bank = job.engine, self.bank
        if engine is None or bank is None:
            raise RuntimeError("a copy was asked for without an engine")
        for gpu in {engine.gpu} - hand.attached:
            bank.backend.attach(gpu)
        hand.attached = {engine.gpu}  # a thread has one current device
        lane = hand.lanes.get(engine)
        if lane is None:
            spin = job.shape.workers < len(os.sched_getaffinity(0))
            lane = bank.backend.lane(engine, self._depth, spin=spin, timed=False)
            hand.lanes[engine] = lane
        _follow(lane, job)
        return lane

    def _reach_all(self, job: Job) -> Lane:
        """The lane for the slots of all workers, behind what the caller's stream holds."""
        job.stop.wait(job.ready)
        engine, bank = job.engine, self.bank
        if engine is None or bank is None:
            raise RuntimeError("a copy was asked for without an engine")
        bank.backend.attach(engine.gpu)
        slots = job.shape.workers * job.shape.depth
        lane, room = self._common.get(engine, (None, 0))
        if lane is None or room < slots:
            if lane is not None:
                with self.lending:
                    self._common.pop(engine)[0].close()
            spin = len(os.sched_getaffinity(0)) > intake.THREADS
            lane = bank.backend.lane(engine, slots, spin=spin, timed=False)
            self._common[engine] = lane, slots
        _follow(lane, job)
        return lane

    def _register(self, hand: Hand, slot: int) -> None:
        """Page-lock a slot that has been touched."""
        if self._ring is None or self.bank is None:
            raise RuntimeError("there is no ring")
        self.bank.backend.register(hand.addresses[slot], self._ring.stride)
        hand.registered[slot] = True

    def _fit(self, job: Job, threads: int) -> None:
        """Have enough threads, and slots that are large enough but within the budget."""
        shape, ring = job.shape, self._ring
        if self._team is None or self._team.size < threads:
            team, self._team = self._team, None  # no longer there, should there be no other
            if team is not None:
                team.close()
            self._drop_lanes()
            self._team = Team(threads, _NOBODY, "planner pool")
        self._hands += [Hand(k) for k in range(len(self._hands), shape.workers)]
        if self._depth < shape.depth:
            self._drop_lanes()
            self._depth = shape.depth
        if not job.needs_ring:
            return
        enough = ring is not None and (
            ring.workers >= shape.workers
            and ring.depth >= shape.depth
            and ring.slot >= shape.chunk_bytes + ROOM
            and (job.budget is None or ring.size <= job.budget)
        )
        if not enough:
            self._drop_ring()
            made = Ring(shape.workers, shape.depth, shape.chunk_bytes + ROOM)
            self._ring = made
            for hand in self._hands[: shape.workers]:
                hand.views = made.views(hand.number)
                hand.addresses = made.addresses(hand.number)
                hand.registered = [False] * made.depth

    def _drop_lanes(self) -> None:
        with self.lending:
            for hand in self._hands:
                for lane in hand.lanes.values():
                    lane.settle()
                    lane.close()
                hand.lanes.clear()
                hand.attached.clear()
            for lane, _ in self._common.values():
                lane.close()
            self._common.clear()

    def _drop_ring(self) -> None:
        ring, self._ring = self._ring, None
        with contextlib.ExitStack() as last:  # which goes on where the driver refuses one
            if ring is not None:
                last.callback(ring.close)
            for hand in self._hands:
                for slot, address in enumerate(hand.addresses):
                    if hand.registered[slot] and self.bank is not None:
                        last.callback(self.bank.backend.unregister, address)
                for view in hand.views:
                    view.release()
                hand.views, hand.addresses, hand.registered = [], [], []

    def close(self) -> None:
        """Give threads, lanes and ring back; memory that is still used outlives it."""
        with contextlib.ExitStack() as last, in_backend():
            if self.bank is not None:
                last.callback(self.bank.retire)
            last.callback(self._drop_ring)
            last.callback(self._drop_lanes)
            last.callback(self.clear_up)
            if self._team is not None:
                last.callback(self._team.close)
            self._team = None
        self._hands = []
        self.bank = None


def _follow(lane: Lane, job: Job) -> None:
    """Let the lane's copies wait for what the caller's stream holds."""
    if job.behind:
        from planner.engine.backends.cuda_foreign import follow

        for event in job.behind:
            follow(lane, event)
