"""What is paid once, and what comes after the bytes."""

from __future__ import annotations

from dataclasses import replace

import pytest

from planner.machine.schema import Machine, Ram
from planner.model.fluid import fluid
from planner.model.movement import WAKE, buffer_setup, ring_setup
from planner.model.need import Need
from planner.model.strategies import Shape, Use
from tests.helpers.machines import GB, MIB, one_gpu, sleepy
from tests.helpers.networks import two_hosts
from tests.helpers.variants import by, upload


def host(**setup: float) -> Ram:
    node = one_gpu(setup=setup).nodes["host0"]
    assert isinstance(node, Ram)
    return node


def test_a_ring_is_touched_and_registered_by_its_workers() -> None:
    # 1 GB at 4 GB/s fresh, registered at 20 GB/s with 1 ms a call; workers start in 3 ms.
    made = host(touch_fresh=4e9, register=20e9, register_latency=1e-3, workers=3e-3)
    assert {s.name: s.duration_s for s in ring_setup(made, GB)} == pytest.approx(
        {"start the workers": 3e-3, "touch the ring": 0.25, "register the ring": 0.051}
    )


def test_the_workers_of_a_ring_are_woken_to_touch_it() -> None:
    # 1 MB at 4 GB/s takes 0.25 ms; the seven further workers take 50 us each to be at it.
    made = host(touch_fresh=4e9, register=1e18, wake=50e-6)
    for workers, woken in ((1, 0.0), (8, 7 * 50e-6)):
        found = {s.name: s.duration_s for s in ring_setup(made, 10**6, workers)}
        assert found["touch the ring"] == pytest.approx(0.25e-3 + woken)


def test_few_workers_touch_no_more_of_a_ring_than_each_can() -> None:
    # All of them touch 40 GB/s, one alone 5: 1 GB takes three workers 1/15 s, and sixteen 1/40 s.
    made = host(touch_fresh=40e9, touch_worker=5e9, register=1e18)
    for workers, seconds in ((1, 1 / 5), (3, 1 / 15), (8, 1 / 40), (16, 1 / 40)):
        found = {s.name: s.duration_s for s in ring_setup(made, GB, workers)}
        assert found["touch the ring"] == pytest.approx(seconds)
    # A buffer is touched by more threads than that, whoever moves its bytes.
    assert buffer_setup(made, GB, pinned=False)[0].duration_s == pytest.approx(1 / 40)


def test_a_ring_in_huge_pages_is_registered_at_its_own_pace() -> None:
    # 1 GB at 40 GB/s for a ring, at 20 for other memory.
    made = host(touch_fresh=1e18, register=20e9, register_ring=40e9)
    assert ring_setup(made, GB)[-1].duration_s == pytest.approx(0.025)
    assert buffer_setup(made, GB, pinned=True)[-1].duration_s == pytest.approx(0.05)


def test_recycled_memory_stands_in_where_fresh_is_unknown() -> None:
    made = host(touch_recycled=5e9, register=1e18)
    assert sum(s.duration_s for s in ring_setup(made, GB)) == pytest.approx(0.2)


def test_the_drivers_allocation_stands_in_where_registration_is_unknown() -> None:
    # 0.5 s for 1 GB at 2 GB/s: allocated, touched and pinned in one call.
    made = host(touch_fresh=4e9, host_alloc=2e9)
    assert [(s.name, s.duration_s) for s in ring_setup(made, GB)] == [
        ("allocate the pinned ring", 0.5)
    ]
    assert [s.name for s in buffer_setup(made, GB, pinned=True)] == ["allocate the pinned buffer"]
    assert [s.name for s in buffer_setup(made, GB, pinned=False)] == ["touch the buffer"]


def test_a_transfer_through_two_hosts_makes_a_ring_on_each() -> None:
    need = Need("g", "gpu0", "node1.gpu0", GB, "device", "device", GB, 8)
    machine = two_hosts(setup={"touch_fresh": 1e9, "register": 1e18})
    found = by(machine, need, "host_staged", "rdma", "rdma", "rdma", "host_staged")
    touched = [s for s in found.setup if s.name == "touch the ring"]
    assert [s.size_bytes for s in touched] == [found.ring, found.ring]


def test_the_reading_kernel_comes_after_the_last_byte() -> None:
    # 1 GB at 10 GB/s, then 50 reads of half of it at 1 TB/s: 25 ms.
    need = upload(GB, "pinned", use=Use(0.5, 50))
    (movement,) = by(one_gpu(), need, "pinned").way.movements
    assert movement.tail == pytest.approx(0.025)
    shape = Shape(GB)
    assert movement.trace(shape).total_s == movement.seconds(shape)
    assert movement.trace(shape).total_s == pytest.approx(10e-6 + 0.1 + 0.025)
    # The wire is busy only for the copy.
    assert movement.trace(shape).busy_s == pytest.approx((0.1 + 2e-6,))


def test_what_a_pause_costs_is_paid_by_the_first_run() -> None:
    # 70 us once, for one copy of everything and for many chunks alike; who follows finds it awake.
    awake = one_gpu()
    tree = awake.model_dump(mode="json", by_alias=True)
    sleepy(tree, 70e-6)
    for shape in (Shape(GB), Shape(MIB, 2)):
        before, after = (
            by(machine, upload(GB, "pinned"), "pinned").way.movements[0]
            for machine in (awake, Machine.model_validate(tree))
        )
        steps = after.setup(shape)
        assert [step.duration_s for step in steps if step.name == WAKE] == [pytest.approx(70e-6)]
        assert tuple(step for step in steps if step.name != WAKE) == before.setup(shape)
        assert after.seconds(shape) == before.seconds(shape)
        assert fluid(after, shape) == fluid(before, shape)


def test_every_run_pays_for_what_its_caller_does() -> None:
    # 20 us around the copies: beside 1 GB in one call, and beside many chunks, once.
    awake = one_gpu()
    tree = awake.model_dump(mode="json", by_alias=True)
    for side in ("forward", "backward"):
        tree["links"]["pcie0"][side]["curves"]["pinned"]["overhead"] = 20e-6
    for shape in (Shape(GB), Shape(MIB, 2)):
        before, after = (
            by(machine, upload(GB, "pinned"), "pinned").way.movements[0]
            for machine in (awake, Machine.model_validate(tree))
        )
        assert after.lead(shape) == pytest.approx(20e-6)
        assert after.seconds(shape) == pytest.approx(before.seconds(shape) + 20e-6, rel=1e-12)
        # Among others it begins so much later, and flows as fast.
        asleep, quick = fluid(after, shape), fluid(before, shape)
        assert asleep.delay == pytest.approx(quick.delay + 20e-6, abs=1e-9)
        assert asleep.cap == pytest.approx(quick.cap)
        assert asleep.busy == quick.busy


def test_every_run_of_a_pipeline_wakes_its_workers() -> None:
    # 7 further workers of 50 us each; the engine's 70 us are the first run's.
    tree = one_gpu(setup={"register": 1e18, "wake": 50e-6}).model_dump(mode="json", by_alias=True)
    sleepy(tree, 70e-6)
    need = upload(GB, "pageable")
    (movement,) = by(Machine.model_validate(tree), need, "staged").way.movements
    assert movement.lead(Shape(MIB, 2, 8)) == pytest.approx(7 * 50e-6)
    assert movement.idle == pytest.approx(70e-6)


def test_a_measured_lead_of_a_ring_stands_for_waking() -> None:
    # Rows of 1, 2, 4 and 8 workers: three lie half way between two and four, sixteen are not known
    # to take more than eight. What a host says of waking counts where no ring was measured.
    tree = one_gpu(setup={"register": 1e18, "wake": 50e-6}).model_dump(mode="json", by_alias=True)
    tables = tree["nodes"]["host0"]["copy"]
    assert tables["memory"]["workers"] == [1, 2, 4, 8]
    tables["memory"]["lead"] = [0.1e-3, 0.2e-3, 0.4e-3, 0.7e-3]
    machine = Machine.model_validate(tree)
    (movement,) = by(machine, upload(GB, "pageable"), "staged").way.movements
    expected = {1: 0.1e-3, 3: 0.3e-3, 8: 0.7e-3, 16: 0.7e-3}
    for workers, seconds in expected.items():
        assert movement.waking(Shape(MIB, 2, workers)) == pytest.approx(seconds)
    out = Need("down", "gpu0", "host0", GB, "device", "pageable", 16 * GB, 8)
    (back,) = by(machine, out, "staged").way.movements
    assert back.waking(Shape(MIB, 2, 8)) == pytest.approx(7 * 50e-6)
    assert back.waking(Shape(MIB, 2, 1)) == 0


def test_more_chunks_than_memory_could_list_are_not_followed_one_by_one() -> None:
    # 1 EB in chunks of 1 MiB are 10^12 chunks: but for one or so at the ends they go at the pace of
    # the full pipeline.
    (small,) = by(one_gpu(), upload(GB, "pinned"), "pinned").way.movements
    (crossing,) = small.crossings
    movement = replace(small, crossings=(replace(crossing, size=10**18),))
    shape = Shape(MIB, 2, 2)
    steady_s = movement.size / movement.throughput(shape)
    assert movement.trace(shape).total_s == pytest.approx(steady_s, rel=1e-6)


def test_calls_of_the_driver_cost_something_whatever_their_bytes() -> None:
    # 1 MB at 2 GB/s in a call that takes 1.5 ms beside its bytes, combined or not.
    made = host(host_alloc=2e9, host_alloc_latency=1.5e-3)
    for found in (ring_setup(made, 10**6), ring_setup(made, 10**6, combined=True)):
        assert found[-1].duration_s == pytest.approx(2e-3)
    # 2 MB come in at 20 GB/s and go at 50: 0.1 and 0.04 ms beside 0.15 and 0.3 ms.
    more = {"register_latency": 150e-6, "unregister": 50e9, "unregister_latency": 300e-6}
    tree = one_gpu().model_dump(mode="json", by_alias=True)
    tree["nodes"]["host0"]["setup"] |= {"register": 20e9, **more}
    machine = type(one_gpu()).model_validate(tree)
    steps = {
        s.name: s.duration_s for s in by(machine, upload(2 * 10**6, "pageable"), "registered").setup
    }
    assert steps["register the buffer"] == pytest.approx(0.25e-3)
    assert steps["unregister the buffer"] == pytest.approx(0.34e-3)
