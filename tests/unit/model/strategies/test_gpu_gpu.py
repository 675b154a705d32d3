"""From GPU to GPU: peer access over NVLink and PCIe, and pieces of it."""

from __future__ import annotations

from dataclasses import replace

import pytest

from planner.machine.load import load_machine
from planner.machine.schema import Machine
from planner.machine.topology import Topology
from planner.model.choose import decide
from planner.model.estimate import estimate
from planner.model.need import Need, Pins
from planner.model.strategies import Shape
from planner.model.ways import ways
from tests.helpers.machines import GB, affine, two_gpus
from tests.helpers.plans import plan_of
from tests.helpers.variants import by, changed, reason

NEED = Need("p", "gpu0", "gpu1", GB, "device", "device", GB, 8)


def test_over_pcie_the_path_is_what_to_look_at() -> None:
    machine = changed(two_gpus(5e9), {"links.nvlink0.kind": "pcie"})
    found = by(machine, NEED, "peer")
    (stage,) = found.way.movements[0].stages(found.shapes[0])
    assert stage.cause == "peer_path"
    assert found.steady == pytest.approx(8e-6 + 0.2)


def test_over_nvlink_its_bandwidth_is() -> None:
    found = by(two_gpus(), NEED, "peer")
    (stage,) = found.way.movements[0].stages(found.shapes[0])
    assert stage.cause == "bandwidth"


def test_a_link_without_access_or_without_figures_says_so() -> None:
    machine = changed(two_gpus(), {"links.nvlink0.peer_access": False})
    assert reason(machine, NEED, "peer") == "peer: nvlink0 does not allow peer access"
    machine = changed(two_gpus(), {"links.nvlink0.forward.curves": {}})
    assert reason(machine, NEED, "peer") == "peer: nvlink0.forward has no measured peer copies"


def test_pieces_take_a_copy_each() -> None:
    # 1000 pieces of 10,000 bytes: 8 us gap and 0.1 us of bytes each.
    need = Need(
        "p", "gpu0", "gpu1", 10_000_000, "device", "device", GB, 8, pieces=((10_000, 1000),)
    )
    assert by(two_gpus(), need, "peer").steady == pytest.approx(1000 * 8.1e-6)


def test_through_the_host_pieces_are_packed_on_the_way_in_only() -> None:
    # Out of the first GPU 1000 copies of 2 us + 1 us, into the second one in chunks: 3 ms.
    need = Need(
        "p", "gpu0", "gpu1", 10_000_000, "device", "device", GB, 8, pieces=((10_000, 1000),)
    )
    found = by(two_gpus(), need, "host_staged", "host_staged")
    outward, inward = found.way.movements[0].stages(found.shapes[0])
    assert outward.seconds(10_000_000) == pytest.approx(3e-3)
    assert inward.seconds(10_000_000) == pytest.approx(1e-3 + 2e-6)


def test_through_the_host_a_slot_waits_for_its_caller() -> None:
    # Chunks of 1 MB take each engine 2 + 100 us, one behind the other; 8 us later the caller sees
    # it, and queues two copies of 10 us each before the slot goes round again: 204 + 8 + 20 us.
    slow = changed(two_gpus(), {"nodes.host0.issue": 10e-6})
    need = Need("p", "gpu0", "gpu1", 10_000_000, "device", "device", GB, 8)
    (movement,) = by(slow, need, "host_staged", "host_staged").way.movements
    # The second slot's chunk is 102 us behind the first one's on the engines; five rounds.
    assert movement.seconds(Shape(1_000_000, 2)) == pytest.approx(5 * 232e-6 + 102e-6)


@pytest.mark.parametrize("workers", [1, 2, 8])
def test_through_the_host_callers_take_turns(workers: int) -> None:
    # Seven calls' time of 50 us a chunk, whoever makes them: 200 chunks take 70 ms, and the first
    # one comes out of its GPU before.
    slow = changed(two_gpus(), {"nodes.host0.issue": 50e-6})
    need = Need("p", "gpu0", "gpu1", 200_000_000, "device", "device", GB, 8)
    (movement,) = by(slow, need, "host_staged", "host_staged").way.movements
    assert movement.seconds(Shape(1_000_000, 4, workers)) == pytest.approx(70e-3, rel=0.005)


def apart() -> Machine:
    """No peer access: the driver copies at 4 GB/s after 15 us; the links to the host do 10."""
    return changed(
        two_gpus(),
        {
            "links.nvlink0.peer_access": False,
            "links.nvlink0.forward": {"rate": 4e9, "curves": {"peer_off": affine(4e9, 15e-6)}},
        },
    )


def test_without_access_the_driver_copies_through_the_host() -> None:
    found = by(apart(), NEED, "driver_staged")
    (stage,) = found.way.movements[0].stages(found.shapes[0])
    assert found.steady == pytest.approx(15e-6 + 0.25)
    assert stage.cause == "peer_path"
    # Out of gpu0 over its link, into gpu1 over the other: 0.1 ns a byte of each.
    assert stage.charges["pcie0.backward"] == pytest.approx(1e-10)
    assert stage.charges["pcie1.forward"] == pytest.approx(1e-10)


def test_large_copies_go_through_a_ring_of_ones_own_and_small_ones_by_the_driver() -> None:
    large = decide(Topology(apart()), NEED).best
    assert large.way.names == ("host_staged", "host_staged")
    # Two copies of 10 us each against one of 15.
    small = decide(Topology(apart()), replace(NEED, size=4096)).best
    assert small.way.names == ("driver_staged",)


def test_copies_by_the_driver_share_the_links_to_the_host() -> None:
    # 1 GB to gpu1 by the driver at 4 GB/s leaves the upload to gpu1 6 of its 10 GB/s, or it takes
    # less itself: either way what the link carries, 2 GB, takes at least 0.2 s, and one of the two
    # takes longer than alone.
    flows = {
        "p": {"from": "gpu0", "to": "gpu1", "size": GB, "strategy": "driver_staged"},
        "u": {"from": "host0", "to": "gpu1", "size": GB, "memory": "pinned"},
    }
    both = estimate(plan_of(flows), apart())
    alone = [estimate(plan_of({name: flow}), apart()) for name, flow in flows.items()]
    assert both.makespan_s >= 0.2
    slower = [
        together.duration_s / one.flows[0].duration_s
        for together, one in zip(both.flows, alone, strict=True)
    ]
    assert min(slower) >= 1.0
    assert max(slower) > 1.3


def test_where_there_is_access_the_driver_needs_no_detour() -> None:
    machine = changed(
        two_gpus(),
        {
            "links.nvlink0.peer_access": True,
            "links.nvlink0.forward.curves.peer_off": affine(4e9, 15e-6),
        },
    )
    told = "driver_staged: nvlink0 allows peer access: the driver copies straight"
    # Only who asks for it is told so.
    assert not [way for way in ways(Topology(machine), NEED) if "driver_staged" in way.names]
    asked = replace(NEED, pins=Pins(strategy="driver_staged"))
    assert reason(machine, asked, "driver_staged") == told


def test_a_relay_is_cut_and_served_so_that_the_whole_of_it_ends_first() -> None:
    """Touching the ring counts: two threads do it in half the time that one takes."""
    machine = load_machine("h200-sxm-2")
    flow = {"from": "gpu0", "to": "gpu1", "size": 8 * GB, "strategy": "host_staged"}
    chosen = estimate(plan_of({"f": flow}), machine).flows[0]
    others = [
        estimate(plan_of({"f": flow | {"chunk": c << 20, "depth": 2, "workers": w}}), machine)
        for c in (2, 4, 8, 16, 32)
        for w in (1, 2)
    ]
    best = min(other.flows[0].duration_s for other in others)
    # Shapes within half a per cent are as good, and of those the smallest ring is taken.
    assert chosen.duration_s <= 1.006 * best
