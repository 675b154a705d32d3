from __future__ import annotations

import re
from typing import Any, get_args

import pytest
from pydantic import BaseModel

from planner.machine.curve import Curve
from planner.machine.load import CATALOG, catalogue, load_machine
from planner.machine.schema import CurveName, Hbm, Machine, Ram
from planner.machine.topology import Topology

MiB = 2**20
GiB = 2**30


def pinned(machine: Machine, way: str = "forward", link: str = "pcie0") -> Curve:
    curve = getattr(machine.links[link], way).curves["pinned"]
    assert isinstance(curve, Curve)
    return curve


def parts_of(thing: Any) -> list[BaseModel]:
    """The model and every model inside it."""
    if isinstance(thing, BaseModel):
        inner = [getattr(thing, name) for name in type(thing).model_fields]
        return [thing, *(part for value in inner for part in parts_of(value))]
    if isinstance(thing, dict):
        return [part for value in thing.values() for part in parts_of(value)]
    return []


@pytest.mark.parametrize("name", catalogue())
class TestEveryMachine:
    def test_it_is_called_like_its_file(self, name: str) -> None:
        assert load_machine(name).name == name
        assert load_machine(name).description

    def test_its_places_follow_the_convention(self, name: str) -> None:
        machine = load_machine(name)
        prefix = {"disk": "disk", "ram": "host", "hbm": "gpu"}
        for place, node in machine.nodes.items():
            assert re.fullmatch(rf"{prefix[node.kind]}\d", place)
        gpus = [node for node in machine.nodes.values() if isinstance(node, Hbm)]
        assert [gpu.device for gpu in gpus] == list(range(len(gpus)))

    def test_bytes_get_from_the_disk_to_every_gpu_and_back(self, name: str) -> None:
        topology = Topology(load_machine(name))
        for place, node in topology.machine.nodes.items():
            if isinstance(node, Hbm):
                assert topology.why_not("disk0", place) == ""
                assert topology.why_not(place, "disk0") == ""

    def test_each_source_is_used_and_says_what_it_is(self, name: str) -> None:
        machine = load_machine(name)
        used = {getattr(part, "source", None) for part in parts_of(machine)}
        text = (CATALOG / f"{name}.yaml").read_text()
        for source, provenance in machine.sources.items():
            # Used by a part, or named by a comment beside a number that its part cannot tell apart.
            assert source in used or f"`{source}`" in text
            if provenance.kind == "cited":
                assert provenance.where.startswith("https://")

    def test_every_part_with_numbers_names_its_source(self, name: str) -> None:
        machine = load_machine(name)
        for node in machine.nodes.values():
            assert getattr(node, "source", None) is not None
        for link in machine.links.values():
            assert link.source is not None

    def test_a_direction_can_do_what_its_best_curve_does(self, name: str) -> None:
        for link in load_machine(name).links.values():
            for direction in (link.forward, link.backward):
                assert direction is not None
                best = max(curve.rate for curve in direction.curves.values())
                # Two readings of one wire: they agree to 1 %.
                assert best == pytest.approx(direction.rate, rel=0.01)

    def test_the_copy_stages_are_all_there(self, name: str) -> None:
        host = load_machine(name).nodes["host0"]
        assert isinstance(host, Ram)
        # A full calibration has copies into write-combined memory, too.
        assert {"file", "memory", "save", "save_memory"} <= set(host.copy_rates)
        for stage, table in host.copy_rates.items():
            # Eight workers are never slower than one while the ring is the same. (Those that write
            # one file take turns at its lock, so there more of them may gain nothing.)
            for ring in table.rings if stage != "save" else ():
                assert table.rate(8, ring) > table.rate(1, ring)


def test_the_h200_copies_as_it_was_measured() -> None:
    machine = load_machine("h200-sxm-1")
    # 4 KiB in 5.616 us, 256 MiB in 4.87952 ms, 1 GiB in 19.6096 ms; out 1 GiB in 19.4379 ms.
    assert pinned(machine).seconds(4096) == pytest.approx(5.616e-6)
    assert pinned(machine).seconds(256 * MiB) == pytest.approx(4.87952e-3, rel=1e-3)
    assert pinned(machine).seconds(GiB) == pytest.approx(19.6096e-3, rel=1e-3)
    assert pinned(machine, "backward").seconds(GiB) == pytest.approx(19.4379e-3, rel=1e-3)
    # 8 GiB in one piece at the asymptotic 54.8 GB/s: 156.75 ms.
    assert pinned(machine).seconds(8 * GiB) == pytest.approx(0.15675, rel=2e-3)
    # Back to back 4 MiB take 78.5 us.
    assert pinned(machine).service(4 * MiB) == pytest.approx(78.5e-6, rel=0.01)


def test_both_ways_at_once_give_the_measured_rates() -> None:
    link = load_machine("h200-sxm-1").links["pcie0"]
    assert link.forward is not None
    assert link.backward is not None
    there, back = 50.4e9, 51.3e9
    # The capacity of a direction is its own bytes and m times those of the other. Capacities are
    # those of another day, so they agree to 1 %.
    assert there + link.forward.against * back == pytest.approx(link.forward.rate, rel=0.01)
    assert back + link.backward.against * there == pytest.approx(link.backward.rate, rel=0.01)


def test_pageable_memory_of_the_h200_depends_on_the_cache_until_it_is_large() -> None:
    forward = load_machine("h200-sxm-1").links["pcie0"].forward
    assert forward is not None
    hot, cold = forward.curves["pageable_hot"], forward.curves["pageable"]
    # 16 MiB at 13.3 against 6.4 GB/s; from 64 MiB on 6.6 both.
    assert 16 * MiB / hot.seconds(16 * MiB) == pytest.approx(13.3e9, rel=0.01)
    assert 16 * MiB / cold.seconds(16 * MiB) == pytest.approx(6.4e9, rel=0.03)
    assert hot.seconds(64 * MiB) == pytest.approx(cold.seconds(64 * MiB), rel=0.01)


def test_joint_runs_of_the_h200_follow_from_its_copy_tables() -> None:
    host = load_machine("h200-sxm-1").nodes["host0"]
    assert isinstance(host, Ram)
    # (workers, chunk MiB, slots) with DMA, GB/s, where the copy stage was the limit.
    runs = {
        ("file", 4, 16, 2): 19.54,
        ("file", 8, 4, 2): 46.55,
        ("file", 8, 16, 2): 28.55,
        ("file", 8, 4, 8): 29.48,
        ("memory", 2, 32, 2): 10.82,
        ("memory", 4, 16, 2): 21.79,
        ("memory", 8, 16, 2): 31.82,
        ("memory", 8, 4, 8): 31.06,
    }
    for (kind, workers, chunk, slots), measured in runs.items():
        table = host.copy_rates[kind]  # type: ignore[index]
        rate = table.rate(workers, workers * chunk * slots * MiB, beside_dma=True)
        assert rate == pytest.approx(measured * 1e9, rel=0.05)


def test_the_desktop_copies_as_it_was_published() -> None:
    link = load_machine("desktop-rtx4090").links["pcie0"]
    assert link.forward is not None
    assert link.backward is not None
    published = [
        (link.forward.curves["pinned"], {1: 22.5, 4: 23.6, 16: 23.9, 64: 23.9}),
        (link.forward.curves["pageable_hot"], {1: 13.7, 4: 17.1, 16: 18.4, 64: 12.9}),
        (link.backward.curves["pinned"], {1: 25.4, 4: 26.6, 16: 26.6}),
        (link.backward.curves["pageable"], {1: 9.2, 4: 11.3, 16: 12.3}),
    ]
    for curve, rates in published:
        for size, rate in rates.items():
            assert size * MiB / curve.seconds(size * MiB) == pytest.approx(rate * 1e9, rel=1e-3)


def test_every_curve_name_is_explained() -> None:
    text = (CATALOG.parents[2] / "docs" / "machine.md").read_text()
    for name in get_args(CurveName):
        assert f"`{name}`" in text
