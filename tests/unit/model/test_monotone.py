"""More bytes of a single flow are never faster, a faster link is never slower: each strategy."""

from __future__ import annotations

import pytest
from hypothesis import given, settings, strategies as st

from planner.machine.schema import Machine
from planner.machine.topology import Topology
from planner.model.choose import Choices, evaluate
from planner.model.need import Need, Pins
from planner.model.strategies import Kind, Use
from planner.model.ways import ways
from tests.helpers.machines import GB, affine, one_gpu
from tests.helpers.networks import two_hosts
from tests.helpers.variants import READ, UP, changed

BAND = 1.005
"""Shapes within half a per cent count as equal (`shapes.FLAT`)."""

HOST: dict[str, Kind] = {
    "pinned": "pinned",
    "registered": "pageable",
    "registered_chunks": "pageable",
    "pageable": "pageable",
    "staged": "pageable",
    "zero_copy": "mapped",
    "managed": "managed",
    "prefetch": "managed",
    "managed_host": "managed",
}


def machine(rate: float = 10e9) -> Machine:
    """Every way between host and GPU at shares of one wire's rate."""
    dma = affine(rate, 10e-6, 2e-6)
    curves = {
        "pinned": dma,
        "registered": dma,
        "pageable": affine(0.4 * rate, 10e-6),
        "zero_copy": affine(0.8 * rate, 20e-6),
        "managed_fault": affine(0.2 * rate, 100e-6),
        "managed_prefetch": affine(0.8 * rate, 50e-6),
    }
    setup = {"register": 20e9, "map_touch": 10e9, "register_file": 20e9, "touch_fresh": 5e9}
    return changed(
        one_gpu(setup=setup),
        {
            f"{UP}.rate": rate,
            f"{UP}.curves": curves,
            f"{READ}.curves.mmap": affine(1e9),
            "nodes.host0.register_ahead": affine(40e9, 100e-6),
        },
    )


def fastest(machine: Machine, need: Need, *names: str) -> float:
    """Seconds of the best way by these strategies."""
    choices = Choices(need)
    found = [
        answer.duration(1)
        for way in ways(Topology(machine), need)
        if way.names == names
        for answer in [evaluate(machine, need, way, choices=choices)]
        if not isinstance(answer, str)
    ]
    return min(found)


def up(size: int, name: str, use: Use | None = None) -> Need:
    return Need("u", "host0", "gpu0", size, HOST[name], "device", 64 * GB, 8, use=use)


@pytest.mark.parametrize("name", sorted(HOST))
@settings(max_examples=25)
@given(sizes=st.tuples(st.integers(1, 8 * GB), st.integers(1, 8 * GB)))
def test_more_bytes_are_never_faster(name: str, sizes: tuple[int, int]) -> None:
    small, big = (fastest(machine(), up(size, name), name) for size in sorted(sizes))
    assert small <= big * BAND


@pytest.mark.parametrize("name", sorted(HOST))
@settings(max_examples=25)
@given(rate=st.floats(1e9, 100e9), factor=st.floats(1.0, 10.0))
def test_a_faster_link_is_never_slower(name: str, rate: float, factor: float) -> None:
    need = up(4 * GB, name)
    slow, fast = (fastest(machine(r), need, name) for r in (rate, rate * factor))
    assert fast <= slow * BAND


@pytest.mark.parametrize(
    "names",
    [
        ("mmap", "registered"),
        ("mmap", "registered_chunks"),
        ("mmap", "pageable"),
        ("mmap", "staged"),
        ("direct", "pinned"),
        ("buffered", "prefetch"),
    ],
)
@settings(max_examples=15)
@given(
    sizes=st.tuples(st.integers(1, 8 * GB), st.integers(1, 8 * GB)),
    cached=st.sampled_from([0.0, 0.3, 1.0]),
)
def test_more_bytes_of_a_file_are_never_faster(
    names: tuple[str, ...], sizes: tuple[int, int], cached: float
) -> None:
    def need(size: int) -> Need:
        pins = Pins(by_hop={"host0 -> gpu0": names[1]})
        return Need(
            "l", "disk0", "gpu0", size, "file", "device", 64 * GB, 8, cached=cached, pins=pins
        )

    small, big = (fastest(machine(), need(size), *names) for size in sorted(sizes))
    assert small <= big * BAND


@settings(max_examples=15)
@given(
    sizes=st.tuples(st.integers(1, 8 * GB), st.integers(1, 8 * GB)),
    rates=st.tuples(st.floats(1e9, 40e9), st.floats(1e9, 40e9)),
)
def test_networks_too(sizes: tuple[int, int], rates: tuple[float, float]) -> None:
    def seconds(size: int, rate: float) -> float:
        machine = changed(two_hosts(), {"links.net0.forward.rate": rate})
        need = Need("n", "host0", "node1.host0", size, "pageable", "pageable", GB, 8)
        return fastest(machine, need, "tcp", "tcp", "tcp")

    small, big = sorted(sizes)
    slow, fast = sorted(rates)
    assert seconds(small, fast) <= seconds(big, fast) * BAND
    assert seconds(big, fast) <= seconds(big, slow) * BAND


@settings(max_examples=40)
@given(
    fractions=st.tuples(st.floats(1e-5, 1.0), st.floats(1e-5, 1.0)),
    reads=st.tuples(st.integers(1, 50), st.integers(1, 50)),
    pattern=st.sampled_from(["dense", "random"]),
)
def test_using_more_in_place_is_never_faster(
    fractions: tuple[float, float], reads: tuple[int, int], pattern: str
) -> None:
    # Not so for strided elements: what lies within one sector or line is one read.
    def seconds(fraction: float, count: int) -> float:
        use = Use(fraction, count, "dense" if pattern == "dense" else "random")
        return fastest(machine(), up(GB, "zero_copy", use), "zero_copy")

    less, more = sorted(fractions)
    few, many = sorted(reads)
    assert seconds(less, few) <= seconds(more, few) * (1 + 1e-9)
    assert seconds(more, few) <= seconds(more, many) * (1 + 1e-9)
