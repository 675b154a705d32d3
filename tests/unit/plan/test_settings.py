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
