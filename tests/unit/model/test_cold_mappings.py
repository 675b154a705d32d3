"""Whatever brings a mapping's pages in takes its share of the disk, before a run and in it.

The disk gives 2 GB/s, one thread that waits for page after page 1 GB/s, so two threads are as fast
as one alone, and four take twice as long: 2 GB each are 8 GB, four seconds of the disk.
"""

from __future__ import annotations

from typing import Any

import pytest

from planner.machine.schema import Machine
from planner.model.estimate import estimate
from planner.plan.schema import Plan
from planner.results import Estimate
from tests.helpers.machines import GB, affine, one_gpu
from tests.helpers.plans import load, plan_of
from tests.helpers.variants import READ, changed

SETUP = {"register": 1e18, "register_file": 1e18, "map_touch": 1e18}
TO_HOST = {"to": "host0"}


def machine(disk: float = 2e9) -> Machine:
    """A disk of 2 GB/s of which one faulting thread gets 1; registration and copies are free."""
    parts: dict[str, Any] = {
        f"{READ}.rate": disk,
        f"{READ}.curves.mmap": affine(1e9),
        "nodes.host0.register_ahead": affine(1e15),
        "links.pcie0.forward": {
            "rate": 1e15,
            "curves": {name: affine(1e15) for name in ("pinned", "registered", "pageable")},
        },
    }
    tables = {
        name: {"workers": [1, 8], "rings": [1 << 20, 1 << 30], "rates": [[1e15] * 2] * 2}
        for name in ("file", "memory", "save", "save_memory")
    }
    return changed(one_gpu(setup=SETUP, copy=tables), parts)


def cold(count: int, *names: str, **more: Any) -> Plan:
    """So many flows that read a cold file of 2 GB each by these strategies."""
    hops = ("disk0 -> host0", "host0 -> gpu0")
    pins = {"strategy": dict(zip(hops, names, strict=False))}
    one = load(**{"size": 2 * GB, "cache": "cold", **pins, **more})
    return plan_of({f"f{i}": one for i in range(count)})


def used(predicted: Estimate, name: str = "storage0.forward") -> float:
    return next(one.busy_s for one in predicted.resources if one.name == name)


@pytest.mark.parametrize(
    ("names", "more"),
    [
        (("mmap", "registered"), {}),
        (("mmap", "staged"), {}),
        (("mmap", "pageable"), {}),
        (("mmap",), TO_HOST),
    ],
)
def test_cold_mappings_share_the_disk(names: tuple[str, ...], more: dict[str, Any]) -> None:
    alone = estimate(cold(1, *names, **more), machine())
    # 2 GB page by page, of which the disk itself works for one second.
    assert alone.makespan_s == pytest.approx(2.0, rel=5e-3)
    assert used(alone) == pytest.approx(1.0, rel=1e-6)
    two, four = (estimate(cold(count, *names, **more), machine()) for count in (2, 4))
    assert two.makespan_s == pytest.approx(2.0, rel=5e-3)
    assert four.makespan_s == pytest.approx(4.0, rel=5e-3)
    assert (used(two), used(four)) == pytest.approx((2.0, 4.0), rel=1e-6)
    assert four.bottleneck.resource == "storage0.forward"
    assert four.bottleneck.cause == "bandwidth"


def test_registration_ahead_takes_its_share_beside_what_else_reads() -> None:
    # Registrations of one host take turns, 2 s each; the disk works for half of that, and has the
    # other half for whoever reads besides: 2 GB at 1 GB/s.
    chunks = ("mmap", "registered_chunks")
    two = estimate(cold(2, *chunks), machine())
    assert two.makespan_s == pytest.approx(4.0, rel=5e-3)
    assert used(two) == pytest.approx(2.0, rel=1e-6)
    direct = load(size=2 * GB, cache="cold", strategy="direct")
    ahead = load(size=2 * GB, cache="cold", strategy="registered_chunks")
    beside = estimate(plan_of({"a": ahead, "b": direct}), machine())
    assert beside.makespan_s == pytest.approx(2.0, rel=0.01)
    assert used(beside) == pytest.approx(2.0, rel=1e-6)


def test_a_setup_that_waits_for_others_is_no_part_of_a_steady_run() -> None:
    # Four setups read for 4 s where one alone does for 2; then the GPU has its bytes at once.
    four = estimate(cold(4, "mmap", "registered"), machine())
    assert [flow.steady_s for flow in four.flows] == pytest.approx([0.0] * 4, abs=1e-3)
    repeated = estimate(cold(4, "mmap", "registered", repeat=2), machine())
    assert [flow.steady_s for flow in repeated.flows] == pytest.approx([0.0] * 4, abs=1e-3)
    alone = estimate(cold(1, "mmap", "registered"), machine()).flows[0]
    assert alone.steady_s == pytest.approx(0.0, abs=1e-3)
    assert alone.bottleneck.cause == "setup"


def test_only_what_is_not_cached_comes_from_the_disk() -> None:
    # Half of 4 x 2 GB: 4 GB at 2 GB/s, and what is cached costs nothing here.
    half = estimate(cold(4, "mmap", "registered", cache="50%"), machine())
    assert half.makespan_s == pytest.approx(2.0, rel=5e-3)
    assert used(half) == pytest.approx(2.0, rel=1e-6)
    warm = estimate(cold(4, "mmap", "registered", cache="warm"), machine())
    assert "storage0.forward" not in {one.name for one in warm.resources}


def test_a_disk_slower_than_its_faults_does_not_slow_a_lone_flow_down() -> None:
    # The curve was measured at 1 GB/s whatever else the disk is said to do.
    alone = estimate(cold(1, "mmap", "registered"), machine(disk=0.5e9))
    assert alone.makespan_s == pytest.approx(2.0, rel=5e-3)
    assert used(alone) == pytest.approx(2.0, rel=1e-6)


def test_a_setups_read_passes_the_ports_of_its_link() -> None:
    # Two disks behind one port of 1 GB/s: each reads 2 GB, 4 s in all.
    tree = machine().model_dump(mode="json", by_alias=True)
    tree["ports"] = {"switch0": {"forward": 1e9, "backward": 1e9}}
    tree["nodes"]["disk1"] = tree["nodes"]["disk0"]
    tree["links"]["storage0"]["ports"] = ["switch0", None]
    tree["links"]["storage1"] = tree["links"]["storage0"] | {"ends": ["disk1", "host0"]}
    pins = {"strategy": {"host0 -> gpu0": "registered"}, "size": 2 * GB, "cache": "cold"}
    flows = {"a": load(**pins), "b": load(**{**pins, "from": "disk1"})}
    both = estimate(plan_of(flows), Machine.model_validate(tree))
    assert both.makespan_s == pytest.approx(4.0, rel=5e-3)


def test_a_way_is_not_chosen_because_nobody_counts_its_reads() -> None:
    # Left to itself every flow reads by what is fastest; 8 x 1 GB are 4 s whatever that is.
    one = load(size=GB, cache="cold")
    free = estimate(plan_of({f"f{i}": one for i in range(8)}), machine())
    assert free.makespan_s == pytest.approx(4.0, rel=0.01)
