"""The choice narrowed to what an engine can do."""

from __future__ import annotations

import pytest

from planner.errors import InfeasibleError
from planner.machine.schema import Machine
from planner.machine.topology import Topology
from planner.model.choose import Decision, decide
from planner.model.need import Need, Pins
from planner.model.strategies import EXECUTABLE, NAMES, Use
from tests.helpers.machines import GB, MIB, affine, one_gpu
from tests.helpers.variants import UP, WRITE, changed, load, upload


def machine() -> Machine:
    tables = {"file": {"workers": [1], "rings": [MIB], "rates": [[3e9]]}}
    host = one_gpu(
        copy=one_gpu().model_dump(mode="json", by_alias=True)["nodes"]["host0"]["copy"] | tables,
        setup={"register": 1e18, "register_file": 20e9, "map_touch": 10e9},
    )
    return changed(
        host,
        {
            f"{UP}.curves.zero_copy": affine(8e9, 20e-6),
            "nodes.host0.register_ahead": affine(40e9),
            "nodes.host0.issue": 5e-6,
        },
    )


def narrowed(need: Need) -> Decision:
    return decide(Topology(machine()), need, only=EXECUTABLE)


def test_all_of_them_are_strategies() -> None:
    assert EXECUTABLE < NAMES


def test_what_the_engine_cannot_do_is_rejected_with_the_reason() -> None:
    need = load(4 * GB, cores=1)
    only = EXECUTABLE - {"registered_chunks"}
    assert decide(Topology(machine()), need).best.way.names == ("mmap", "registered_chunks")
    decision = decide(Topology(machine()), need, only=only)
    assert decision.best.way.names == ("mmap", "registered")
    told = {r.strategies: r.reason for r in decision.rejected()}
    assert told["mmap", "registered_chunks"] == "registered_chunks: this engine cannot do it yet"
    assert all(set(c.way.names) <= EXECUTABLE for c in (decision.best, *decision.others))


def test_a_mapping_is_copied_from_in_place_where_it_is_registered_on_the_way() -> None:
    assert narrowed(load(4 * GB, cores=1)).best.way.names == ("mmap", "registered_chunks")


@pytest.mark.parametrize("way", ["staged", "pageable"])
def test_a_mapping_is_copied_out_of_where_the_plan_asks_for_it(way: str) -> None:
    told = {r.strategies: r.reason for r in narrowed(load(4 * GB)).rejected()}
    assert told["mmap", way].startswith("mmap: taken only where the plan asks for it")
    pins = Pins(by_hop={"disk0 -> host0": "mmap", "host0 -> gpu0": way})
    assert narrowed(load(4 * GB, pins=pins)).best.way.names == ("mmap", way)


def test_a_known_name_in_a_new_use_is_not_done_either() -> None:
    # From a disk to another by a ring between them; by host memory that holds all of it is done.
    plain = machine()
    second = {**plain.links["storage0"].model_dump(mode="json"), "ends": ["disk1", "host0"]}
    two = changed(
        plain,
        {"nodes.disk1": plain.nodes["disk0"].model_dump(mode="json"), "links.storage1": second},
    )
    need = Need("c", "disk0", "disk1", GB, "file", "file", GB, 8, fsync=True, cached=0.0)
    decision = decide(Topology(two), need, only=EXECUTABLE)
    told = [r.reason for r in decision.rejected() if r.strategies == ("direct", "direct")]
    assert "direct: this engine cannot do it yet" in told
    assert any(c.way.names == ("direct", "direct") for c in (decision.best, *decision.others))


def test_a_save_that_waits_for_the_disk_may_go_around_the_page_cache() -> None:
    # 1 GB/s through the cache and 2 GB/s around it, where 10 GB/s come out of the GPU.
    curves = {"buffered": affine(1e9), "direct": affine(2e9)}
    fast = changed(machine(), {f"{WRITE}.curves": curves, f"{WRITE}.rate": 2e9})
    save = Need("s", "gpu0", "disk0", GB, "device", "file", GB, 8, fsync=True)
    best = decide(Topology(fast), save, only=EXECUTABLE).best
    assert best.way.names == ("pinned", "direct")
    assert best.duration(1) == pytest.approx(GB / 2e9, rel=0.02)
    # Without waiting, the page cache takes it as fast as the CPU copies.
    soon = Need("s", "gpu0", "disk0", GB, "device", "file", GB, 8)
    assert decide(Topology(fast), soon, only=EXECUTABLE).best.way.names == ("pinned", "buffered")


def test_scattered_pieces_go_by_copies() -> None:
    need = upload(4_000_000, "pinned", pieces=((4000, 1000),))
    found = narrowed(need)
    assert found.best.way.names in {("pinned",), ("staged",)}
    # Kernels that read in place take a range.
    mapped = narrowed(upload(4_000_000, "mapped", pieces=((4000, 1000),)))
    told = {r.strategies: r.reason for r in mapped.rejected()}
    assert told["zero_copy",] == "zero_copy: this engine cannot do it yet"


def test_a_pinned_strategy_that_the_engine_lacks_is_infeasible() -> None:
    need = upload(GB, "mapped", use=Use(0.1), pins=Pins(strategy="zero_copy"))
    assert narrowed(need).best.way.names == ("zero_copy",)
    with pytest.raises(InfeasibleError, match=r"this engine cannot do it yet \(zero_copy\)"):
        decide(Topology(machine()), need, only=EXECUTABLE - {"zero_copy"})
