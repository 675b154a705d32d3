"""The choice for one flow: what is feasible, what is fastest, and why the rest is not chosen."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given, settings, strategies as st

from planner.errors import InfeasibleError
from planner.machine.load import load_machine
from planner.machine.override import with_overrides
from planner.machine.schema import Machine
from planner.machine.topology import Topology
from planner.model.choose import decide, evaluate
from planner.model.movement import Movement
from planner.model.need import Need, Pins
from planner.model.pipeline import exact, lengths
from planner.model.shapes import CHUNKS, DEPTHS, FLAT, WORKERS, Choice, choose_shape, steadier
from planner.model.strategies import Shape
from planner.model.ways import ways
from tests.helpers.machines import GB, MIB, flat_table, one_gpu, two_gpus

LOAD = Need("load", "disk0", "gpu0", 4 * GB, "file", "device", pinned_budget=GB, cores=8)


def test_a_cached_file_goes_through_a_ring() -> None:
    # Page cache 20 GB/s, DMA 10 GB/s: the wire limits, 4 GB take 0.4 s and a little.
    decision = decide(Topology(one_gpu()), LOAD)
    assert decision.best.way.names == ("buffered", "pinned")
    assert decision.best.steady == pytest.approx(0.4, rel=0.01)
    assert decision.best.steady > 0.4


def test_for_one_load_a_small_ring_beats_registering_the_whole_file() -> None:
    # Mapping and registering 4 GB at 10 GB/s costs 0.4 s before 0.4 s of DMA; the ring of some
    # MiB costs next to nothing.
    host = one_gpu(setup={"register": 10e9, "register_file": 10e9, "touch_fresh": 5e9})
    once = decide(Topology(host), replace(LOAD, pinned_budget=8 * GB))
    assert once.best.way.names == ("buffered", "pinned")
    whole = next(c for c in once.others if c.way.names == ("mmap", "registered"))
    assert whole.setup_seconds == pytest.approx(0.4)
    assert whole.duration(1) == pytest.approx(0.4 + 0.4, rel=1e-3)


def test_many_loads_of_one_mapping_pay_for_it() -> None:
    # The copy stage at 8 GB/s limits the ring: 0.5 s a load against 0.4 s of the mapping.
    # 0.4 + n * 0.4 < n * 0.5 from n = 5 on.
    tables = {"file": {"workers": [1], "rings": [MIB], "rates": [[8e9]]}}
    host = one_gpu(copy=tables, setup={"register": 1e18, "register_file": 10e9})
    budget = replace(LOAD, pinned_budget=8 * GB)
    assert decide(Topology(host), replace(budget, repeat=3)).best.way.names[0] == "buffered"
    assert decide(Topology(host), replace(budget, repeat=6)).best.way.names[0] == "mmap"


def test_a_cold_file_is_limited_by_the_disk() -> None:
    # 4 GB at 2 GB/s are 2 s whatever the way; O_DIRECT saves the copy but not time.
    decision = decide(Topology(one_gpu()), replace(LOAD, cached=0.0))
    assert decision.best.steady == pytest.approx(2.0, rel=0.02)
    mapped = [r for r in decision.infeasible if r.strategies[0] == "mmap"]
    assert mapped
    assert "not wholly in the page cache" in mapped[0].reason


def test_pageable_memory_is_staged_by_us_not_by_the_driver() -> None:
    # The driver's pageable copy runs at 4 GB/s, our ring at the wire's 10.
    need = Need("up", "host0", "gpu0", 4 * GB, "pageable", "device", pinned_budget=GB, cores=8)
    decision = decide(Topology(one_gpu()), need)
    assert decision.best.way.names == ("staged",)
    pageable = next(c for c in decision.others if c.way.names == ("pageable",))
    assert pageable.steady == pytest.approx(1.0, rel=1e-3)


def test_a_pinned_buffer_goes_in_one_copy() -> None:
    # 10 us + 4 GB / 10 GB/s.
    need = Need("up", "host0", "gpu0", 4 * GB, "pinned", "device", pinned_budget=GB, cores=8)
    best = decide(Topology(one_gpu()), need).best
    assert best.way.names == ("pinned",)
    assert best.shapes == (Shape(4 * GB),)
    assert best.steady == pytest.approx(10e-6 + 0.4, rel=1e-9)


def test_saving_goes_through_a_ring_too() -> None:
    need = Need("save", "gpu0", "disk0", 4 * GB, "device", "file", pinned_budget=GB, cores=8)
    best = decide(Topology(one_gpu()), need).best
    assert best.way.names == ("pinned", "buffered")
    assert best.steady == pytest.approx(0.4, rel=0.01)


def test_peer_access_beats_the_way_through_the_host() -> None:
    need = Need("p2p", "gpu0", "gpu1", GB, "device", "device", pinned_budget=GB, cores=8)
    decision = decide(Topology(two_gpus()), need)
    assert decision.best.way.names == ("peer",)
    assert decision.best.steady == pytest.approx(8e-6 + 0.01, rel=1e-9)
    staged = next(c for c in decision.others if c.way.names == ("host_staged", "host_staged"))
    # Both PCIe links at 10 GB/s, overlapped: a little over 0.1 s, far below 0.2.
    assert staged.steady == pytest.approx(0.1, rel=0.05)


def test_without_peer_access_the_host_is_the_way() -> None:
    need = Need("p2p", "gpu0", "gpu1", GB, "device", "device", pinned_budget=GB, cores=8)
    assert decide(Topology(two_gpus(None)), need).best.way.names == ("host_staged", "host_staged")


def test_inside_one_gpu_the_copy_is_local() -> None:
    need = Need("in", "gpu0", "gpu0", GB, "device", "device", pinned_budget=GB, cores=8)
    best = decide(Topology(one_gpu()), need).best
    assert best.way.names == ("local",)
    assert best.steady == pytest.approx(5e-6 + 0.002, rel=1e-9)


def test_the_budget_shrinks_the_ring_and_then_says_what_would_fit() -> None:
    small = decide(Topology(one_gpu()), replace(LOAD, pinned_budget=2 * MIB)).best
    assert small.ring <= 2 * MIB
    with pytest.raises(InfeasibleError, match=r"at least 256 KiB pinned on host0, the budget is 4"):
        decide(
            Topology(one_gpu()),
            replace(LOAD, pinned_budget=4096, pins=Pins(strategy="pinned")),
        )


def test_what_does_not_fit_into_the_gpu_names_both_numbers() -> None:
    with pytest.raises(InfeasibleError, match=r"gpu0 holds 32 GB, the flow has 40 GB"):
        decide(Topology(one_gpu()), replace(LOAD, size=40 * GB))


def test_no_route_is_said() -> None:
    machine = one_gpu()
    island = machine.model_copy(update={"links": {"storage0": machine.links["storage0"]}})
    with pytest.raises(InfeasibleError, match="no way from disk0 to gpu0"):
        decide(Topology(island), LOAD)


def test_a_way_that_failed_is_named() -> None:
    machine = with_overrides(one_gpu(), {"links.pcie0.failed": "true"})
    with pytest.raises(InfeasibleError, match="no way from disk0 to gpu0 without pcie0"):
        decide(Topology(machine), LOAD)


def test_pins_are_kept() -> None:
    pins = Pins(chunk=3 * MIB, depth=3, workers=5)
    best = decide(Topology(one_gpu()), replace(LOAD, pins=pins)).best
    assert best.shapes == (Shape(3 * MIB, 3, 5),)
    by_hop = Pins(by_hop={"disk0 -> host0": "direct"})
    assert decide(Topology(one_gpu()), replace(LOAD, pins=by_hop)).best.way.names[0] == "direct"


def test_the_core_budget_caps_the_workers() -> None:
    best = decide(Topology(one_gpu()), replace(LOAD, cores=2)).best
    assert all(shape.workers <= 2 for shape in best.shapes)


def test_the_chosen_shape_is_within_one_per_cent_of_brute_force() -> None:
    """Every chunk that is a multiple of 1 MiB, every depth and worker, followed chunk by chunk."""
    need = replace(LOAD, size=300 * MIB)
    topology = Topology(one_gpu())
    best = decide(topology, need).best
    movement = best.way.movements[0]
    grid = [
        Shape(chunk * MIB, depth, count)
        for chunk in range(1, 65)
        for depth in DEPTHS
        for count in WORKERS
        if count <= 8
    ]
    brute = min(
        exact(movement.stages(s), lengths(need.size, s.chunk), s.workers, s.depth).total_s
        for s in grid
    )
    assert best.steady <= brute * 1.01
    assert FLAT < 0.01
    assert best.shapes[0].chunk in CHUNKS


def _staged(machine: Machine, size: int) -> tuple[Movement, Need]:
    need = Need("up", "host0", "gpu0", size, "pageable", "device", 16 * GB, 8)
    found = ways(Topology(machine), need)
    return next(way for way in found if way.names == ("staged",)).movements[0], need


def test_workers_that_take_long_until_they_are_at_it_are_not_woken_for_little() -> None:
    # A worker copies 2 GB/s, the wire 10. 0.4 GB by four take 50 ms, by six and more 40, but with
    # more than four it takes 12 to 30 ms until all are at it. For 40 GB that does not count.
    table = flat_table(2e9, scales=True) | {"lead": [0.0, 0.0, 1e-3, 30e-3]}
    machine = one_gpu(copy={"memory": table})
    for size, few in ((400_000_000, True), (40 * GB, False)):
        chosen = choose_shape(*_staged(machine, size))
        assert isinstance(chosen, Choice)
        assert (chosen.shape.workers <= 4) == few


def test_workers_that_take_long_to_start_are_not_started_for_little() -> None:
    # 0.4 GB by four take 50 ms and by six 40, but each further one is started in 5 ms and opens its
    # lane in 3: 74 and 80 ms in all. For 40 GB that does not count.
    table = flat_table(2e9, scales=True)
    setup = {"register": 1e18, "worker": 5e-3, "lane": 3e-3}
    machine = one_gpu(copy={"memory": table}, setup=setup)
    for size, few in ((400_000_000, True), (40 * GB, False)):
        movement, need = _staged(machine, size)
        assert movement.crew(Shape(MIB, 2, 4)) == pytest.approx((15e-3, 12e-3))
        chosen = choose_shape(movement, need)
        assert isinstance(chosen, Choice)
        assert (chosen.shape.workers <= 4) == few


@pytest.mark.parametrize(
    ("one_slot", "saved", "slots"),
    [(1.0, 0.05, 2), (0.9, 0.05, 1), (0.9, 0.02, 2), (1.0, 0.15, 1)],
)
def test_one_slot_must_promise_more_where_nobody_measured_what_it_loses(
    one_slot: float, saved: float, slots: int
) -> None:
    machine = one_gpu(copy={"memory": flat_table(20e9) | {"one_slot": one_slot}})
    movement, _ = _staged(machine, GB)
    one, two = Choice(Shape(4 * MIB, 1, 8), 1.0), Choice(Shape(2 * MIB, 2, 8), 1.0 + saved)
    assert steadier(movement, one, two).shape.depth == slots


def test_the_choice_equals_brute_force_over_all_ways() -> None:
    topology = Topology(one_gpu())
    found = [evaluate(topology.machine, LOAD, way) for way in ways(topology, LOAD)]
    feasible = [c for c in found if not isinstance(c, str)]
    best = decide(topology, LOAD).best
    assert best.duration(1) == min(c.duration(1) for c in feasible)


def test_every_rejected_candidate_keeps_its_time_or_its_reason() -> None:
    decision = decide(Topology(one_gpu()), LOAD)
    rejected = decision.rejected()
    # One way is chosen, and one row tells that there is no GPUDirect Storage to be a way at all.
    assert len(rejected) == len(list(ways(Topology(one_gpu()), LOAD))) - 1 + 1
    for row in rejected:
        assert row.reason
        assert row.duration_s is None or row.duration_s >= decision.best.duration(1)


def test_of_the_reasons_against_a_flow_what_only_is_too_large_comes_first() -> None:
    with pytest.raises(InfeasibleError) as caught:
        decide(Topology(one_gpu()), replace(LOAD, size=40 * GB))
    reasons = caught.value.reasons
    kinds = ["the flow has 40 GB" in reason or "not 40 GB" in reason for reason in reasons]
    assert kinds[0]
    # Each reason is told once, with every way that it stops.
    told = [reason.rpartition(" (")[0] for reason in reasons]
    assert len(set(told)) == len(told)
    unasked = [at for at, reason in enumerate(reasons) if "does not say how the GPU uses" in reason]
    assert unasked
    assert min(unasked) > max(at for at, kind in enumerate(kinds) if kind)


KINDS = [("file", "disk0"), ("pageable", "host0"), ("pinned", "host0")]


@settings(max_examples=60)
@given(
    where=st.sampled_from(["h200-sxm-1", "pcie4-a100", "desktop-rtx4090"]),
    kind=st.sampled_from(KINDS),
    size=st.integers(1, 24 * GB),  # what the smallest of these GPUs holds
    cached=st.sampled_from([0.0, 0.4, 1.0]),
    repeat=st.sampled_from([1, 50]),
    shape=st.builds(Shape, st.sampled_from(CHUNKS), st.integers(1, 3), st.sampled_from(WORKERS)),
)
def test_no_shape_goes_below_the_least(
    where: str, kind: tuple[Any, str], size: int, cached: float, repeat: int, shape: Shape
) -> None:
    topology = Topology(load_machine(where))
    need = Need("load", kind[1], "gpu0", size, kind[0], "device", 4 * GB, 32)
    need = replace(need, cached=cached, repeat=repeat)
    for way in ways(topology, need):
        if not way.lacks():
            for movement in way.movements:
                whole = movement.single or shape.chunk > size
                one = Shape(size) if whole else shape
                assert movement.seconds(one) >= movement.least * (1 - 1e-9)
    # So leaving out what cannot win leaves the winner as it is.
    assert decide(topology, need, brief=True).best == decide(topology, need).best
