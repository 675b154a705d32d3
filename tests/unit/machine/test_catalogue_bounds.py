"""Measured machines of the catalogue within what their wires can do, whichever day they were taken.

No figure of an entry stands here: a newer calibration replaces it, and these still hold.
"""

from __future__ import annotations

import pytest

from planner.machine.curve import Curve
from planner.machine.load import catalogue, load_machine
from planner.machine.nominal import nominal_rate
from planner.machine.schema import CurveName, Direction, Hbm, Link

GiB = 2**30
H200 = sorted(name for name in catalogue() if name.startswith("h200"))
USUAL = 0.8
"""Share of its standard that arrives at the least on a link which is well: the headers of packets
take the rest (planner/machine/nominal.py)."""


def directions(link: Link) -> tuple[Direction, Direction]:
    assert link.forward is not None
    assert link.backward is not None
    return link.forward, link.backward


def links_of(name: str, kind: str) -> list[Link]:
    return [link for link in load_machine(name).links.values() if link.kind == kind]


def standard(link: Link) -> float:
    """Bytes/s of one direction on the wire."""
    found = nominal_rate(link.kind, link.generation, link.width)
    assert found is not None
    return found


def gigabyte(way: Direction, curve: CurveName) -> float:
    """Seconds of a single copy of 1 GiB."""
    found = way.curves[curve]
    assert isinstance(found, Curve)
    return found.seconds(GiB)


@pytest.mark.parametrize("name", H200)
class TestAnH200:
    def test_its_pcie_carries_what_generation_5_with_16_lanes_can(self, name: str) -> None:
        for link in links_of(name, "pcie"):
            # 32 GT/s * 16 lanes / 8 bits * 128 / 130 = 63.0 GB/s
            limit = standard(link)
            assert limit == pytest.approx(63.0e9, rel=1e-3)
            for way in directions(link):
                assert USUAL * limit <= way.rate <= limit

    def test_pinned_memory_is_faster_than_ordinary_memory(self, name: str) -> None:
        for link in links_of(name, "pcie"):
            for way in directions(link):
                # The driver copies ordinary memory with one thread: a fraction of the wire.
                assert gigabyte(way, "pinned") < gigabyte(way, "pageable") / 2
                assert gigabyte(way, "pinned") <= gigabyte(way, "zero_copy")

    def test_both_ways_at_once_carry_more_than_one_and_less_than_two(self, name: str) -> None:
        for link in links_of(name, "pcie"):
            there, back = directions(link)
            # x = B - m x' and x' = B' - m' x, so x + x' = (B (1 - m') + B' (1 - m)) / (1 - m m').
            both = there.rate * (1 - back.against) + back.rate * (1 - there.against)
            both /= 1 - there.against * back.against
            assert max(there.rate, back.rate) < both <= there.rate + back.rate

    def test_copies_in_a_queue_take_no_longer_than_alone(self, name: str) -> None:
        for link in links_of(name, "pcie"):
            for way in directions(link):
                curve = way.curves["pinned"]
                for size in (4 << 10, 1 << 20, 64 << 20):
                    assert curve.service(size) <= curve.seconds(size)

    def test_its_memory_is_faster_than_any_wire_and_no_faster_than_published(
        self, name: str
    ) -> None:
        machine = load_machine(name)
        for node in machine.nodes.values():
            if isinstance(node, Hbm):
                assert node.local is not None
                # 4.8 TB/s; a copy inside reads and writes every byte.
                assert 2 * node.local.rate < 4.8e12
                assert node.rate is None or node.rate <= 4.8e12
                assert node.local.rate > max(
                    way.rate for link in machine.links.values() for way in directions(link)
                )


def test_two_h200_reach_each_other_without_a_way_through_the_host() -> None:
    (link,) = links_of("h200-sxm-2", "nvlink")
    wires = [way.rate for pcie in links_of("h200-sxm-2", "pcie") for way in directions(pcie)]
    assert link.peer_access is True
    # 18 links of 25 GB/s each way
    limit = standard(link)
    assert limit == pytest.approx(450e9)
    for way in directions(link):
        assert USUAL * limit <= way.rate <= limit
        # Without peer access every byte crosses two links to the host, one behind the other.
        off = GiB / gigabyte(way, "peer_off")
        assert off < min(wires)
        assert GiB / gigabyte(way, "peer") > 2 * off


def test_two_h200_share_less_than_both_their_links_and_more_than_one() -> None:
    machine = load_machine("h200-sxm-2")
    pcie = [directions(link) for link in links_of("h200-sxm-2", "pcie")]
    # A slower port would be seen by one GPU alone, a faster one by nobody.
    for port in machine.ports.values():
        for k, both in enumerate((port.forward, port.backward)):
            own = [ways[k].rate for ways in pcie]
            assert both is None or max(own) < both < sum(own)
