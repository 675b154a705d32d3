"""Repeats in step: a flow fills its free buffers while what consumes the others is at work."""

from __future__ import annotations

import threading
from time import sleep
from typing import Any

import pytest

from planner.engine import drive
from planner.engine.backends.host import HostBackend
from planner.engine.execute import execute
from planner.engine.ops import DMA, WAIT
from planner.engine.pace import Gate, Turns, gates
from planner.engine.strategies.base import Hands, Operation
from planner.engine.waits import Stop, Stopped
from planner.engine.worker import operations_of
from planner.errors import ExecutionError, VerificationError
from planner.model.estimate import estimate
from planner.model.needs import demands
from planner.plan.schema import Plan
from planner.results import Run
from tests.helpers.machines import MIB, one_gpu

pytestmark = pytest.mark.usefixtures("scratch")

MB = 10**6


def prefetch(*, buffers: int, repeat: int, size: int, step: float, **more: Any) -> Plan:
    """Batches from pinned memory, and a step after each of them."""
    batch = {"from": "host0", "to": ["gpu0"], "size": size, "memory": "pinned"}
    words = {
        "flows": {"batch": batch | {"repeat": repeat, "buffers": buffers} | more},
        "compute": {"step": {"gpu": "gpu0", "time": step, "repeat": repeat, "after": ["batch"]}},
    }
    return Plan.model_validate(words)


def run(plan: Plan, backend: str, **options: Any) -> Run:
    machine = one_gpu()
    prediction = estimate(plan, machine)
    return execute(plan, machine, estimate=prediction, backend=backend, **options)  # type: ignore[arg-type]


def test_gates_are_the_rules_of_the_model() -> None:
    words = {
        "flows": {
            "fetch": {"from": "host0", "to": ["gpu0"], "size": MB, "repeat": 5, "buffers": 3},
            "back": {
                "from": "gpu0",
                "to": ["host0"],
                "size": MB,
                "repeat": 5,
                "after": ["work"],
            },
            "last": {"from": "gpu0", "to": ["host0"], "size": MB, "after": ["back"]},
        },
        "compute": {"work": {"gpu": "gpu0", "time": 0.1, "repeat": 5, "after": ["fetch"]}},
    }
    plan = Plan.model_validate(words)
    found = gates(plan, demands(plan, one_gpu()))
    assert found["fetch"] == Gate((), (), (("work", 3),))
    assert found["work"] == Gate((), ("fetch",))  # a compute block has no buffers to free
    assert found["back"] == Gate((), ("work",))
    assert found["last"] == Gate(("back",))
    # Repeat 4 of fetch takes the buffer of repeat 1: two runs of work must have ended.
    assert found["fetch"].before(4) == [("work", 2)]
    assert found["fetch"].before(2) == []
    assert found["work"].before(2) == [("fetch", 3)]


@pytest.mark.parametrize("buffers", [1, 2, 3, 4])
def test_the_virtual_clock_keeps_step_as_predicted(buffers: int) -> None:
    # 40 MB take about 4 ms over 10 GB/s, a step takes 12 ms. With one buffer each step waits for
    # its batch; with more only the first does.
    plan = prefetch(buffers=buffers, repeat=20, size=40 * MB, step=0.012)
    prediction = estimate(plan, one_gpu())
    found = run(plan, "null")
    flow, expected = found.flows[0], prediction.flows[0]
    copy = expected.alone_s or 0.0
    each = copy / 20
    assert found.makespan_s == pytest.approx(
        20 * (0.012 + each) if buffers == 1 else each + 20 * 0.012, rel=1e-6
    )
    assert found.makespan_s == pytest.approx(prediction.makespan_s, rel=1e-9)
    assert flow.duration_s == pytest.approx(expected.duration_s, rel=1e-9)
    assert flow.steady_s == pytest.approx(expected.steady_s, rel=1e-9)
    assert flow.exposed_s == pytest.approx(expected.exposed_s, rel=1e-9)
    assert flow.hidden_share == pytest.approx(expected.hidden_share, abs=1e-9)
    assert found.compute[0].duration_s == pytest.approx(prediction.compute[0].duration_s, rel=1e-9)


@pytest.mark.parametrize(("buffers", "most"), [(1, 1), (2, 2), (3, 3), (4, 4)])
def test_a_flow_is_never_further_ahead_than_its_buffers(
    buffers: int, most: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Counts batches that have begun and are not consumed: each step takes one out at its end."""
    ahead, peak, lock = 0, 0, threading.Lock()
    plan = prefetch(buffers=buffers, repeat=8, size=1024, step=0.01)

    def counting(hands: Hands) -> list[Operation]:
        operations = operations_of(hands)
        issue = operations[DMA]

        def begun(slot: int, chunk: int) -> None:
            nonlocal ahead, peak
            with lock:
                ahead += 1
                peak = max(peak, ahead)
            issue(slot, chunk)

        operations[DMA] = begun
        return operations

    monkeypatch.setattr(drive, "operations_of", counting)
    plain = HostBackend.compute

    def counted(self: HostBackend, gpu: int, check: Any) -> Any:
        spin = plain(self, gpu, check)

        def work(seconds: float) -> None:
            nonlocal ahead
            spin(seconds)
            with lock:
                ahead -= 1

        return work

    monkeypatch.setattr(HostBackend, "compute", counted)
    found = run(plan, "host", samples=1, warmup=0)
    # One chunk a batch. A batch takes far less than the 10 ms of a step, so all buffers fill up.
    assert peak == most
    assert ahead == 0
    assert found.flows[0].verified is True


@pytest.mark.parametrize("buffers", [1, 2])
def test_a_second_buffer_hides_the_transfer_on_the_host_too(
    buffers: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With two buffers each step ends only when the next batch is there: overlap, or a failure.

    So nothing depends on how soon this computer wakes a thread. A batch takes 20 ms at least, far
    more than what lies between the end of a step and the start of the next.
    """
    repeat, late = 6, []
    begun, arrived, done = 0, 0, threading.Condition()

    def slow(hands: Hands) -> list[Operation]:
        operations = operations_of(hands)
        issue, wait = operations[DMA], operations[WAIT]

        def issued(slot: int, chunk: int) -> None:
            nonlocal begun
            sleep(0.02)
            issue(slot, chunk)
            begun += 1

        def waited(slot: int, chunk: int) -> None:
            nonlocal arrived
            wait(slot, chunk)
            with done:
                arrived = begun
                done.notify_all()

        operations[DMA], operations[WAIT] = issued, waited
        return operations

    def held(_self: HostBackend, _gpu: int, _check: Any) -> Any:
        steps = 0

        def work(_seconds: float) -> None:
            nonlocal steps
            steps += 1
            ahead = buffers > 1 and steps % repeat > 0  # the last step has no batch behind it
            with done:
                if not done.wait_for(lambda: arrived >= steps + ahead, timeout=30):
                    late.append(steps)

        return work

    monkeypatch.setattr(drive, "operations_of", slow)
    monkeypatch.setattr(HostBackend, "compute", held)
    plan = prefetch(buffers=buffers, repeat=repeat, size=MIB, step=0.0, strategy="pinned")
    flow = run(plan, "host", samples=3, warmup=1, verify=False).flows[0]
    assert not late
    assert flow.exposed_s is not None
    assert flow.hidden_share is not None
    assert flow.steady_s >= 0.02
    if buffers == 1:  # nothing runs while a batch comes in
        assert flow.hidden_share == pytest.approx(0.0, abs=1e-9)
    else:  # only the first batch of six is exposed
        assert flow.exposed_s >= 0.02
        assert flow.hidden_share > 0.4


def test_all_buffers_are_verified(monkeypatch: pytest.MonkeyPatch) -> None:
    """Three buffers, seven batches: the last one of buffer 1 is batch 4, which is not moved."""
    plan = prefetch(buffers=3, repeat=7, size=4096, step=0.0, strategy="pinned")
    moved = 0

    def skipping(hands: Hands) -> list[Operation]:
        operations = operations_of(hands)
        issue = operations[DMA]

        def skip(slot: int, chunk: int) -> None:
            nonlocal moved
            moved += 1
            if moved not in (2, 5):  # batches 1 and 4 of the first sample
                issue(slot, chunk)

        operations[DMA] = skip
        return operations

    monkeypatch.setattr(drive, "operations_of", skipping)
    with pytest.raises(VerificationError, match=r"byte 0 arrived as 0x.., the source"):
        run(plan, "host", samples=1, warmup=0)


@pytest.mark.parametrize("size", [1, 4095, 4097, 1_000_003])
def test_chains_of_flows_and_compute_keep_step(size: int) -> None:
    words = {
        "flows": {
            "fetch": {"from": "host0", "to": ["gpu0"], "size": size, "repeat": 9, "buffers": 2},
            "back": {
                "from": "gpu0",
                "to": ["host0"],
                "size": size,
                "repeat": 9,
                "after": ["work"],
            },
            "store": {
                "from": "host0",
                "to": ["disk0"],
                "size": size,
                "repeat": 9,
                "after": ["back"],
            },
        },
        "compute": {
            "work": {"gpu": "gpu0", "time": 0.002, "repeat": 9, "after": ["fetch"]},
        },
    }
    found = run(Plan.model_validate(words), "host", samples=2, warmup=0)
    assert [flow.verified for flow in found.flows] == [True, True, True]
    assert found.makespan_samples_s[0] >= 9 * 0.002


def test_blocks_of_one_gpu_run_one_after_another() -> None:
    words = {
        "flows": {"a": {"from": "host0", "to": ["gpu0"], "size": MB}},
        "compute": {name: {"gpu": "gpu0", "time": 0.02, "repeat": 2} for name in ("x", "y")},
    }
    plan = Plan.model_validate(words)
    assert run(plan, "host", samples=1).makespan_samples_s[0] >= 0.08
    assert run(plan, "null").makespan_s == pytest.approx(0.08, rel=1e-9)


def test_an_error_in_step_ends_whoever_waits(monkeypatch: pytest.MonkeyPatch) -> None:
    plan = prefetch(buffers=2, repeat=50, size=4096, step=0.001)
    issued = 0

    def failing(hands: Hands) -> list[Operation]:
        operations = operations_of(hands)
        issue = operations[DMA]

        def run_(slot: int, chunk: int) -> None:
            nonlocal issued
            issued += 1
            if issued == 7:
                raise OSError(5, "the wire is cut")
            issue(slot, chunk)

        operations[DMA] = run_
        return operations

    monkeypatch.setattr(drive, "operations_of", failing)
    threads = threading.active_count()
    with pytest.raises(ExecutionError, match="the wire is cut"):
        run(plan, "host", samples=1, warmup=0)
    assert threading.active_count() == threads


def test_a_wait_for_a_turn_can_be_called_off() -> None:
    stop = Stop()
    turns = Turns(["a"], stop)
    stop.ask()
    with pytest.raises(Stopped):
        turns.wait([("a", 1)])
