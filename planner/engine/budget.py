"""What a run may take: bytes per second, pinned bytes. Nothing here costs a run without a budget.

A rate is kept by spacing chunks: each takes its share of time from one bucket, which never saves up
more than `CREDIT_S`. In any window of T seconds so at most rate x (T + credit) bytes and the last
chunk go; the model cuts chunks to a millisecond of the rate.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from threading import Lock
from time import perf_counter
from typing import Any, Final

from planner.engine.backends.base import Backend
from planner.engine.memory import HostBuffer, LentBuffer
from planner.engine.waits import Stop
from planner.errors import InfeasibleError, UnavailableError
from planner.plan.schema import Plan
from planner.units import format_size

CREDIT_S: Final = 1e-3
"""Seconds that a bucket may be late and make up for: a thread wakes some 0.1 ms after its time."""

THREADS_A_CORE: Final = 32
"""Workers for each core: beyond, threads wait for the interpreter longer than they move bytes, and
so does the one that should hear Ctrl-C (on 2 cores 64 workers moved 100 MB in chunks of 4 KiB in
10 s, 256 did not in 20 s; 2026-11-29)."""


class Bucket:
    """Spaces chunks so that they go at `rate` bytes/s at most; `credit` seconds can be made up."""

    __slots__ = ("_credit", "_guard", "_next", "_rate")

    def __init__(self, rate: float, credit: float = CREDIT_S) -> None:
        self._rate, self._credit = rate, credit
        self._next = float("-inf")
        self._guard = Lock()

    def take(self, now: float, size: int) -> float:
        """The instant from which `size` bytes may go, on the clock of `now`."""
        with self._guard:
            start = max(now - self._credit, self._next)
            self._next = start + size / self._rate
        return start


Buckets = tuple[Bucket, ...]


def buckets_of(plan: Plan, credit: float = CREDIT_S) -> dict[str, Buckets]:
    """The buckets of every flow of the plan: its own, and that of the whole plan."""
    whole = (Bucket(plan.budget.rate, credit),) if plan.budget.rate else ()
    return {
        name: ((Bucket(flow.budget.rate, credit),) if flow.budget.rate else ()) + whole
        for name, flow in plan.flows.items()
    }


class Paced:
    """Numbers of chunks, each given out when its bytes may go; shared by all workers."""

    __slots__ = ("_buckets", "_numbers", "_sizes", "_stop")

    def __init__(
        self, numbers: Iterator[int], sizes: Sequence[int], buckets: Buckets, stop: Stop
    ) -> None:
        self._numbers, self._sizes = numbers, sizes
        self._buckets, self._stop = buckets, stop

    def __iter__(self) -> Iterator[int]:
        """An iterator of itself."""
        return self

    def __next__(self) -> int:
        """The next chunk, in its time; raises `Stopped` if the run is called off."""
        chunk = next(self._numbers)
        size, now = self._sizes[chunk], perf_counter()
        start = max(bucket.take(now, size) for bucket in self._buckets)
        if start > now:
            self._stop.sleep_until(start)
        return chunk


class Ledger:
    """Pinned bytes that the tool holds now; refuses what is over.

    `limit` is the plan's, `None` for none.
    """

    def __init__(self, limit: int | None) -> None:
        self.limit = limit
        self.now = 0
        self._guard = Lock()

    def take(self, flow: str, size: int, own: int, cap: int | None) -> None:
        """Note `size` further bytes of a flow that holds `own` of its `cap` already.

        Raises
        ------
        InfeasibleError
            If they are more than the flow or the plan may pin.

        """
        with self._guard:
            for limit, held in ((self.limit, self.now), (cap, own)):
                if limit is not None and held + size > limit:
                    raise InfeasibleError(
                        f"flow {flow} would pin {format_size(size)} on top of {format_size(held)}; "
                        f"the budget is {format_size(limit)}",
                        hint="raise budget.pinned, or pin a smaller chunk, depth or workers",
                    )
            self.now += size

    def give(self, size: int) -> None:
        """Note that so many bytes are no longer pinned."""
        with self._guard:
            self.now -= size


class Budgeted:
    """A backend on which one flow pins no more than the budgets allow."""

    def __init__(self, device: Backend, ledger: Ledger, flow: str, cap: int | None) -> None:
        self._device, self._ledger = device, ledger
        self._flow, self._cap = flow, cap
        self._held: dict[int, int] = {}

    def __getattr__(self, name: str) -> Any:
        """Whatever the backend has."""
        return getattr(self._device, name)

    def register(self, address: int, size: int, *, read_only: bool = False) -> None:
        """Pin memory within the budgets, or raise `InfeasibleError`."""
        self._ledger.take(self._flow, size, sum(self._held.values()), self._cap)
        self._held[address] = size
        try:
            self._device.register(address, size, read_only=read_only)
        except BaseException:
            self._ledger.give(self._held.pop(address))
            raise

    def combined(self, size: int) -> HostBuffer:
        """Write-combined memory within the budgets, until it is closed."""
        self._ledger.take(self._flow, size, sum(self._held.values()), self._cap)
        try:
            found = self._device.combined(size)
        except BaseException:
            self._ledger.give(size)
            raise
        self._held[found.address] = size

        def give_back() -> None:
            found.close()
            self._ledger.give(self._held.pop(found.address, 0))

        return LentBuffer(found.address, size, give_back)

    def unregister(self, address: int) -> None:
        """Undo `register`."""
        self._device.unregister(address)
        self._ledger.give(self._held.pop(address, 0))


Workers = dict[str, tuple[str, int]]
"""By label: the flow of the plan, and the most workers of its schedule."""


def cores_cap(plan: Plan, flow: str) -> int | None:
    """The cores that a plan lets a flow take, `None` where it bounds nothing."""
    caps = (plan.flows[flow].budget.cores, plan.budget.cores)
    return min((cap for cap in caps if cap is not None), default=None)


def require_cores(plan: Plan, workers: Workers) -> None:
    """Refuse schedules with more workers than the budget has cores, or than threads can serve here.

    Raises
    ------
    InfeasibleError
        If a schedule takes more than its budget.
    UnavailableError
        If it takes more than `THREADS_A_CORE` for each core that the process may use.

    """
    cores = len(os.sched_getaffinity(0))
    for label, (flow, count) in workers.items():
        cap = cores_cap(plan, flow)
        if cap is not None and count > cap:
            raise InfeasibleError(
                f"flow {label}: its schedule has {count} workers, the budget {cap} cores",
                hint="estimate the plan anew with that budget",
            )
        if count > THREADS_A_CORE * cores:
            raise UnavailableError(
                f"flow {label}: its schedule has {count} workers, this process {cores} cores",
                hint=f"take {THREADS_A_CORE * cores} workers at most; a few for each core are best",
            )
