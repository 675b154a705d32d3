"""Classes of equal flows: the same numbers as all of them written out, and no more work."""

from __future__ import annotations

import time
from typing import Any

import pytest

from planner.errors import InfeasibleError
from planner.machine.replicate import written_out
from planner.model.classes import fitted
from planner.model.estimate import estimate
from planner.plan.schema import Plan
from planner.results import Estimate
from tests.helpers.machines import GB, many_gpus


def cold_start(nodes: int, gpus: int, **more: Any) -> Plan:
    flow = {
        "from": "disk0",
        "to": "node{n}.gpu{g}",
        "for_each": {"n": f"0..{nodes - 1}", "g": f"0..{gpus - 1}"},
        "size": GB,
        "cache": "cold",
        **more,
    }
    return Plan.model_validate({"name": "start", "flows": {"start": flow}})


def test_a_whole_class_is_one_flow_with_members() -> None:
    predicted = estimate(cold_start(3, 2), many_gpus(3, 2))
    (flow,) = predicted.flows
    assert (flow.name, flow.members, flow.size_bytes) == ("start[n=0..2, g=0..1]", 6, GB)
    # 2 GPUs x 1 GB through a mount of 2 GB/s: 1 s.
    assert flow.steady_s == pytest.approx(1.0, rel=0.01)
    nodes = {node.name: node for node in predicted.nodes}
    assert nodes["node{node}.gpu{gpu}"].peak_bytes == GB
    assert nodes["node{node}.gpu{gpu}"].members == 6
    # Both rings of a host, on each of three hosts.
    assert nodes["node{node}.host0"].pinned_bytes == 2 * flow.ring_bytes
    assert nodes["node{node}.host0"].members == 3
    rows = {row.name: row for row in predicted.resources}
    assert rows["node{node}.mount.forward"].members == 3


@pytest.mark.parametrize("filer", [None, 3e9])
@pytest.mark.parametrize("more", [{}, {"cache": "warm"}, {"repeat": 3}])
def test_a_class_takes_what_its_flows_take_written_out(
    filer: float | None, more: dict[str, Any]
) -> None:
    machine, plan = many_gpus(3, 2, filer=filer), cold_start(3, 2, **more)
    symbolic = estimate(plan, machine)
    (one,) = symbolic.flows
    shape = {"chunk": one.schedule.hops[0].chunk_bytes, "depth": one.schedule.hops[0].depth}
    shape |= {"workers": one.schedule.hops[0].workers}
    names = "+".join(hop.strategy for hop in one.schedule.hops)
    pinned = {
        "strategy": {
            f"{hop.start} -> {hop.end}".replace("{node}", "{n}").replace("{gpu}", "{g}"): s
            for hop, s in zip(one.schedule.hops, names.split("+"), strict=True)
        },
        **{key: value for key, value in shape.items() if one.ring_bytes},
    }
    fixed = cold_start(3, 2, **more, **pinned)
    class_ = estimate(fixed, machine)
    out = estimate(fixed, written_out(machine))
    assert len(out.flows) == 6
    assert class_.makespan_s == pytest.approx(out.makespan_s, rel=1e-9)
    for flow in out.flows:
        for name in ("duration_s", "first_s", "steady_s", "start_s", "finish_s"):
            assert getattr(flow, name) == pytest.approx(getattr(class_.flows[0], name), rel=1e-9)
    peaks = {node.name: node.peak_bytes for node in out.nodes}
    assert peaks["node1.host0"] == {n.name: n for n in class_.nodes}["node{node}.host0"].peak_bytes


def test_a_filer_limits_all_hosts_together() -> None:
    # 6 GB through 3 GB/s in all: 2 s, whatever the mounts could do; twice the filer: 1 s.
    predicted = estimate(cold_start(3, 2), many_gpus(3, 2, filer=3e9))
    assert predicted.makespan_s == pytest.approx(2.0, rel=0.01)
    assert predicted.flows[0].bottleneck.resource == "filer.forward"
    effect = {row.resource: row.makespan_s for row in predicted.what_if}
    assert effect["filer.forward"] == pytest.approx(1.0, rel=0.01)


def test_one_member_by_name_writes_the_machine_out() -> None:
    plan = Plan.model_validate(
        {"name": "one", "flows": {"a": {"from": "disk0", "to": "node2.gpu1", "size": GB}}}
    )
    machine = many_gpus(3, 2)
    assert fitted(plan, machine).replicate == {}
    assert estimate(plan, machine).flows[0].schedule.hops[-1].end == "node2.gpu1"


def test_only_some_members_write_it_out_too_and_a_large_machine_says_so() -> None:
    assert len(estimate(cold_start(2, 2), many_gpus(3, 2)).flows) == 4
    with pytest.raises(InfeasibleError, match="write the flows with for_each over all of them"):
        estimate(cold_start(2, 8), many_gpus(12_500, 8))


def seconds_of(nodes: int) -> tuple[float, Estimate]:
    machine, plan = many_gpus(nodes, 8, filer=1e12), cold_start(nodes, 8)
    started = time.process_time()
    predicted = estimate(plan, machine)
    return time.process_time() - started, predicted


def test_a_hundred_thousand_flows_take_no_longer_than_sixteen() -> None:
    spent, predicted = seconds_of(12_500)
    assert predicted.flows[0].members == 100_000
    # 100,000 GB through 1 TB/s.
    assert predicted.makespan_s == pytest.approx(100.0, rel=0.01)
    assert spent < 2.0
