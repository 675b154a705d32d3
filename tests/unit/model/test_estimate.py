"""Whole plans: sums, dependencies, contention, memory, and what follows."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings, strategies as st

from planner.engine.execute import execute
from planner.errors import InfeasibleError, PlanError
from planner.machine.schema import Machine
from planner.machine.topology import Topology
from planner.model.choose import decide
from planner.model.estimate import estimate
from planner.model.needs import demands
from planner.plan.schema import Plan
from planner.results import Estimate
from tests.helpers.machines import GB, MIB, flat_table, one_gpu, two_gpus


def plan(flows: dict[str, Any], **more: Any) -> Plan:
    """A plan from the words of the file."""
    return Plan.model_validate({"name": "test", "flows": flows, **more})


def load(**more: Any) -> dict[str, Any]:
    return {"from": "disk0", "to": "gpu0", "size": 4 * GB, "cache": "warm", **more}


def up(**more: Any) -> dict[str, Any]:
    return {"from": "host0", "to": "gpu0", "size": GB, "memory": "pinned", **more}


def test_alone_a_flow_takes_what_its_pipeline_takes() -> None:
    machine = one_gpu()
    predicted = estimate(plan({"weights": load()}), machine)
    (demand,) = demands(plan({"weights": load()}), machine)
    best = decide(Topology(machine), demand.need).best
    trace = best.way.movements[0].trace(best.shapes[0])
    assert predicted.flows[0].steady_s == pytest.approx(trace.total_s, rel=1e-9)
    assert predicted.makespan_s == predicted.flows[0].finish_s
    assert predicted.flows[0].duration_s == pytest.approx(
        best.setup_seconds + trace.total_s, rel=1e-9
    )


def test_duration_is_setup_once_and_each_repeat() -> None:
    # The ring is touched at 1 GB/s; first = setup + steady, duration = setup + 3 steady.
    machine = one_gpu(setup={"touch_fresh": 1e9, "register": 1e18})
    flow = estimate(plan({"weights": load(repeat=3)}), machine).flows[0]
    setup = sum(step.duration_s for step in flow.setup)
    assert setup == pytest.approx(flow.ring_bytes / 1e9)
    assert flow.first_s == pytest.approx(setup + flow.steady_s, rel=1e-9)
    assert flow.duration_s == pytest.approx(setup + 3 * flow.steady_s, rel=1e-9)


def test_two_copies_on_one_link_take_turns() -> None:
    # 1 GB each at 10 GB/s, one call each: the engine does the first in 0.1 s and then the second.
    predicted = estimate(plan({"a": up(), "b": up()}), one_gpu())
    assert [flow.finish_s for flow in predicted.flows] == pytest.approx([0.1, 0.2], rel=1e-3)


def test_two_flows_in_chunks_share_a_link() -> None:
    # 1 GB each at 10 GB/s: alone 0.1 s; together each gets 5 GB/s and both end at 0.2 s, and after
    # each of the 239 chunks of either the engine is idle for its gap of 2 us.
    chunks = {"chunk": "4MiB", "depth": 2}
    predicted = estimate(plan({"a": up(**chunks), "b": up(**chunks)}), one_gpu())
    for flow in predicted.flows:
        assert flow.finish_s == pytest.approx(0.2 + 2 * 239 * 2e-6, rel=1e-3)


def test_opposite_directions_do_not_meet_unless_the_machine_says_so() -> None:
    down = {"from": "gpu0", "to": "host0", "size": GB, "memory": "pinned"}
    free = estimate(plan({"up": up(), "down": down}), one_gpu())
    assert free.makespan_s == pytest.approx(0.1, rel=1e-3)
    # With a multiplicity of 1 a byte down takes a byte's time up: half the rate each.
    machine = one_gpu().model_dump(mode="json", by_alias=True)
    for way in ("forward", "backward"):
        machine["links"]["pcie0"][way]["against"] = 1.0
    half = estimate(plan({"up": up(), "down": down}), Machine.model_validate(machine))
    assert half.makespan_s == pytest.approx(0.2, rel=1e-3)


def test_two_gpus_have_a_link_each() -> None:
    predicted = estimate(plan({"a": up(), "b": up(to="gpu1")}), two_gpus())
    assert predicted.makespan_s == pytest.approx(0.1, rel=1e-3)


def test_staged_flows_share_the_hosts_copies() -> None:
    # Two GPUs, pageable sources: each could take 10 GB/s, the host copies 12 GB/s in all.
    # 1 GB each: 2 GB / 12 GB/s = 0.1667 s.
    tables = {"memory": flat_table(12e9)}
    machine = two_gpus().model_dump(mode="json", by_alias=True)
    machine["nodes"]["host0"]["copy"] = tables
    staged = up(memory="pageable", strategy="staged")
    predicted = estimate(
        plan({"a": staged, "b": staged | {"to": "gpu1"}}), Machine.model_validate(machine)
    )
    assert predicted.makespan_s == pytest.approx(2 / 12, rel=0.01)
    assert {f.bottleneck.resource for f in predicted.flows} == {"host0.copy"}


def test_after_waits_for_the_end() -> None:
    predicted = estimate(plan({"a": up(), "b": up(after="a")}), one_gpu())
    first, second = predicted.flows
    assert second.start_s == pytest.approx(first.finish_s)
    assert second.finish_s == pytest.approx(0.2, rel=1e-3)
    assert second.duration_s == pytest.approx(0.1, rel=1e-3)


def test_compute_hides_a_transfer() -> None:
    # 0.06 s of compute beside 0.1 s of transfer: 0.04 s stay exposed.
    predicted = estimate(
        plan({"a": up()}, compute={"step": {"gpu": "gpu0", "time": "60ms"}}), one_gpu()
    )
    assert predicted.flows[0].exposed_s == pytest.approx(0.04, rel=0.01)
    assert predicted.compute[0].duration_s == pytest.approx(0.06)


def test_compute_by_bytes_uses_the_rate_of_the_memory() -> None:
    # 4 GB at 1 TB/s: 4 ms.
    predicted = estimate(plan({}, compute={"read": {"gpu": "gpu0", "bytes": "4GB"}}), one_gpu())
    assert predicted.makespan_s == pytest.approx(0.004)


def test_replicas_and_shards() -> None:
    both = estimate(plan({"a": up(to=["gpu0", "gpu1"])}), two_gpus())
    assert [f.size_bytes for f in both.flows] == [GB, GB]
    half = estimate(plan({"a": up(to=["gpu0", "gpu1"], copy="shard", size=GB + 1)}), two_gpus())
    assert [f.size_bytes for f in half.flows] == [GB // 2 + 1, GB // 2]


def test_memory_counts_ring_and_destination() -> None:
    predicted = estimate(plan({"weights": load()}), one_gpu())
    nodes = {node.name: node for node in predicted.nodes}
    assert nodes["gpu0"].peak_bytes == 4 * GB
    assert nodes["host0"].pinned_bytes == predicted.flows[0].ring_bytes > 0


def test_the_bottleneck_is_named_with_its_cause() -> None:
    warm = estimate(plan({"weights": load()}), one_gpu()).flows[0].bottleneck
    assert (warm.resource, warm.cause) == ("pcie0.forward", "bandwidth")
    assert warm.share == pytest.approx(1.0, abs=0.01)
    cold = estimate(plan({"weights": load(cache="cold")}), one_gpu()).flows[0].bottleneck
    assert (cold.resource, cold.cause) == ("storage0.forward", "bandwidth")
    slow = one_gpu(copy={"file": flat_table(3e9)})
    copy = estimate(plan({"weights": load()}), slow).flows[0].bottleneck
    assert (copy.resource, copy.cause) == ("host0.copy", "host_copy")
    tiny = estimate(plan({"a": up(size=4096)}), one_gpu()).flows[0].bottleneck
    assert tiny.cause == "latency"


def test_doubling_the_bottleneck_helps_and_the_rest_does_not() -> None:
    predicted = estimate(plan({"weights": load()}), one_gpu())
    effect = {row.resource: row.makespan_s for row in predicted.what_if}
    # The wire at 20 GB/s meets the page cache's 20 GB/s: about half the time.
    assert effect["pcie0.forward"] == pytest.approx(predicted.makespan_s / 2, rel=0.05)
    assert effect["host0.copy"] == pytest.approx(predicted.makespan_s, rel=0.05)


def test_a_saved_schedule_is_predicted_as_it_is() -> None:
    pinned = estimate(plan({"weights": load(chunk=3 * MIB, workers=2, depth=3)}), one_gpu())
    schedule = pinned.flows[0].schedule
    again = estimate(plan({"weights": load()}), one_gpu(), schedules={"weights": schedule})
    assert again.flows[0].schedule == schedule
    assert again.flows[0].duration_s == pytest.approx(pinned.flows[0].duration_s, rel=1e-12)


def test_a_schedule_of_another_machine_is_refused() -> None:
    schedule = estimate(plan({"p": up(**{"from": "gpu1"})}), two_gpus()).flows[0].schedule
    with pytest.raises(InfeasibleError, match="no way that matches"):
        estimate(plan({"p": up()}), one_gpu(), schedules={"p": schedule})


def test_an_unknown_node_is_a_fault_of_the_plan() -> None:
    with pytest.raises(PlanError, match='machine small has no node "gpu7"'):
        estimate(plan({"a": up(to="gpu7")}), one_gpu())


def test_an_interval_needs_a_spread() -> None:
    predicted = estimate(plan({"a": up()}), one_gpu())
    assert predicted.interval_s is None
    assert any("no spread is known" in line for line in predicted.warnings)
    machine = one_gpu().model_dump(mode="json", by_alias=True)
    machine["sources"]["test"]["spread"] = 0.1
    spread = estimate(plan({"a": up()}), Machine.model_validate(machine))
    assert spread.interval_s is not None
    low, high = spread.interval_s
    assert low < spread.makespan_s < high


def test_the_same_plan_gives_the_same_bytes() -> None:
    flows = {"a": load(), "b": up(after="a"), "c": up()}
    once = estimate(plan(flows), two_gpus())
    shuffled = dict(reversed(flows.items()))
    other = estimate(plan(shuffled), two_gpus())
    assert once.model_dump_json() == estimate(plan(flows), two_gpus()).model_dump_json()
    assert sorted(once.flows, key=lambda f: f.name) == sorted(other.flows, key=lambda f: f.name)


@settings(max_examples=40)
@given(st.integers(1, 8 * GB), st.integers(1, 8 * GB), st.sampled_from(["warm", "cold"]))
def test_more_bytes_of_a_single_flow_are_never_faster(one: int, two: int, cache: str) -> None:
    def seconds(size: int) -> float:
        return estimate(plan({"weights": load(size=size, cache=cache)}), one_gpu()).makespan_s

    small, big = sorted((one, two))
    # Half a per cent is the width within which shapes count as equal (`shapes.FLAT`).
    assert seconds(small) <= seconds(big) * 1.005


@settings(max_examples=30)
@given(st.floats(1e9, 100e9), st.floats(1.0, 10.0))
def test_a_faster_link_is_never_slower_for_a_single_flow(rate: float, factor: float) -> None:
    def predict(speed: float) -> Estimate:
        machine = one_gpu().model_dump(mode="json", by_alias=True)
        way = machine["links"]["pcie0"]["forward"]
        way["rate"] = speed
        for curve in way["curves"].values():
            curve["rate"] = speed
        return estimate(plan({"weights": load()}), Machine.model_validate(machine))

    assert predict(rate * factor).makespan_s <= predict(rate).makespan_s * 1.005


def test_what_setups_keep_apart_meets_in_a_steady_run() -> None:
    # Registering 4 GB at 5 GB/s takes 0.8 s, in which the other flow has the link to itself: 0.4 s
    # each. With everything set up both begin together and share it: 0.8 s each.
    host = one_gpu(setup={"register": 5e9})
    own = {"from": "host0", "to": "gpu0", "size": 4 * GB, "chunk": MIB * 32, "workers": 1}
    both = plan(
        {
            "pinned": own | {"memory": "pinned", "strategy": "pinned"},
            "registered": own | {"strategy": "registered"},
        }
    )
    predicted = estimate(both, host)
    pinned, registered = predicted.flows
    assert pinned.first_s == pytest.approx(0.4, rel=0.01)
    assert registered.first_s == pytest.approx(1.2, rel=0.01)
    assert [flow.steady_s for flow in predicted.flows] == pytest.approx([0.8, 0.8], rel=0.01)
    # The virtual clock measures it so, too.
    run = execute(both, host, estimate=predicted, backend="null", samples=1)
    assert [flow.steady_s for flow in run.flows] == pytest.approx([0.8, 0.8], rel=0.01)
    assert [flow.first_s for flow in run.flows] == pytest.approx([0.4, 1.2], rel=0.01)
    # Alone a flow is as steady as its first repeat less the setup.
    alone = plan({"registered": own | {"strategy": "registered"}})
    assert estimate(alone, host).flows[0].steady_s == pytest.approx(0.4, rel=0.01)
