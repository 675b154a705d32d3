"""What a flow holds at each place: rings, pinned buffers, what never comes to rest."""

from __future__ import annotations

from planner.model.choose import Candidate
from planner.model.memory import Holding, holdings
from planner.model.need import Need
from planner.model.needs import Demand
from planner.model.strategies import Use
from tests.helpers.machines import GB, affine, one_gpu
from tests.helpers.networks import two_hosts
from tests.helpers.variants import UP, by, changed, load, upload


def held(need: Need, candidate: Candidate) -> set[Holding]:
    return set(holdings(Demand(need, need.name, (), 0.0, 0), candidate, 1.0, 2.0))


def test_a_transfer_between_gpus_of_two_hosts_holds_a_ring_on_each() -> None:
    need = Need("g", "gpu0", "node1.gpu0", 8 * GB, "device", "device", 16 * GB, 8)
    found = by(two_hosts(), need, "host_staged", "rdma", "rdma", "rdma", "host_staged")
    rings = {h for h in held(need, found) if h.pinned}
    assert rings == {
        Holding("host0", found.ring, 1.0, 2.0, pinned=True),
        Holding("node1.host0", found.ring, 1.0, 2.0, pinned=True),
    }


def test_registration_ahead_pins_everything_while_it_lasts() -> None:
    machine = changed(one_gpu(), {"nodes.host0.register_ahead": affine(40e9)})
    need = load(4 * GB)
    found = held(need, by(machine, need, "mmap", "registered_chunks"))
    assert found == {
        Holding("host0", 4 * GB, 1.0, 2.0, pinned=True),
        Holding("gpu0", 4 * GB, 1.0, float("inf")),
    }


def test_a_registered_mapping_is_pinned_once() -> None:
    machine = one_gpu(setup={"register": 1e18, "register_file": 10e9})
    need = load(4 * GB)
    pinned = [h for h in held(need, by(machine, need, "mmap", "registered")) if h.pinned]
    assert pinned == [Holding("host0", 4 * GB, 1.0, 2.0, pinned=True)]


def test_what_is_read_in_place_takes_nothing_of_the_gpu() -> None:
    machine = changed(one_gpu(), {f"{UP}.curves.zero_copy": affine(8e9)})
    need = upload(4 * GB, "mapped", use=Use(0.1))
    assert held(need, by(machine, need, "zero_copy")) == {
        Holding("host0", 4 * GB, 0.0, 2.0, pinned=True, source=True)
    }


def test_managed_memory_is_not_pinned() -> None:
    machine = changed(one_gpu(), {f"{UP}.curves.managed_prefetch": affine(8e9)})
    need = upload(4 * GB, "managed")
    assert not [h for h in held(need, by(machine, need, "prefetch")) if h.pinned]
