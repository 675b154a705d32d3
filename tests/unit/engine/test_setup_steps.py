"""What is predicted of a first run and what the engine does before it are the same steps."""

from __future__ import annotations

import tempfile
from pathlib import Path

import pytest

from planner.engine.paid import merged
from planner.machine.schema import Machine
from planner.results import SetupStep
from tests.helpers.machines import affine, every_way
from tests.helpers.schedules import KIB, WAYS, plan_for, predicted, run_way, schedule
from tests.helpers.variants import changed


@pytest.fixture(autouse=True)
def scratch(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))


@pytest.fixture(scope="module")
def machine() -> Machine:
    """`every_way` where each step of a setup takes time, so that none is left out as nothing."""
    tree = every_way().model_dump(mode="json", by_alias=True)
    tree["nodes"]["host0"]["setup"] |= {
        "touch_fresh": 4e9,
        "register": 20e9,
        "register_latency": 1e-5,
        "unregister": 40e9,
        "register_file": 5e9,
        "map_latency": 3e-5,
        "map_touch": 10e9,
        "host_alloc": 2e9,
        "start": 1e-4,
        "worker": 2e-4,
        "lane": 5e-5,
        "ready": 2e-4,
    }
    for gpu in ("gpu0", "gpu1"):
        tree["nodes"][gpu]["allocate"] = affine(1e12, 1e-4)
    return Machine.model_validate(tree)


@pytest.mark.parametrize("way", WAYS)
def test_each_step_that_is_predicted_is_done_and_none_besides(way: str, machine: Machine) -> None:
    size = 40 * KIB
    made = schedule(way, size)
    expected = predicted(plan_for(way, size), machine, made).flows[0].setup
    done = run_way(way, size, machine).flows[0].setup
    assert {step.name for step in done} == {step.name for step in expected}
    assert len({step.name for step in done}) == len(done)


def test_workers_and_lanes_are_counted(machine: Machine) -> None:
    # Four workers: the first 0.1 ms and three of 0.2 ms; a lane each of 50 us.
    made = schedule("staged in", 400 * KIB, workers=4)
    found = predicted(plan_for("staged in", 400 * KIB), machine, made).flows[0].setup
    seconds = {step.name: step.duration_s for step in found}
    assert seconds["start the workers"] == pytest.approx(0.7e-3)
    assert seconds["open the lanes"] == pytest.approx(0.2e-3)
    # A relay has two engines: two lanes for each of two workers.
    made = schedule("relay", 400 * KIB, workers=2)
    found = predicted(plan_for("relay", 400 * KIB), machine, made).flows[0].setup
    assert {s.name: s.duration_s for s in found}["open the lanes"] == pytest.approx(0.2e-3)


def test_workers_are_woken_one_after_another_to_open_their_lanes(machine: Machine) -> None:
    # Four lanes of 50 us, and three workers after the first, each 30 us later.
    setup = {"nodes.host0.setup.wake": 30e-6, "nodes.host0.setup.ready_ring": 6e-4}
    made = schedule("staged in", 400 * KIB, workers=4)
    found = predicted(plan_for("staged in", 400 * KIB), changed(machine, setup), made)
    seconds = {step.name: step.duration_s for step in found.flows[0].setup}
    assert seconds["open the lanes"] == pytest.approx(0.29e-3)
    # A ring takes the program longer than one copy does.
    assert seconds["make the movement ready"] == pytest.approx(6e-4)
    made = schedule("pinned in", 400 * KIB)
    found = predicted(plan_for("pinned in", 400 * KIB), changed(machine, setup), made)
    seconds = {step.name: step.duration_s for step in found.flows[0].setup}
    assert seconds["make the movement ready"] == pytest.approx(2e-4)


def test_steps_of_one_name_become_one() -> None:
    first, second = (SetupStep(name="open the lanes", duration_s=s) for s in (1e-3, 2e-3))
    other = SetupStep(name="touch the ring", duration_s=5e-3, size_bytes=7)
    assert merged([first, other, second]) == (
        SetupStep(name="open the lanes", duration_s=3e-3),
        other,
    )
