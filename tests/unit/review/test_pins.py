"""Pinned strategies that nobody can follow are told with their place."""

from __future__ import annotations

import pytest

from planner.errors import InfeasibleError, PlanError
from planner.machine.override import with_overrides
from planner.machine.schema import Machine
from planner.model.estimate import estimate
from planner.plan.load import loads_plan
from planner.review import inputs
from tests.helpers.machines import many_gpus, one_gpu, two_gpus
from tests.helpers.plans import load, plan_of

HEAD = "version: 1\nmachine: h200-sxm-2\nflows:\n"


def told(flow: str, machine: Machine) -> list[tuple[str, str, str | None]]:
    """Key path, message and suggestion of every fault of a plan with one flow."""
    loaded = loads_plan(f"{HEAD}  w: {flow}\n")
    return [(f.path, f.message, f.suggestion) for f in inputs.name_faults(loaded, machine)]


def pinned(strategy: str, to: str = "gpu0") -> str:
    return f"{{from: disk0, to: {to}, size: 1GB, strategy: {strategy}}}"


def test_an_unknown_strategy_is_a_fault_with_a_suggestion() -> None:
    assert told(pinned("pined"), one_gpu()) == [
        ("flows.w.strategy", 'no strategy "pined"', "did you mean pinned?")
    ]


def test_it_is_one_for_this_computer_too_whatever_that_is() -> None:
    text = HEAD.replace("h200-sxm-2", "here") + f"  w: {pinned('{host0 -> gpu0: stged}')}\n"
    (fault,) = inputs.machine_faults(loads_plan(text))
    assert (fault.line, fault.path) == (4, "flows.w.strategy.host0 -> gpu0")
    assert fault.message == 'no strategy "stged"'
    with pytest.raises(PlanError):
        inputs.require_names(loads_plan(text), one_gpu())


def test_a_hop_that_no_route_crosses_is_a_fault() -> None:
    # Without a link between them gpu1 is on no route to gpu0.
    (fault,) = told(pinned("{disk0 -> gpu1: gds, host0 -> gpu0: pinned}"), two_gpus(None))
    assert fault[:2] == (
        "flows.w.strategy.disk0 -> gpu1",
        "no route of this flow crosses disk0 -> gpu1",
    )


def test_a_hop_counts_in_its_own_direction_only() -> None:
    (fault,) = told(pinned("{gpu0 -> host0: pinned}"), one_gpu())
    assert fault[1:] == (
        "no route of this flow crosses gpu0 -> host0",
        "did you mean host0 -> gpu0?",
    )


def test_a_strategy_for_other_places_is_a_fault() -> None:
    assert told(pinned("{disk0 -> host0: pinned}"), one_gpu()) == [
        (
            "flows.w.strategy.disk0 -> host0",
            "pinned does not carry from disk to ram",
            "there is buffered, direct, mmap",
        )
    ]
    (fault,) = told(pinned("rdma"), one_gpu())
    assert fault[:2] == ("flows.w.strategy", "rdma carries across no hop of this flow")


def test_right_pins_are_no_faults_on_classes_either() -> None:
    text = (
        HEAD + "  w:\n    from: disk0\n    to: node{node}.gpu{gpu}\n    size: 1GB\n"
        "    for_each: {node: 0..1, gpu: 0..1}\n    strategy:\n"
        "      disk0 -> node{node}.host0: buffered\n"
        "      node{node}.host0 -> node{node}.gpu{gpu}: pinned\n"
    )
    assert inputs.name_faults(loads_plan(text), many_gpus(2, 2)) == []
    wrong = text.replace("-> node{node}.gpu{gpu}: pinned", "-> node{node}.gpu{gpu}: gds")
    (fault,) = inputs.name_faults(loads_plan(wrong), many_gpus(2, 2))
    assert (fault.line, fault.message) == (11, "gds does not carry from ram to hbm")


def test_each_destination_is_held_to_the_pins_that_it_can_meet() -> None:
    # host0 -> gpu1 is no hop of the copy for gpu0 unless it goes through gpu1, and the reverse.
    flow = load(to=["gpu0", "gpu1"], strategy={"host0 -> gpu1": "pageable"})
    predicted = estimate(plan_of({"w": flow}), two_gpus(None))
    last = {f.schedule.hops[-1].end: f.schedule.hops[-1].strategy for f in predicted.flows}
    assert last["gpu1"] == "pageable"
    assert last["gpu0"] != "pageable"


def test_a_pinned_hop_is_crossed_even_where_another_way_is_faster() -> None:
    # Peer copies at 100 GB/s are the way from GPU to GPU, unless the host is pinned on it.
    flow = {"from": "gpu0", "to": "gpu1", "size": 10**9}
    free = estimate(plan_of({"p": flow}), two_gpus())
    assert [hop.strategy for hop in free.flows[0].schedule.hops] == ["peer"]
    asked = {**flow, "strategy": {"gpu0 -> host0": "host_staged"}}
    (bound,) = estimate(plan_of({"p": asked}), two_gpus()).flows
    assert [hop.end for hop in bound.schedule.hops] == ["host0", "gpu1"]


def test_what_no_way_can_do_is_infeasible() -> None:
    flow = load(strategy={"disk0 -> host0": "mmap", "host0 -> gpu0": "staged"})
    with pytest.raises(InfeasibleError, match="the plan pins"):
        estimate(plan_of({"w": flow}), one_gpu())


def test_a_route_in_the_wrong_order_is_a_fault_with_one_that_goes() -> None:
    flow = "{from: disk0, to: gpu0, size: 1GB, via: [gpu0, disk0]}"
    assert told(flow, one_gpu()) == [
        (
            "flows.w.via",
            "no way from disk0 to gpu0 passes gpu0, disk0 in this order",
            "the shortest way is disk0, host0, gpu0",
        )
    ]
    assert told(flow.replace("[gpu0, disk0]", "host0"), one_gpu()) == []


def test_a_route_over_a_failed_link_is_no_fault_of_the_plan() -> None:
    """What is left of the machine has no way: the prediction says so."""
    broken = with_overrides(one_gpu(), {"links.pcie0.failed": "true"})
    assert told("{from: disk0, to: gpu0, size: 1GB, route: host0}", broken) == []
