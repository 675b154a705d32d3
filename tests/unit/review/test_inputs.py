"""What people hand over, made ready."""

from __future__ import annotations

from pathlib import Path

import pytest

from planner.errors import InputError, MachineError, PlanError, UnavailableError
from planner.machine.load import load_machine
from planner.plan.load import loads_plan
from planner.review import inputs

TEXT = """\
version: 1
machine: h200-sxm-1
flows:
  weights: {from: disk0, to: gpu0, size: 1GB, cache: warm}
  kv: {from: gpu0, to: host0, size: 1GB, after: weights}
compute:
  step: {gpu: gpu0, time: 1ms, after: weights}
objectives: [weights.duration <= 1s, kv.duration <= 1s, step.duration <= 1s, makespan <= 2s]
"""


def test_only_leaves_out_all_other_flows_and_what_was_said_of_them() -> None:
    plan = inputs.only_flows(loads_plan(TEXT).plan, ["kv"])
    assert list(plan.flows) == ["kv"]
    assert plan.flows["kv"].after == ()
    assert not plan.compute
    assert [o.text for o in plan.objectives] == ["kv.duration <= 1s", "makespan <= 2s"]


def test_only_an_unknown_flow_is_told_the_nearest() -> None:
    with pytest.raises(InputError) as told:
        inputs.only_flows(loads_plan(TEXT).plan, ["weight"])
    assert told.value.hint == "did you mean weights?"


def test_a_plan_in_memory_takes_no_settings() -> None:
    with pytest.raises(InputError, match="has none"):
        inputs.read_plan(loads_plan(TEXT).plan, settings=["weights=1GB"])


def test_the_machine_of_the_plan_unless_another_is_named() -> None:
    loaded = loads_plan(TEXT)
    assert inputs.machine_for(loaded).name == "h200-sxm-1"
    assert inputs.machine_for(loaded, "h200-sxm-2").name == "h200-sxm-2"
    machine = load_machine("h200-sxm-2")
    assert inputs.machine_for(loaded, machine) is machine


def test_overrides_reach_the_machine() -> None:
    loaded = loads_plan(TEXT, settings=["links.pcie0.forward.rate=22GB/s"])
    forward = inputs.machine_for(loaded).links["pcie0"].forward
    assert forward is not None
    assert forward.rate == 22e9


def test_names_that_the_machine_lacks_are_faults_of_the_plan() -> None:
    loaded = loads_plan(TEXT.replace("to: gpu0", "to: gpu5"))
    with pytest.raises(PlanError) as told:
        inputs.machine_for(loaded)
    assert [f.path for f in told.value.faults] == ["flows.weights.to"]


def test_names_that_this_computer_lacks_mean_that_it_cannot_run_it() -> None:
    loaded = loads_plan(TEXT.replace("to: gpu0", "to: gpu5"))
    with pytest.raises(UnavailableError, match="gpu5") as told:
        inputs.require_names(loaded, load_machine("h200-sxm-1"))
    # Where it stands, what comes near it, and what there is.
    (fault,) = inputs.name_faults(loaded, load_machine("h200-sxm-1"))
    assert fault.line > 0
    assert f"({fault.position()} flows.weights.to)" in str(told.value)
    assert told.value.hint == "did you mean gpu0? it has disk0, host0, gpu0"
    # Nothing comes near, and the command line has no place in the file.
    far = loads_plan(TEXT, settings=["flows.weights.to=elsewhere"])
    with pytest.raises(UnavailableError, match=r"\(--set flows\.weights\.to=elsewhere\)") as told:
        inputs.require_names(far, load_machine("h200-sxm-1"))
    assert told.value.hint == "it has disk0, host0, gpu0"


def test_an_unknown_machine_is_a_fault_at_its_key() -> None:
    loaded = loads_plan(TEXT.replace("h200-sxm-1", "h200-sxm-9"))
    (fault,) = inputs.machine_faults(loaded)
    assert (fault.line, fault.path) == (2, "machine")
    with pytest.raises(MachineError):
        inputs.machine_for(loaded)


@pytest.mark.parametrize(
    ("named", "column", "told"),
    [
        ("nope", 10, "no machine"),
        ("", 9, "no machine is named"),
        ("/", 10, "is a folder"),
        ("gone.yaml", 10, "no machine file"),
    ],
)
def test_a_machine_that_the_plan_names_is_told_at_its_line(
    tmp_path: Path, named: str, column: int, told: str
) -> None:
    text = f"version: 1\nmachine: {named}\nflows: {{w: {{from: disk0, to: gpu0, size: 1GB}}}}\n"
    loaded = loads_plan(text, directory=tmp_path)
    with pytest.raises(MachineError, match=told) as caught:
        inputs.machine_for(loaded)
    (fault,) = caught.value.faults
    assert (fault.line, fault.column, fault.path) == (2, column, "machine")
    assert fault.suggestion
    # One that is named beside the plan has no line in it.
    with pytest.raises(MachineError) as caught:
        inputs.machine_for(loaded, "nope")
    assert caught.value.faults == ()


def test_here_is_measured_not_checked() -> None:
    assert inputs.machine_faults(loads_plan(TEXT.replace("h200-sxm-1", "here"))) == []


@pytest.mark.parametrize("emulated", [True, False])
def test_more_gpus_can_be_emulated(emulated: bool) -> None:
    loaded = loads_plan("flows: { w: { from: gpu0, to: gpu3, size: 1GB } }")
    machine = load_machine("h200-sxm-1").model_copy(update={"emulated": emulated})
    with pytest.raises(UnavailableError, match='no node "gpu3"') as caught:
        inputs.require_names(loaded, machine)
    assert ("--emulate-gpus N" in str(caught.value.hint)) is emulated
