"""What a first run pays between its named steps, predicted and measured under one name."""

from __future__ import annotations

import pytest

from planner.engine.backends.host import HostBackend
from planner.engine.calibration.copies import Walk
from planner.engine.calibration.device import DeviceBench
from planner.engine.calibration.first import First
from planner.engine.execute import execute
from planner.engine.paid import between
from planner.engine.transfer import Moved
from planner.model.estimate import estimate
from planner.model.movement import READY
from planner.plan.schema import Plan
from planner.results import SetupStep
from tests.helpers.machines import one_gpu

MIB = 1 << 20


def test_what_is_left_of_a_first_repeat_is_a_step() -> None:
    # 1 s in all: 0.1 waited, 0.2 and 0.3 of steps, 0.25 of moving; 0.15 s are left.
    steps = [SetupStep(name=name, duration_s=s) for name, s in (("a", 0.2), ("b", 0.3))]
    moves = [Moved(10.6, 10.85, (), ())]
    (left,) = between(10.0, 11.0, 0.1, steps, moves)
    assert left.name == READY
    assert left.duration_s == pytest.approx(0.15)
    # Steps that ran at the same time as others leave nothing.
    assert between(10.0, 10.7, 0.1, steps, moves) == []


def test_a_first_run_is_its_steps_and_its_moves() -> None:
    flow = {"from": "host0", "to": "gpu0", "size": MIB, "memory": "pinned"}
    plan = Plan.model_validate({"name": "first", "flows": {"f": flow}})
    machine = one_gpu(setup={"register": 1e18, "ready": 2e-3})
    answer = estimate(plan, machine)
    predicted = {step.name: step.duration_s for step in answer.flows[0].setup}
    assert predicted[READY] == pytest.approx(2e-3)
    backend = HostBackend()
    try:
        run = execute(plan, machine, estimate=answer, backend=backend, samples=1, warmup=0)
    finally:
        backend.close()
    (found,) = run.flows
    measured = {step.name: step.duration_s for step in found.setup}
    assert measured[READY] > 0
    # With nothing else in it, what is not setup is the copy.
    assert found.steady_s == pytest.approx(found.first_s - sum(measured.values()), abs=1e-9)
    assert found.steady_s == pytest.approx(found.hops[0].busy_s, abs=2e-3)


def test_the_calibration_runs_a_flow_of_its_own_each_time() -> None:
    backend = HostBackend()
    bench = DeviceBench(backend, 1)
    try:
        pinned, device = bench.pinned(MIB), bench.device(0, MIB)
        assert pinned.view is not None
        assert device.view is not None
        first = First(backend, one_gpu(), 0, Walk(device, pinned))
        every = (first.moved, first.ready, first.started, first.opened)
        for value, told in enumerate(every, start=1):
            pinned.view[:] = bytes([value]) * MIB
            assert told() > 0
            assert bytes(device.view[:1024]) == bytes([value]) * 1024
        # Four workers with a chunk each, out of ordinary memory.
        plain, target = bench.pageable(8 * MIB), bench.device(0, 8 * MIB)
        plain.owner.fill(7)
        ring = First(backend, one_gpu(), 0, Walk(target, plain), workers=4)
        assert ring.ready() > 0
        assert target.view is not None
        assert bytes(target.view[: 4 * MIB]) == bytes([7]) * (4 * MIB)
        # As much as the flow has, and no more: the rest is what the block was made with.
        assert bytes(device.view[first.size :]) == bytes([1]) * (MIB - first.size)
    finally:
        bench.close()
        backend.close()
