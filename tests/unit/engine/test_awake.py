"""Engines are woken before each sample but the first, with bytes that nobody asked for."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from functools import partial
from threading import Thread, get_ident
from time import perf_counter, sleep

import pytest

from planner.engine.awake import SIZE, Waker
from planner.engine.backends.base import DeviceBuffer, Engine
from planner.engine.backends.host import HostBackend
from planner.engine.backends.host_lane import HostLane
from planner.engine.execute import execute
from planner.engine.pace import Gate
from planner.engine.sample import Task, run_once
from planner.engine.waits import Stop
from planner.errors import ExecutionError
from planner.model.estimate import estimate
from planner.plan.schema import Plan
from tests.helpers.machines import one_gpu, two_gpus


class Counting(HostBackend):
    """The host backend, which counts what its lanes are for and what is still allocated."""

    def __init__(self) -> None:
        super().__init__()
        self.lanes: list[Engine] = []
        self.live: set[int] = set()

    def lane(
        self, engine: Engine, slots: int, *, spin: bool = True, timed: bool = True
    ) -> HostLane:
        self.lanes.append(engine)
        return super().lane(engine, slots, spin=spin, timed=timed)

    def allocate(self, gpu: int, size: int) -> DeviceBuffer:
        made = super().allocate(gpu, size)
        self.live.add(made.address)
        return made

    def release(self, buffer: DeviceBuffer) -> None:
        self.live.discard(buffer.address)
        super().release(buffer)


def test_all_engines_are_at_work_for_as_long_as_asked_and_nothing_stays() -> None:
    backend = Counting()
    waker = Waker(backend)
    engines = [Engine("h2d", 0), Engine("d2h", 0), Engine("local", 0), Engine("peer", 0, 1)]
    try:
        begun = perf_counter()
        waker([*engines, Engine("h2d", 0)], 5e-3)
        assert perf_counter() - begun >= 5e-3
        assert backend.lanes == engines
        assert len(backend.live) == 2  # one piece of each GPU's memory
        waker(engines, 1e-4)
        assert backend.lanes == engines, "lanes are kept"
        # Kernels and moves of pages use the link into the GPU.
        waker([Engine("kernel", 0), Engine("pages_in", 0)], 1e-4)
        assert backend.lanes == engines
    finally:
        waker.close()
        assert backend.live == set()
        backend.close()


def test_each_thread_is_made_ready_for_the_gpu(monkeypatch: pytest.MonkeyPatch) -> None:
    # A sample has threads of its own: what the last one attached to is not theirs.
    ready: set[tuple[int, int]] = set()
    backend = Counting()
    monkeypatch.setattr(backend, "attach", lambda gpu: ready.add((get_ident(), gpu)))
    real = HostLane.copy

    def copy(lane: HostLane, *given: int) -> None:
        assert (get_ident(), lane.engine.gpu) in ready
        real(lane, *given)

    monkeypatch.setattr(HostLane, "copy", copy)
    waker = Waker(backend)
    try:
        for _ in range(2):
            ready.clear()
            with ThreadPoolExecutor(1) as pool:
                pool.submit(waker, [Engine("h2d", 0), Engine("h2d", 1)], 1e-4).result(10)
    finally:
        waker.close()
        backend.close()


def test_nothing_to_wake_takes_no_time() -> None:
    backend = Counting()
    waker = Waker(backend)
    waker([], 10.0)
    waker.close()
    assert backend.lanes == []
    backend.close()


def task(name: str, wake: Callable[[], None] | None, work: Callable[[], None]) -> Task:
    def run(_pace: object) -> list[tuple[float, float]]:
        work()
        now = perf_counter()
        return [(now, now)]

    return Task(name, Gate(), 0.0, run, wake)


def test_tasks_begin_together_when_the_last_one_is_awake() -> None:
    order: list[str] = []

    def slow() -> None:
        Thread(target=lambda: None).start()
        end = perf_counter() + 0.05
        while perf_counter() < end:
            pass
        order.append("awake")

    names = ("a", "b", "block")
    wakes: dict[str, Callable[[], None] | None] = {"a": slow, "b": lambda: None, "block": None}
    tasks = [task(n, wakes[n], lambda n=n: order.append(n)) for n in names]  # type: ignore[misc]
    sample = run_once(tasks, Stop())
    assert order[0] == "awake"
    assert sorted(order[1:]) == sorted(names)
    # The clock of the plan starts then: the 50 ms of waking are not in it.
    assert sample.makespan_s < 0.05


def test_who_shares_an_engine_begins_in_the_order_of_names() -> None:
    order: list[str] = []

    def slow() -> None:
        end = perf_counter() + 0.02
        while perf_counter() < end:
            pass

    def begun(name: str) -> None:
        order.append(name)
        sleep(2e-3)  # whoever may begin now does

    one, two = ("h2d", 0), ("h2d", 1)
    engines = {"a": {one}, "b": {two}, "c": {one, two}, "d": set[tuple[str, int]]()}
    for last in ("a", "c"):
        for _ in range(5):
            order.clear()
            # Who is the last to be awake would be the first to go on.
            tasks = [
                replace(
                    task(name, slow if name == last else lambda: None, partial(begun, name)),
                    engines=frozenset(engines[name]),
                )
                for name in ("d", "c", "b", "a")
            ]
            run_once(tasks, Stop())
            assert sorted(order) == ["a", "b", "c", "d"]
            assert order.index("c") > max(order.index("a"), order.index("b"))


def test_who_cannot_wake_stops_the_others() -> None:
    def fails() -> None:
        raise ValueError("no lane")

    done: list[str] = []
    with pytest.raises(ExecutionError, match="no lane"):
        run_once(
            [task("a", fails, lambda: done.append("a")), task("b", None, lambda: done.append("b"))],
            Stop(),
        )
    assert done == []


@pytest.mark.parametrize("gpus", [1, 2])
def test_only_samples_after_the_first_are_woken(gpus: int) -> None:
    backend = Counting()
    into = {"from": "host0", "to": "gpu0", "size": SIZE, "memory": "pinned"}
    flows = {"one": into} | ({"two": {**into, "to": "gpu1"}} if gpus > 1 else {})
    plan = Plan.model_validate({"name": "woken", "flows": flows})
    machine = one_gpu() if gpus == 1 else two_gpus()
    counts = []
    for samples in (1, 3):
        backend.lanes.clear()
        answer = estimate(plan, machine)
        run = execute(plan, machine, estimate=answer, backend=backend, samples=samples, warmup=0)
        assert all(flow.verified for flow in run.flows)
        counts.append(len(backend.lanes))
        assert backend.live == set()
    # One lane a flow for the copies; with more samples than the first one more, to wake it.
    assert counts == [gpus, 2 * gpus]
    backend.close()
