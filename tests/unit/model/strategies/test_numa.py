"""Pinned memory of the other socket: one copy over two links, at the pace of the slower."""

from __future__ import annotations

import pytest

from planner.errors import InfeasibleError
from planner.machine.schema import Machine
from planner.machine.topology import Topology
from planner.model.bottleneck import bottleneck
from planner.model.choose import decide
from planner.model.compose import fluid
from planner.model.need import Need
from planner.model.strategies import Kind
from tests.helpers.machines import GB, affine, one_gpu


def two_sockets(rate: float) -> Machine:
    """`one_gpu` (10 GB/s to its GPU) beside a second socket behind a link of `rate`."""
    machine = one_gpu().model_dump(mode="json", by_alias=True)
    far = {**machine["nodes"]["host0"]}
    bus = {"rate": 10e9, "curves": {"pinned": affine(10e9)}}
    socket = {
        "kind": "interconnect",
        "ends": ["host0", "host1"],
        "forward": {"rate": rate},
        "backward": {"rate": rate},
    }
    wire = machine["links"]["pcie0"] | {"forward": bus, "backward": bus}
    return Machine.model_validate(
        machine
        | {
            "nodes": {**machine["nodes"], "host1": far},
            "links": {**machine["links"], "pcie0": wire, "socket0": socket},
        }
    )


def need(start: str, end: str, first: Kind, last: Kind) -> Need:
    return Need("n", start, end, 4 * GB, first, last, pinned_budget=16 * GB, cores=8)


@pytest.mark.parametrize(("rate", "seconds"), [(4e9, 1.0), (20e9, 0.4)])
def test_a_far_buffer_moves_at_the_slower_of_its_two_links(rate: float, seconds: float) -> None:
    # 4 GB at 4 GB/s between the sockets; at 10 GB/s where the GPU's own link is the slower.
    for start, end, first, last in (
        ("host1", "gpu0", "pinned", "device"),
        ("gpu0", "host1", "device", "pinned"),
    ):
        found = decide(Topology(two_sockets(rate)), need(start, end, first, last)).best  # type: ignore[arg-type]
        assert set(found.way.names) == {"numa", "pinned"}
        assert found.steady == pytest.approx(seconds, rel=1e-3)


def test_the_link_between_the_sockets_is_what_limits() -> None:
    asked = need("host1", "gpu0", "pinned", "device")
    found = decide(Topology(two_sockets(4e9)), asked).best
    pairs = zip(found.way.movements, found.shapes, strict=True)
    limit = bottleneck(asked, found, [fluid(m, s) for m, s in pairs])
    assert (limit.resource, limit.cause) == ("socket0.backward", "bandwidth")


def test_a_network_is_no_link_between_sockets() -> None:
    machine = two_sockets(4e9)
    wire = machine.links["socket0"].model_copy(update={"kind": "pcie"})
    plain = machine.model_copy(update={"links": {**machine.links, "socket0": wire}})
    with pytest.raises(InfeasibleError, match="socket0 is no link between sockets"):
        decide(Topology(plain), need("host1", "gpu0", "pinned", "device"))
