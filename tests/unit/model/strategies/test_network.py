"""Hosts and GPUs of two computers: streams, ciphers, RDMA, and the pace of the slowest stage."""

from __future__ import annotations

import pytest

from planner.errors import InfeasibleError
from planner.machine.schema import Machine
from planner.machine.topology import Topology
from planner.model.choose import decide
from planner.model.need import Need, Pins
from planner.model.strategies import Kind
from tests.helpers.machines import GB, affine
from tests.helpers.networks import two_hosts
from tests.helpers.variants import by, changed, every, reason

WIRE = "links.net0.forward"


def between(first: Kind = "pageable", last: Kind = "pageable", **more: object) -> Need:
    kept = {"pinned_budget": 16 * GB, "cores": 8} | more
    return Need("n", "host0", "node1.host0", 8 * GB, first, last, **kept)  # type: ignore[arg-type]


TCP = ("tcp", "tcp", "tcp")


def test_streams_add_up_to_the_wire() -> None:
    # One stream carries 2 GB/s: 4 s. Four: 1 s. With eight the wire limits: 0.8 s.
    for workers, seconds in ((1, 4.0), (4, 1.0), (8, 0.8)):
        need = between(pins=Pins(workers=workers))
        assert by(two_hosts(), need, *TCP).steady == pytest.approx(seconds, rel=0.01)


def test_the_hops_of_a_transfer_are_one_pipeline() -> None:
    found = by(two_hosts(), between(), *TCP)
    (movement,) = found.way.movements
    assert [c.link for c in movement.crossings] == ["bus0", "net0", "node1.bus0"]
    assert [s.resource for s in movement.stages(found.shapes[0])] == [
        "bus0.forward",
        "net0.streams",
        "net0.forward",
        "node1.bus0.backward",
    ]
    # The slowest stage sets the pace: the bus at 5 GB/s.
    slow = changed(two_hosts(), {"links.bus0.forward.rate": 5e9})
    assert by(slow, between(), *TCP).steady == pytest.approx(1.6, rel=0.01)


def test_a_window_bounds_a_stream() -> None:
    # 1 MB each 1 ms: 1 GB/s a stream, though 2 were measured on a shorter way; 8 streams: 1 s.
    wire = {"window": 10**6, "round_trip": 1e-3}
    found = by(two_hosts(wire=wire), between(), *TCP)
    assert found.steady == pytest.approx(1.0, rel=0.01)
    streams = found.way.movements[0].stages(found.shapes[0])[1]
    assert streams.cause == "latency"
    assert [s.duration_s for s in found.setup if s.name == "connect"] == [1e-3]


def test_tls_runs_at_the_cipher_of_its_cores() -> None:
    # 1 GB/s a core: 4 streams 2 s, 8 streams 1 s, below the wire's 10 GB/s.
    machine = two_hosts(cipher=1e9)
    for workers, seconds in ((4, 2.0), (8, 1.0)):
        need = between(pins=Pins(strategy="tls", workers=workers))
        found = by(machine, need, "tls", "tls", "tls")
        assert found.steady == pytest.approx(seconds, rel=0.01)
        sealing = found.way.movements[0].stages(found.shapes[0])[0]
        assert (sealing.resource, sealing.cause) == ("host0.cipher", "cipher")


def test_tls_needs_two_round_trips_to_start() -> None:
    machine = two_hosts(cipher=1e9, wire={"round_trip": 1e-3})
    found = by(machine, between(), "tls", "tls", "tls")
    assert [s.duration_s for s in found.setup if s.name == "connect"] == [2e-3]


def test_without_a_cipher_it_is_not_guessed() -> None:
    assert (
        reason(two_hosts(), between(), "tls", "tls", "tls") == "tls: host0 has no measured cipher"
    )


def test_rdma_needs_pinned_memory() -> None:
    names = ("rdma", "rdma", "rdma")
    # 9 GB/s.
    found = by(two_hosts(), between("pinned", "pinned"), *names)
    assert found.steady == pytest.approx(8 / 9, rel=1e-3)
    assert not [c for c in every(two_hosts(), between()).others if c.way.names == names]


def test_memlock_bounds_what_rdma_registers() -> None:
    machine = two_hosts(memlock=1 << 20)
    told = reason(machine, between("pinned", "pinned"), "rdma", "rdma", "rdma")
    assert told == "rdma: RDMA would register 8 GB on host0, memlock allows 1 MiB"
    # A ring shrinks below it.
    need = Need("g", "gpu0", "node1.gpu0", 8 * GB, "device", "device", 16 * GB, 8)
    staged = by(machine, need, "host_staged", "rdma", "rdma", "rdma", "host_staged")
    assert staged.ring <= 1 << 20


def test_gpudirect_goes_past_both_hosts() -> None:
    need = Need("g", "gpu0", "node1.gpu0", 8 * GB, "device", "device", 16 * GB, 8)
    names = ("gpudirect_rdma", "rdma", "gpudirect_rdma")
    found = by(two_hosts(), need, *names)
    # 8 GB/s between GPU and adapter; no ring, no setup.
    assert found.steady == pytest.approx(1.0, rel=1e-3)
    assert not found.setup
    bare = changed(two_hosts(), {"links.side0.forward.curves": {}})
    assert (
        reason(bare, need, *names)
        == "gpudirect_rdma: side0 has no GPUDirect RDMA (curve gpudirect)"
    )


def test_without_gpudirect_the_way_leads_through_both_hosts() -> None:
    bare = changed(two_hosts(), {"links.side0.forward.curves": {}})
    need = Need("g", "gpu0", "node1.gpu0", 8 * GB, "device", "device", 16 * GB, 8)
    best = every(bare, need).best
    assert best.way.places == ("gpu0", "host0", "nic0", "node1.nic0", "node1.host0", "node1.gpu0")
    # One pipeline, at the pace of PCIe and the wire, 10 GB/s each.
    assert best.steady == pytest.approx(0.8, rel=0.02)
    assert best.way.movements[0].ring_hosts == ("host0", "node1.host0")


def test_a_file_of_one_host_reaches_the_gpu_of_another_in_one_pipeline() -> None:
    need = Need("f", "disk0", "node1.gpu0", 8 * GB, "file", "device", 16 * GB, 8)
    found = by(two_hosts(), need, "buffered", "tcp", "tcp", "tcp", "pinned")
    assert len(found.way.movements) == 1
    assert found.steady == pytest.approx(0.8, rel=0.02)
    # The disk cold: 2 GB/s.
    cold = Need("f", "disk0", "node1.gpu0", 8 * GB, "file", "device", 16 * GB, 8, cached=0.0)
    assert every(two_hosts(), cold).best.steady == pytest.approx(4.0, rel=0.02)


def test_hosts_without_adapters_are_joined_by_the_wire_itself() -> None:
    found = by(two_hosts(adapters=False), between(), "tcp")
    assert found.steady == pytest.approx(0.8, rel=0.01)


def test_a_wire_that_says_nothing_of_streams_is_not_guessed() -> None:
    bare = changed(two_hosts(), {f"{WIRE}.curves": {"rdma": affine(9e9)}})
    assert "does not say what one stream carries" in reason(bare, between(), *TCP)


def test_a_socket_between_two_parts_of_one_host_is_no_network() -> None:
    machine = changed(two_hosts(adapters=False), {"links.net0.kind": "interconnect"})
    with pytest.raises(InfeasibleError, match=r"net0 is no network \(tcp\)"):
        every(machine, between())


def test_a_store_that_says_nothing_of_itself_can_be_read_from() -> None:
    # 8 streams of 0.5 GB/s out of the store: 8 GB in 2 s, into the host and on into its GPU.
    machine = two_hosts().model_dump(mode="json", by_alias=True)
    way = {"rate": 10e9, "curves": {"tcp": affine(0.5e9)}}
    wire = {"kind": "network", "ends": ["nic0", "store"], "forward": way, "backward": way}
    nodes = {**machine["nodes"], "store": {"kind": "remote"}}
    links = {**machine["links"], "net1": wire}
    store = Machine.model_validate(machine | {"nodes": nodes, "links": links})
    for end, last in (("host0", "pageable"), ("gpu0", "device")):
        need = Need("n", "store", end, 8 * GB, "remote", last, 16 * GB, 8, pins=Pins(workers=8))  # type: ignore[arg-type]
        assert decide(Topology(store), need).best.steady == pytest.approx(2.0, rel=0.02)
