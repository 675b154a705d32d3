"""One flow over several links at once: shares, limits, and what is said where it gains nothing."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings, strategies as st

from planner.machine.load import load_machine
from planner.machine.schema import Machine
from planner.machine.topology import Topology
from planner.model.arrange import Arrangement, Lane, carried
from planner.model.choose import Candidate
from planner.model.estimate import estimate
from planner.model.fluid import fluid, streamed
from planner.model.movement import READY, REGISTER, TOUCH
from planner.model.need import Need
from planner.model.pipeline import exact, lengths
from planner.model.strategies import Shape
from planner.model.ways import ways
from planner.results import Estimate, SetupStep
from tests.helpers.machines import GB, MIB, affine, flat_table, one_gpu, two_gpus
from tests.helpers.plans import plan_of, up


def test_the_neighbours_link_doubles_a_pinned_load() -> None:
    # 2 GB over two wires of 10 GB/s, and over NVLink at 100: 0.1 s instead of 0.2.
    predicted = estimate(plan_of({"a": up(size=2 * GB)}), two_gpus()).flows[0]
    assert predicted.duration_s == pytest.approx(0.1, rel=0.02)
    parts = predicted.schedule.parts
    assert sum(part.share_bytes for part in parts) == 2 * GB
    assert [[hop.link for hop in part.hops] for part in parts] == [["pcie0"], ["pcie1", "nvlink0"]]
    assert parts[0].share_bytes == pytest.approx(GB, rel=0.02)
    single = next(row for row in predicted.rejected if row.strategies == ("pinned",))
    assert single.duration_s == pytest.approx(0.2, rel=1e-3)
    assert "one way alone is slower than 2 at once" in single.reason


def test_the_detour_is_coupled_and_stages_a_few_chunks_only() -> None:
    predicted = estimate(plan_of({"a": up(size=2 * GB)}), two_gpus())
    detour = predicted.flows[0].schedule.parts[1]
    assert [hop.coupled for hop in detour.hops] == [True, False]
    nodes = {node.name: node for node in predicted.nodes}
    assert nodes["gpu1"].peak_bytes <= 256 * MIB
    assert nodes["gpu0"].peak_bytes == 2 * GB


def test_every_way_has_workers_and_lanes_of_its_own_and_staging_has_its_step() -> None:
    tree = two_gpus().model_dump(mode="json", by_alias=True)
    # 0.1 ms for the first worker and 0.3 for each other, 50 us a lane, 1 ms for any allocation.
    tree["nodes"]["host0"]["setup"] = {"start": 1e-4, "worker": 3e-4, "lane": 5e-5}
    tree["nodes"]["gpu1"]["allocate"] = affine(1e15, 1e-3)
    flow = estimate(plan_of({"a": up(size=2 * GB)}), Machine.model_validate(tree)).flows[0]
    assert len(flow.schedule.parts) == 2
    detour = flow.schedule.parts[1].hops[0]
    assert detour.workers == 1
    seconds = {step.name: step.duration_s for step in flow.setup}
    assert seconds["start the workers"] == pytest.approx(0.4e-3)
    # One for the direct way, two for the detour: into the neighbour and out of it.
    assert seconds["open the lanes"] == pytest.approx(0.15e-3)
    assert seconds["allocate staging on gpu1"] == pytest.approx(1e-3, rel=1e-3)
    sizes = {step.name: step.size_bytes for step in flow.setup}
    assert sizes["allocate staging on gpu1"] == detour.chunk_bytes * detour.depth


def test_every_way_has_a_ring_of_its_own_and_the_program_is_ready_once() -> None:
    need = Need("a", "host0", "gpu0", GB, "pinned", "device", GB, cores=8)
    way = next(w for w in ways(Topology(one_gpu()), need) if w.names == ("pinned",))

    def lane(seconds: float) -> Lane:
        steps = [
            SetupStep(name=TOUCH, duration_s=seconds, size_bytes=MIB),
            SetupStep(name=REGISTER, duration_s=2 * seconds, size_bytes=MIB),
            SetupStep(name=READY, duration_s=3 * seconds),
        ]
        return Lane(need, Candidate(way, (Shape(GB),), 0.1, tuple(steps)))

    found = Arrangement((lane(2e-3), lane(1e-3))).setup
    assert [(step.name, step.size_bytes) for step in found] == [
        (TOUCH, 2 * MIB),
        (REGISTER, 2 * MIB),
        (READY, None),
    ]
    assert [step.duration_s for step in found] == pytest.approx([3e-3, 6e-3, 6e-3])


def test_a_busy_neighbour_leaves_less_to_split() -> None:
    # gpu1's link is half taken: X = 10 + 5 GB/s while both run, so a share of about a third.
    flows = {"a": up(size=3 * GB), "b": up(size=3 * GB, to="gpu1", via=["pcie1"])}
    predicted = estimate(plan_of(flows), two_gpus())
    # 6 GB through two wires of 10 GB/s: no choice ends before 0.3 s.
    assert predicted.makespan_s >= 0.3
    assert predicted.makespan_s == pytest.approx(0.3, rel=0.05)


def test_a_shared_port_limits_both_ways_together() -> None:
    # Both links behind an uplink of 12 GB/s: 2 GB take 1/6 s.
    tree = two_gpus().model_dump(mode="json", by_alias=True)
    tree["ports"] = {"root": {"forward": 12e9}}
    for name in ("pcie0", "pcie1"):
        tree["links"][name]["ports"] = ["root", None]
    predicted = estimate(plan_of({"a": up(size=2 * GB)}), Machine.model_validate(tree))
    assert predicted.makespan_s == pytest.approx(2 / 12, rel=0.02)


def test_where_the_copies_bind_nothing_is_gained_and_that_is_said() -> None:
    # The host copies at 10.1 GB/s, one wire takes 10: a second wire gains 1 %, which is nothing.
    tree = two_gpus().model_dump(mode="json", by_alias=True)
    tree["nodes"]["host0"]["copy"] = {"memory": flat_table(10.1e9)}
    tree["nodes"]["host0"]["setup"] = {}
    for name in ("pcie0", "pcie1"):  # no gap: the wire takes 10 GB/s whatever the chunk
        tree["links"][name]["forward"]["curves"]["pinned"] = {"latency": 0, "rate": 10e9}
    flow = up(size=2 * GB, memory="pageable")
    predicted = estimate(plan_of({"a": flow}), Machine.model_validate(tree)).flows[0]
    assert predicted.schedule.parts == ()
    reasons = [row.reason for row in predicted.rejected if "split over 2 ways" in row.reason]
    assert reasons
    assert "host0.copy limits all together" in reasons[0]


@settings(max_examples=15)
@given(st.integers(32 * MIB, 8 * GB))
def test_splitting_keeps_all_bytes_and_is_never_slower(size: int) -> None:
    predicted = estimate(plan_of({"a": up(size=size)}), two_gpus()).flows[0]
    parts = predicted.schedule.parts
    assert sum(part.share_bytes for part in parts) in (0, size)
    assert all(part.share_bytes > 0 for part in parts)
    assert predicted.duration_s <= 10e-6 + size / 10e9 + 1e-9


def test_a_saved_split_is_predicted_as_it_is() -> None:
    plan, machine = plan_of({"a": up(size=2 * GB)}), two_gpus()
    once = estimate(plan, machine)
    read = Estimate.model_validate_json(once.model_dump_json())
    again = estimate(plan, machine, schedules={"a": read.flows[0].schedule})
    assert again.flows[0].schedule == once.flows[0].schedule
    assert again.makespan_s == pytest.approx(once.makespan_s, rel=1e-9)


def test_streamed_movements_take_what_two_engines_in_a_row_take() -> None:
    # 64 chunks of 16 MiB through pinned (10 GB/s) and peer (100 GB/s): the relay's own recurrence.
    need = Need("a", "host0", "gpu0", 1024 * MIB, "pinned", "device", GB, cores=8)
    way = next(w for w in ways(Topology(two_gpus()), need) if w.names == ("pinned", "peer"))
    first, second = way.movements
    shape = Shape(16 * MIB, 2, 2)
    joined = streamed(fluid(first, shape), [second], shape)
    stages = (*first.stages(shape), *second.stages(shape))
    trace = exact(stages, lengths(need.size, shape.chunk), shape.workers, shape.depth)
    assert joined.total == pytest.approx(trace.total_s, rel=1e-9)


def test_another_share_keeps_the_shape() -> None:
    need = Need("a", "host0", "gpu0", GB, "pinned", "device", GB, cores=8)
    way = next(w for w in ways(Topology(one_gpu()), need) if w.names == ("pinned",))
    whole = Lane(need, Candidate(way, (Shape(GB),), 0.1, ()))
    half = carried(one_gpu(), whole, GB // 2)
    assert half.candidate.shapes == (Shape(GB // 2),)  # one copy of everything stays one
    assert half.seconds == pytest.approx(10e-6 + 0.05, rel=1e-9)


def gain(machine: Machine, **flow: Any) -> float:
    """How much faster a flow is that may take every way than one over the GPU's own link."""
    flow = {"to": "gpu0", "size": "8GiB", **flow}
    best = estimate(plan_of({"a": flow}), machine).flows[0]
    single = estimate(plan_of({"a": {**flow, "via": ["host0", "pcie0"]}}), machine).flows[0]
    assert single.schedule.parts == ()
    return single.steady_s / best.steady_s


def test_two_links_of_the_real_machine_give_what_their_port_carries() -> None:
    machine = load_machine("h200-sxm-2")
    (port,) = machine.ports.values()
    link = machine.links["pcie0"].forward
    assert link is not None
    assert port.forward is not None
    most = port.forward / link.rate
    # Less the gaps between chunks and the uneven end: half a chunk of 64 MiB of each link's 4 GiB.
    assert 0.97 * most <= gain(machine, **{"from": "host0", "memory": "pinned"}) <= most


def test_a_second_link_helps_a_cached_file_less_as_the_copies_limit() -> None:
    machine = load_machine("h200-sxm-2")
    pinned = gain(machine, **{"from": "host0", "memory": "pinned"})
    assert 1.0 <= gain(machine, **{"from": "disk0", "cache": "warm"}) < pinned


def test_a_registered_mapping_among_the_ways_is_cut_as_the_plan_pins_it() -> None:
    machine = load_machine("plans/machines/h200-8.yaml")
    pinned = {"chunk": 4 * MIB, "depth": 2, "workers": 2}
    words = {"from": "disk0", "to": ["gpu0"], "size": GB, "cache": "warm", "strategy": "registered"}
    flow = estimate(plan_of({"f": words | pinned}), machine).flows[0]
    # The mapping moves nothing: only the copies out of it have chunks.
    first = (flow.schedule.parts or (flow.schedule,))[0]
    assert [hop.strategy for hop in first.hops] == ["mmap", "registered"]
    assert first.hops[1].chunk_bytes == 4 * MIB
