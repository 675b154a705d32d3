"""Higher classes go first on a copy engine, and wait for one chunk of the others at most."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from typing import Any

import pytest

from planner.engine.backends.base import Engine, Part
from planner.engine.backends.host import HostBackend
from planner.engine.backends.host_lane import HostLane
from planner.engine.execute import execute
from planner.engine.precedence import Precedence, Ranked
from planner.engine.session import Session
from planner.engine.waits import Stop, Stopped
from planner.model.estimate import estimate
from planner.plan.schema import Plan
from planner.results import Run
from tests.helpers.machines import GB, MIB, one_gpu


class FakeLane:
    """A lane whose copies arrive when the test says so."""

    def __init__(self) -> None:
        self.engine, self.log = Engine("h2d", 0), list[float]()
        self.sent: list[int] = []
        self.asked = threading.Event()
        self.landed = [threading.Event() for _ in range(8)]

    def copy(self, slot: int, *_parts: int) -> None:
        self.landed[slot].clear()
        self.sent.append(slot)

    def arrived(self, slot: int) -> None:
        self.asked.set()
        assert self.landed[slot].wait(10)

    def wait(self, slot: int) -> None: ...
    def settle(self) -> None: ...
    def close(self) -> None: ...


class FakeBackend:
    name = "host"

    def lane(self, *_what: Any, **_how: Any) -> FakeLane:
        return FakeLane()


def ranked(order: Precedence, rank: int) -> tuple[Ranked, Any, FakeLane]:
    backend = order.backend(FakeBackend(), rank)  # type: ignore[arg-type]
    lane: Any = backend.lane(Engine("h2d", 0), 2)
    return backend, lane, lane.inner


def in_thread(copy: Any) -> threading.Thread:
    thread = threading.Thread(target=copy, daemon=True)
    thread.start()
    return thread


def test_a_lower_class_waits_for_what_stands_in_front() -> None:
    order = Precedence({0, 5}, Stop())
    high, high_lane, high_wire = ranked(order, 5)
    _, low_lane, low_wire = ranked(order, 0)
    low_lane.copy(0, 1, 2, 3)  # nobody else moves: it goes at once, and so does the next
    low_lane.copy(1, 1, 2, 3)
    assert low_wire.sent == [0, 1]
    low_wire.landed[0].set()
    low_wire.landed[1].set()
    high.begin()
    high_lane.copy(0, 1, 2, 3)
    waiting = in_thread(lambda: low_lane.copy(0, 1, 2, 3))
    assert high_wire.asked.wait(10)
    high_lane.copy(1, 1, 2, 3)  # the higher class never waits
    assert high_wire.sent == [0, 1]
    high_wire.landed[0].set()
    waiting.join(0.05)
    assert low_wire.sent == [0, 1]  # slot 1 of the higher class still stands in front
    high_wire.landed[1].set()
    waiting.join(10)
    assert low_wire.sent == [0, 1, 0]
    # One is out: the next waits for it, though the higher class has nothing there now.
    second = in_thread(lambda: low_lane.copy(1, 1, 2, 3))
    second.join(0.05)
    assert low_wire.sent == [0, 1, 0]
    low_wire.landed[0].set()
    second.join(10)
    assert low_wire.sent == [0, 1, 0, 1]
    high.end()
    low_wire.landed[1].clear()
    low_lane.copy(0, 1, 2, 3)  # and then there is no order to keep
    assert low_wire.sent == [0, 1, 0, 1, 0]


def test_only_one_of_all_lower_classes_stands_in_front() -> None:
    order = Precedence({0, 1, 2}, Stop())
    top, _, _ = ranked(order, 2)
    _, middle, middle_wire = ranked(order, 1)
    _, low, low_wire = ranked(order, 0)
    top.begin()
    low.copy(0, 1, 2, 3)
    waiting = in_thread(lambda: middle.copy(0, 1, 2, 3))
    waiting.join(0.05)
    assert middle_wire.sent == []
    low_wire.landed[0].set()
    waiting.join(10)
    assert middle_wire.sent == [0]


def test_waiting_can_be_called_off() -> None:
    stop = Stop()
    order = Precedence({0, 1}, stop)
    top, _, _ = ranked(order, 1)
    _, low, low_wire = ranked(order, 0)
    top.begin()
    stop.ask()
    with pytest.raises(Stopped):
        low.copy(0, 1, 2, 3)
    assert low_wire.sent == []


def background(high: dict[str, Any], low: dict[str, Any]) -> Plan:
    words = {"from": "host0", "to": ["gpu0"], "memory": "pinned"}
    flows = {"high": words | {"priority": 1} | high, "low": words | low}
    return Plan.model_validate({"flows": flows})


def run(plan: Plan, backend: Any, **options: Any) -> Run:
    machine = one_gpu()
    return execute(plan, machine, estimate=estimate(plan, machine), backend=backend, **options)


def test_the_virtual_clock_serves_the_higher_class_first() -> None:
    # Both at once: 1 GB of each over 10 GB/s, 954 chunks with a gap of 2 us each: 0.1019 s. The
    # higher class has the wire for so long, waiting for one chunk (0.1 ms) of the other at most;
    # then the other comes, and ends at twice that.
    chunk = {"chunk": MIB, "depth": 2, "workers": 1, "size": GB}
    found = run(background(chunk, chunk), "null")
    high, low = found.flows
    assert high.duration_s == pytest.approx(0.1019, rel=0.003)
    assert high.duration_s == pytest.approx(high.predicted_s, rel=0.005)
    assert low.duration_s == pytest.approx(0.2038, rel=0.003)
    assert found.makespan_s == pytest.approx(found.predicted_makespan_s, rel=0.005)


@pytest.mark.parametrize(("chunk", "bound"), [(16 * MIB, 0.04), (MIB, 0.004)])
def test_the_residual_shrinks_with_the_chunk(chunk: int, bound: float) -> None:
    # The higher class comes at 50 ms into 2 GB of the lower one. It finds two chunks (depth) on
    # the engine, 1.7 ms of 100 ms each for 16 MiB; the model counts one.
    shape = {"chunk": chunk, "depth": 2, "workers": 1}
    plan = background({"size": GB, "start": 0.05} | shape, {"size": 2 * GB} | shape)
    found = run(plan, "null")
    assert found.flows[0].duration_s == pytest.approx(found.flows[0].predicted_s, rel=bound)
    assert found.makespan_s == pytest.approx(found.predicted_makespan_s, rel=bound)


def test_flows_alone_measure_their_estimates_in_any_class() -> None:
    # The lower class is over before the higher one begins at 1 s.
    plan = background({"size": GB, "start": 1.0}, {"size": GB})
    found = run(plan, "null")
    for flow in found.flows:
        assert flow.duration_s == pytest.approx(flow.predicted_s, rel=1e-9)


class Logged(HostLane):
    """A lane that notes what it issues and what arrives, with the flow that it belongs to."""

    notes: list[tuple[str, str]]
    flow: str

    def copy_parts(self, slot: int, parts: Sequence[Part]) -> None:
        self.notes.append(("issue", self.flow))
        super().copy_parts(slot, parts)

    def arrive(self, slot: int, start: float, end: float, error: BaseException | None) -> None:
        self.notes.append(("arrive", self.flow))
        super().arrive(slot, start, end, error)


class Logging(HostBackend):
    """A host backend with such lanes."""

    def __init__(self) -> None:
        super().__init__()
        self.notes: list[tuple[str, str]] = []

    def lane(
        self, engine: Engine, slots: int, *, spin: bool = True, timed: bool = True
    ) -> HostLane:
        plain = super().lane(engine, slots, spin=spin, timed=timed)
        lane = Logged(engine, self._servers[engine.server], slots)
        lane.notes = self.notes
        lane.flow = threading.current_thread().name.split()[0]
        assert type(plain) is HostLane
        return lane


def test_the_host_backend_keeps_the_order() -> None:
    """60 chunks of the higher class beside 400 of the lower, by four workers with two slots each.

    Without order the engine would serve eight of the lower for two of the higher.
    """
    shape = {"chunk": 4 * MIB, "workers": 1, "depth": 2, "strategy": "pinned"}
    plan = background(
        {"size": 60 * 4 * MIB, "start": 0.03} | shape,
        {"size": 100 * 4 * MIB, "repeat": 4} | shape | {"workers": 4},
    )
    with_log = Logging()
    try:
        found = run(plan, with_log, samples=1, warmup=0)
    finally:
        with_log.close()
    assert [flow.verified for flow in found.flows] == [True, True]
    notes = with_log.notes
    first = notes.index(("issue", "high"))
    last = len(notes) - 1 - notes[::-1].index(("arrive", "high"))
    between = notes[first:last]
    backlog = sum(1 if what == "issue" else -1 for what, flow in notes[:first] if flow == "low")
    served = sum(1 for note in between if note == ("arrive", "low"))
    assert served - backlog <= 30
    out = backlog
    for what, flow in between:
        if flow == "low":
            out += 1 if what == "issue" else -1
            assert out <= max(1, backlog)
            backlog = min(backlog, max(out, 1))


def test_a_plan_of_one_class_gets_the_backend_itself() -> None:
    plan = background({"size": MIB, "priority": 3}, {"size": MIB, "priority": 3})
    machine, device = one_gpu(), HostBackend()
    from planner.engine.ends import Options
    from planner.engine.progress import Quiet
    from planner.model.needs import demands

    session = Session(plan, machine, device, Quiet(), None)
    try:
        session.open(demands(plan, machine), estimate(plan, machine), Options())
        assert all(flow.runner.backend is device for flow in session.flows.values())
    finally:
        session.close()
        device.close()
