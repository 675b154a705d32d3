from __future__ import annotations

from pathlib import Path

import pytest

from planner.errors import PlanError
from planner.plan.load import loads_plan
from planner.plan.schema import Plan

TEXT = """\
vars: { weights: 1GB }
flows:
  w: { from: disk0, to: gpu0, size: $weights }
  v: { from: disk0, to: [gpu0, gpu1], size: 1GB, use: { reads: 2 } }
budget:
objectives:
  - w.duration <= 1s
"""


def plan_with(*settings: str) -> Plan:
    return loads_plan(TEXT, settings=settings).plan


def test_a_bare_name_is_a_variable() -> None:
    plan = plan_with("weights=70GB")
    assert (plan.flows["w"].size, plan.vars) == (70 * 10**9, {"weights": "70GB"})


def test_a_bare_name_may_be_a_key_of_the_plan() -> None:
    assert plan_with("machine=here", "name=other").name == "other"


def test_a_dotted_path_is_a_key_of_the_plan() -> None:
    plan = plan_with("flows.w.chunk = 8MiB", "flows.w.budget.cores=2", "budget.pinned=1GiB")
    assert (plan.flows["w"].chunk, plan.flows["w"].budget.cores) == (8 * 2**20, 2)
    assert plan.budget.pinned == 2**30
    assert plan_with("vars.weights=2GB").flows["w"].size == 2 * 10**9


def test_lists_and_their_items() -> None:
    assert plan_with("flows.w.to=[gpu2, gpu3]").flows["w"].destinations == ("gpu2", "gpu3")
    assert plan_with("flows.v.to[1]=gpu7").flows["v"].destinations == ("gpu0", "gpu7")
    assert plan_with("objectives.0=w.rate >= 1GB/s").objectives[0].metric == "rate"
    assert plan_with("flows.w.for_each={gpu: 0..3}").flows["w"].copies == 4


def test_settings_may_use_variables_and_the_later_wins() -> None:
    assert plan_with("flows.w.size=2GB", "flows.w.size=$weights").flows["w"].size == 10**9


def test_links_and_nodes_are_kept_for_the_machine() -> None:
    plan = plan_with("links.pcie0.forward.rate=11GB/s", "nodes.host0.cores = 4")
    assert plan.overrides == {"links.pcie0.forward.rate": "11GB/s", "nodes.host0.cores": "4"}


def test_a_path_on_the_command_line_starts_from_the_current_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "w.bin").write_bytes(b"12345")
    monkeypatch.chdir(tmp_path)
    loaded = loads_plan(TEXT, directory="/elsewhere", settings=["flows.w.file=w.bin", "weights=5B"])
    assert loaded.plan.flows["w"].files[0].path == str(tmp_path / "w.bin")


@pytest.mark.parametrize(
    ("setting", "message"),
    [
        ("weights", "a setting is key=value"),
        ("=1", "a setting is key=value"),
        ("wieghts=1GB", 'no variable "wieghts"'),
        ("vars.other=1GB", 'no variable "other"'),
        ("xyz=1", 'no variable "xyz"'),
        ("flows.x.size=1GB", 'no flow "x"'),
        ("compute.step.time=1s", 'no compute block "step"'),
        ("flow.w.size=1GB", 'the plan has no "flow"'),
        ("q.w=1GB", 'the plan has no "q"'),
        ("flows.w.size.more=1GB", "holds one value"),
        ("flows.v.to.2=gpu7", 'no item "2"'),
        ("objectives.first=makespan <= 1s", 'no item "first"'),
        ("flows.w.to=[gpu0", "is missing"),
        ("flows.w.use={reads: 1, reads: 2}", "given twice"),
        ("nodes.host0=1", "names no figure"),
        ("flows.w.sise=1GB", 'unknown key "sise"'),
        ("flows.w.size=1Gb", "number of bits"),
        ("flows.v.use.reads=none", "not a count"),
    ],
)
def test_a_setting_that_cannot_be_meant_is_shown_as_given(setting: str, message: str) -> None:
    with pytest.raises(PlanError) as caught:
        plan_with(setting)
    (fault,) = caught.value.faults
    assert fault.position() == f"--set {setting}"
    assert message in fault.message
    assert fault.suggestion


def test_a_setting_in_a_plan_without_variables() -> None:
    with pytest.raises(PlanError) as caught:
        loads_plan("flows: { w: { from: disk0, to: gpu0, size: 1GB } }", settings=["zz=1"])
    assert caught.value.faults[0].suggestion == "the plan has no variable"


def test_a_bare_key_of_flows_is_that_of_every_flow() -> None:
    flows = plan_with("chunk=8MiB", "depth=2").flows
    assert [(flow.chunk, flow.depth) for flow in flows.values()] == [(8 * 2**20, 2)] * 2


def test_a_variable_comes_before_a_key_of_flows() -> None:
    text = TEXT.replace("weights: 1GB", "weights: 1GB, depth: 3")
    plan = loads_plan(text, settings=["depth=4"]).plan
    assert (plan.vars["depth"], plan.flows["w"].depth) == ("4", None)


EACH = """\
flows:
  w: { from: disk0, to: "node{node}.gpu0", size: 1GB, for_each: { node: 0..63 } }
  v: { from: disk0, to: "gpu{gpu}", size: 1GB, for_each: { gpu: 0..7 } }
"""


@pytest.mark.parametrize("setting", ["nodes=8", "replicate.node=8"])
def test_a_count_holds_for_the_machine_and_for_the_flows(setting: str) -> None:
    plan = loads_plan(EACH, settings=[setting]).plan
    assert [flow.copies for flow in plan.flows.values()] == [8, 8]
    assert plan.flows["w"].for_each == {"node": tuple(range(8))}
    assert plan.overrides == {"replicate.node": "8"}
    assert loads_plan(EACH, settings=["replicate.gpu=2"]).plan.flows["v"].copies == 2


def test_a_count_is_a_whole_number() -> None:
    with pytest.raises(PlanError) as caught:
        loads_plan(EACH, settings=["nodes=none"])
    assert [fault.message for fault in caught.value.faults] == ['"none" is not a count']
