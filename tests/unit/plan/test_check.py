from __future__ import annotations

import pytest

from planner.errors import PlanError
from planner.plan.check import check_parts, near
from planner.plan.load import check_names, check_plan, loads_plan
from planner.plan.objectives import parse_objective
from planner.plan.schema import Compute, Flow, Plan


def flow(**keys: object) -> Flow:
    return Flow.model_validate({"source": "disk0", "destinations": ("gpu0",), "size": 1, **keys})


def circles(**after: tuple[str, ...]) -> list[str]:
    """The circles found among flows that wait like this."""
    found = check_parts({name: flow(after=names) for name, names in after.items()}, {}, after)
    return [complaint.message.removeprefix("these wait for each other: ") for complaint in found]


def test_no_circle_among_flows_in_a_line_or_a_diamond() -> None:
    assert circles(a=(), b=("a",), c=("a",), d=("b", "c")) == []


def test_each_circle_is_told_once_from_the_first_of_the_plan() -> None:
    assert circles(a=("b",), b=("a",), c=("d",), d=("e",), e=("c",)) == [
        "a -> b -> a",
        "c -> d -> e -> c",
    ]


def test_two_circles_through_one_flow() -> None:
    assert sorted(circles(a=("b", "c"), b=("a",), c=("a",))) == ["a -> b -> a", "a -> c -> a"]


def test_a_circle_through_a_compute_block() -> None:
    text = (
        "flows: { w: { from: disk0, to: gpu0, size: 1GB, after: step } }\n"
        "compute: { step: { gpu: gpu0, time: 1ms, after: w } }\n"
    )
    with pytest.raises(PlanError) as caught:
        loads_plan(text)
    assert caught.value.faults[0].message == "these wait for each other: w -> step -> w"


def test_a_long_line_of_flows_needs_no_stack() -> None:
    waits = {f"f{i}": (f"f{i + 1}",) for i in range(20_000)}
    parts = dict.fromkeys(waits, flow())
    assert not list(check_parts({**parts, "f20000": flow()}, {}, waits))


def test_too_many_copies() -> None:
    ranges = {"a": tuple(range(1000)), "b": tuple(range(1000))}
    assert not list(check_parts({"w": flow(for_each=ranges)}, {}, {}))
    ranges["b"] += (1000,)
    (complaint,) = check_parts({"w": flow(for_each=ranges)}, {}, {})
    assert str(1_001_000) in complaint.message


def test_within_a_gpu_source_and_destination_may_be_one() -> None:
    assert not list(check_parts({"w": flow(source="gpu0", destinations=("gpu0",))}, {}, {}))
    (complaint,) = check_parts({"w": flow(source="host0", destinations=("host0",))}, {}, {})
    assert complaint.path == "flows.w.to"


def test_a_destination_twice() -> None:
    (complaint,) = check_parts({"w": flow(destinations=("gpu0", "gpu0"))}, {}, {})
    assert "twice" in complaint.message


TEXT = """\
flows:
  w:
    from: node{n}.disk0
    to: ["node{n}.gpu0", "node{n}.gpu1"]
    route: node{n}.host0
    size: 1GB
    strategy: { "node{n}.host0 -> node{n}.gpu0": pinned }
    for_each: { n: 0..3 }
compute:
  step: { gpu: node0.gpu0, time: 1ms }
objectives:
  - node0.host0.peak <= 50%
  - node3.pcie0.busy <= 90%
  - step.duration <= 2ms
"""
NODES = [f"node{n}.{name}" for n in range(4) for name in ("disk0", "host0", "gpu0", "gpu1")]
LINKS = [f"node{n}.pcie0" for n in range(4)]


def test_names_that_a_machine_has() -> None:
    assert check_names(loads_plan(TEXT), NODES, LINKS, ["pinned"]) == []


def test_names_that_a_machine_lacks_stand_at_their_places() -> None:
    nodes = [name for name in NODES if name not in ("node3.gpu1", "node0.host0")]
    faults = check_names(loads_plan(TEXT), nodes, LINKS[:3], ["pageable"])
    assert [(fault.line, fault.path, fault.message) for fault in faults] == [
        (4, "flows.w.to[1]", 'no node "node3.gpu1"'),
        (5, "flows.w.route", 'no node or link "node0.host0"'),
        (7, "flows.w.strategy.node{n}.host0 -> node{n}.gpu0", 'no node "node0.host0"'),
        (7, "flows.w.strategy.node{n}.host0 -> node{n}.gpu0", 'no strategy "pinned"'),
        (12, "objectives[0]", 'no node "node0.host0"'),
        (13, "objectives[1]", 'no link "node3.pcie0"'),
    ]


def test_a_flow_without_a_pinned_strategy_names_none() -> None:
    loaded = loads_plan("flows: { w: { from: disk0, to: gpu0, size: 1GB } }")
    assert check_names(loaded, ["disk0", "gpu0"], strategy_names=["pinned"]) == []


def test_links_may_stand_in_a_route() -> None:
    loaded = loads_plan("flows: { w: { from: disk0, to: gpu0, size: 1GB, via: pcie0 } }")
    assert check_names(loaded, ["disk0", "gpu0"], ["pcie0"]) == []
    assert len(check_names(loaded, ["disk0", "gpu0"])) == 1


def test_the_names_of_a_set_come_in_one_order_the_more_alike_first() -> None:
    """None is like enough to be meant; two letters of four are nearer than none."""
    assert near("pqrs", frozenset({"zzzz", "aaaa", "pqzz"})) == "there is pqzz, aaaa, zzzz"
    assert near("pqrs", ["zzzz", "aaaa"]) == "there is zzzz, aaaa"


def test_a_plan_built_in_python_is_checked_too() -> None:
    good = Plan(
        flows={"w": flow(), "v": flow(after=("w",))},
        compute={"step": Compute(gpu="gpu0", time=1.0, after=("v",))},
        objectives=(parse_objective("w.duration <= 1s"),),
    )
    check_plan(good)
    bad = Plan(
        name="built",
        flows={"w": flow(after=("x",), size=None)},
        objectives=(parse_objective("u.duration <= 1s"),),
    )
    with pytest.raises(PlanError) as caught:
        check_plan(bad)
    assert [(fault.position(), fault.path) for fault in caught.value.faults] == [
        ("built", "flows.w.after[0]"),
        ("built", "objectives[0]"),
        ("built", "flows.w"),
    ]


def test_suggestions_name_the_nearest_or_a_few() -> None:
    assert near("gpuO", ["gpu0", "disk0"]) == "did you mean gpu0?"
    assert near("xyz", ["gpu0", "disk0"]) == "there is gpu0, disk0"
    assert near("xyz", [f"gpu{i}" for i in range(10)]).endswith("gpu7 and 2 more")
    assert near("xyz", []) == "there is none to name"
