"""Budgets are kept while bytes move: rate in every tenth of a second, pinned bytes, cores."""

from __future__ import annotations

import os
from contextlib import closing
from itertools import accumulate
from threading import Lock, Thread
from time import perf_counter
from typing import Any

import pytest

from planner.engine import budget, drive
from planner.engine.backends.host import HostBackend
from planner.engine.budget import Bucket, Budgeted, Ledger, Paced
from planner.engine.execute import execute
from planner.engine.memory import HostBuffer
from planner.engine.ops import POOL
from planner.engine.strategies.base import Hands, Operation
from planner.engine.waits import Stop, Stopped
from planner.engine.worker import operations_of
from planner.errors import InfeasibleError, UnavailableError
from planner.model.estimate import estimate
from planner.model.spacing import chunk_of
from planner.plan.schema import Plan
from planner.results import Run
from tests.helpers.machines import GB, MIB, one_gpu
from tests.helpers.schedules import plan_for, predicted, schedule

pytestmark = pytest.mark.usefixtures("scratch")

MB = 10**6


def run(plan: Plan, backend: Any, **options: Any) -> Run:
    machine = one_gpu()
    return execute(plan, machine, estimate=estimate(plan, machine), backend=backend, **options)


def test_a_bucket_spaces_chunks_and_saves_little_up() -> None:
    bucket = Bucket(1000.0, credit=0.5)
    # 100 bytes are 0.1 s. The first may be 0.5 s in the past; who comes late makes up for 0.5 s.
    assert [bucket.take(10.0, 100) for _ in range(3)] == pytest.approx([9.5, 9.6, 9.7])
    assert bucket.take(20.0, 100) == 19.5


def test_chunks_of_a_cap_are_a_millisecond_of_it() -> None:
    # The largest power of two up to 1 MB, 1 kB (but no less than a page).
    assert chunk_of(1e9) == 512 * 1024
    assert chunk_of(1e6) == 4096
    assert chunk_of(1.0) == 4096  # a thousandth of a byte in WORTH_S: still a page


def windows(times: list[tuple[float, int]], span: float) -> float:
    """Most bytes that go within any `span` seconds, from the instants at which they go."""
    times.sort()
    total = [0, *accumulate(size for _, size in times)]
    most, last = 0, 0
    for first, (start, _) in enumerate(times):
        while last < len(times) and times[last][0] <= start + span:
            last += 1
        most = max(most, total[last] - total[first])
    return most


@pytest.mark.parametrize("of_plan", [False, True])
def test_no_tenth_of_a_second_is_above_the_rate(
    of_plan: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """40 MB at 100 MB/s: 0.4 s. What goes is looked at where each worker begins to read."""
    cap = {"budget": {"rate": 100e6}}
    flow: dict[str, Any] = {"from": "disk0", "to": ["gpu0"], "cache": "warm"}
    words: dict[str, Any] = {"flows": {"a": flow | {"size": 40 * MB} | ({} if of_plan else cap)}}
    if of_plan:
        words = {"flows": {n: flow | {"size": 20 * MB} for n in ("a", "b")}} | cap
    gone: list[tuple[float, int]] = []
    lock = Lock()

    def noting(hands: Hands) -> list[Operation]:
        operations = operations_of(hands)
        read = operations[POOL]

        def noted(slot: int, chunk: int) -> None:
            now, before = perf_counter(), hands.moved
            read(slot, chunk)
            with lock:
                gone.append((now, hands.moved - before))

        operations[POOL] = noted
        return operations

    monkeypatch.setattr(drive, "operations_of", noting)
    found = run(Plan.model_validate(words), "host", samples=1, warmup=0)
    assert all(one.verified for one in found.flows)
    assert not any("rate" in warning for warning in found.warnings)
    assert sum(size for _, size in gone) == 40 * MB
    # 100 ms carry 10 MB; 1 % of credit and a chunk of 64 KiB on top stay below 2 %. A thread that
    # is late by itself between its turn and the read only moves bytes back.
    assert windows(gone, 0.1) <= 10 * MB * 1.02 + 2 * chunk_of(100e6)
    assert found.makespan_s >= 0.4 - 0.002
    # A busy computer wakes threads late; more than twice as long would be no pacing but a fault.
    assert found.makespan_s <= 2 * found.predicted_makespan_s


@pytest.mark.parametrize("rate", [1e9, 5e9])
def test_the_virtual_clock_keeps_the_rate_as_predicted(rate: float) -> None:
    words = {"from": "disk0", "to": ["gpu0"], "size": GB, "cache": "warm", "budget": {"rate": rate}}
    plan = Plan.model_validate({"flows": {"a": words}})
    prediction = estimate(plan, one_gpu())
    assert all(hop.chunk_bytes <= chunk_of(rate) for hop in prediction.flows[0].schedule.hops)
    found = run(plan, "null")
    # The last of 1908 chunks (or fewer) begins one chunk before the cap's end.
    assert found.makespan_s == pytest.approx(GB / rate, rel=0.005)
    assert found.makespan_s == pytest.approx(prediction.makespan_s, rel=0.005)


def test_pacing_can_be_called_off() -> None:
    stop = Stop()
    paced = Paced(iter(range(2)), [1000, 1000], (Bucket(1.0),), stop)
    assert next(paced) == 0
    ended: list[bool] = []

    def wait() -> None:
        with pytest.raises(Stopped):
            next(paced)
        ended.append(True)

    thread = Thread(target=wait, daemon=True)
    thread.start()
    stop.ask()
    thread.join(5)
    assert ended == [True]


class Counting(HostBackend):
    """A host backend that keeps its own account of what is registered."""

    def __init__(self) -> None:
        super().__init__()
        self.sizes: dict[int, int] = {}
        self.most = 0
        self.lock = Lock()

    def register(self, address: int, size: int, *, read_only: bool = False) -> None:
        super().register(address, size, read_only=read_only)
        with self.lock:
            self.sizes[address] = size
            self.most = max(self.most, sum(self.sizes.values()))

    def unregister(self, address: int) -> None:
        super().unregister(address)
        with self.lock:
            self.sizes.pop(address, None)


@pytest.mark.parametrize("sizes", [(8 * MIB, 8 * MIB), (8 * MIB + 3, 5 * MIB - 1)])
def test_the_pinned_budget_holds_at_all_times(sizes: tuple[int, int]) -> None:
    """Two loads one after the other, each with a ring of all that may be pinned."""
    flow: dict[str, Any] = {"from": "disk0", "to": ["gpu0"], "cache": "warm", "chunk": MIB}
    flow |= {"workers": 2, "depth": 1}
    words = {
        "flows": {"a": flow | {"size": sizes[0]}, "b": flow | {"size": sizes[1], "after": ["a"]}},
        "budget": {"pinned": 2 * MIB + 8192},
    }
    plan, device = Plan.model_validate(words), Counting()
    try:
        found = run(plan, device, samples=3, warmup=1)
    finally:
        device.close()
    assert [one.verified for one in found.flows] == [True, True]
    assert 0 < device.most <= 2 * MIB + 8192
    assert device.sizes == {}


def test_a_schedule_over_the_pinned_budget_is_refused_and_leaves_nothing() -> None:
    plan = plan_for("load", 4 * MIB, budget={"pinned": MIB})
    made = schedule("load", 4 * MIB, chunk=MIB, depth=2, workers=2)
    device = Counting()
    try:
        with pytest.raises(InfeasibleError, match=r"flow f would pin 4 MiB .*budget is 1 MiB"):
            execute(
                plan,
                one_gpu(),
                estimate=predicted(plan, one_gpu(), made),
                backend=device,
                samples=1,
            )
        assert device.sizes == {}
    finally:
        device.close()


def test_the_ledger_refuses_what_is_over_the_budget() -> None:
    ledger = Ledger(100)
    ledger.take("a", 60, 0, None)
    with pytest.raises(InfeasibleError, match="flow b would pin 50 B on top of 60 B"):
        ledger.take("b", 50, 0, None)
    with pytest.raises(InfeasibleError, match="budget is 20 B"):
        ledger.take("b", 30, 0, 20)
    ledger.give(60)
    ledger.take("b", 80, 0, None)
    assert ledger.now == 80


def test_write_combined_memory_counts_until_it_is_closed() -> None:
    ledger = Ledger(100)
    with closing(HostBackend()) as device:
        lean = Budgeted(device, ledger, "a", 90)
        first = lean.combined(60)
        with pytest.raises(InfeasibleError, match="flow a would pin 60 B on top of 60 B"):
            lean.combined(60)
        first.array.fill(7)
        assert bytes(first.view) == bytes([7]) * 60
        first.close()
        first.close()
        assert ledger.now == 0
        lean.combined(90).close()
        assert ledger.now == 0


def test_write_combined_memory_that_the_device_refuses_does_not_count() -> None:
    class Refusing(HostBackend):
        def combined(self, size: int) -> HostBuffer:
            raise UnavailableError(f"no {size} bytes")

    ledger = Ledger(100)
    with closing(Refusing()) as device:
        with pytest.raises(UnavailableError):
            Budgeted(device, ledger, "a", None).combined(60)
        assert ledger.now == 0


def test_rings_that_go_with_their_flow_are_told_all_the_same() -> None:
    flow = {"from": "host0", "to": ["gpu0"], "size": 4 * MIB, "strategy": "staged"}
    flow |= {"chunk": MIB // 4, "depth": 2, "workers": 2}
    ring, found = MIB, []
    for most in (2 * ring, ring + ring // 2):  # both rings at once, and one after the other
        words = {"flows": {"a": flow, "b": {**flow, "after": ["a"]}}, "budget": {"pinned": most}}
        done = run(Plan.model_validate(words), "host", samples=2, warmup=0)
        found.append([one.pinned_bytes for one in done.flows])
    assert found == [[ring, ring]] * 2


def test_a_schedule_with_more_workers_than_cores_is_refused() -> None:
    plan = plan_for("load", 4 * MIB, budget={"cores": 2})
    made = schedule("load", 4 * MIB, chunk=MIB, depth=2, workers=3)
    with pytest.raises(InfeasibleError, match="flow f: its schedule has 3 workers, the budget 2"):
        execute(
            plan, one_gpu(), estimate=predicted(plan, one_gpu(), made), backend="host", samples=1
        )


def test_a_schedule_with_more_threads_than_the_cores_can_serve_is_refused(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: {0, 5})  # two cores: 64 workers go
    plan = plan_for("load", MIB)
    budget.require_cores(plan, {"f": ("f", 64)})
    with pytest.raises(UnavailableError, match="has 65 workers, this process 2 cores"):
        budget.require_cores(plan, {"f": ("f", 65)})


def test_a_plan_without_a_budget_never_comes_here(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: Any) -> None:
        raise AssertionError("a budget was looked at")

    monkeypatch.setattr(budget.Bucket, "take", refuse)
    monkeypatch.setattr(budget.Ledger, "take", refuse)
    flow = {"from": "disk0", "to": ["gpu0"], "cache": "warm", "size": MIB}
    assert run(Plan.model_validate({"flows": {"a": flow}}), "host", samples=1).flows[0].verified
