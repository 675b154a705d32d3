"""Files mapped into memory: registered whole, registered ahead, or copied from as pages come."""

from __future__ import annotations

import pytest

from planner.machine.schema import Machine
from planner.model.need import Need, Pins
from tests.helpers.machines import GB, affine, one_gpu
from tests.helpers.variants import READ, by, changed, every, load, reason

MIB = 1 << 20


def machine(**setup: float) -> Machine:
    """Minor faults 10 GB/s, registration of a mapping 20 GB/s, cold faults 1 GB/s."""
    kept = {"register": 1e18, "map_touch": 10e9, "register_file": 20e9} | setup
    return changed(
        one_gpu(setup=kept),
        {
            f"{READ}.curves.mmap": affine(1e9),
            "nodes.host0.register_ahead": affine(40e9, 100e-6),
        },
    )


def test_the_drivers_copy_from_a_mapping_pays_for_every_page() -> None:
    # 4 GB: 1 s of the driver's copy at 4 GB/s, 0.4 s of faults.
    found = by(machine(), load(4 * GB), "mmap", "pageable")
    assert found.steady == pytest.approx(10e-6 + 1.0 + 0.4, rel=1e-6)


def test_a_cold_mapping_waits_for_the_disk_page_by_page() -> None:
    # 4 GB at 1 GB/s, then the driver's copy: 4 + 1 s. Half cold: 2 s cold, 0.2 s of minor faults.
    cold = by(machine(), load(4 * GB, cached=0.0), "mmap", "pageable")
    assert cold.steady == pytest.approx(10e-6 + 1.0 + 4.0, rel=1e-6)
    (stage,) = cold.way.movements[0].stages(cold.shapes[0])
    assert stage.cause == "page_faults"
    half = by(machine(), load(4 * GB, cached=0.5), "mmap", "pageable")
    assert half.steady == pytest.approx(10e-6 + 1.0 + 2.0 + 0.2, rel=1e-6)


def test_registering_a_half_cold_file_reads_it_first() -> None:
    found = by(machine(), load(4 * GB, cached=0.5), "mmap", "registered")
    steps = {s.name: s.duration_s for s in found.setup}
    assert steps["fault in what is not cached"] == pytest.approx(2.0)
    assert steps["map and register the file"] == pytest.approx(0.2)


def test_a_copy_that_waits_for_pages_leaves_the_wire_to_others() -> None:
    # 4 GB by faults at 1 GB/s; the wire of 10 GB/s is busy for 0.4 s of the 5 that it takes.
    cold = by(machine(), load(4 * GB, cached=0.0), "mmap", "pageable")
    (stage,) = cold.way.movements[0].stages(cold.shapes[0])
    assert (stage.resource, stage.cause) == ("host0.faults", "page_faults")
    assert stage.charges["pcie0.forward"] * 4 * GB == pytest.approx(0.4)


def test_a_ring_fed_from_a_mapping_pays_for_its_faults() -> None:
    # All threads copy at 20 GB/s and fault at 10 in turn: 1 / (1/20 + 1/10) = 6.67 GB/s.
    found = by(machine(), load(4 * GB), "mmap", "staged")
    assert found.steady == pytest.approx(0.6, rel=0.01)
    assert found.way.movements[0].stages(found.shapes[0])[0].cause == "page_faults"
    # With faults at 60 GB/s 15 are left, more than the wire's 10.
    quick = by(machine(map_touch=60e9), load(4 * GB), "mmap", "staged")
    assert quick.steady == pytest.approx(0.4, rel=0.01)


def test_registration_runs_ahead_of_the_copy() -> None:
    # A chunk of 64 MiB registers in 1.78 ms and copies in 6.7: the wire limits, 0.4 s for 4 GB;
    # the first registration and giving the pages back come on top.
    found = by(machine(unregister=50e9), load(4 * GB), "mmap", "registered_chunks")
    assert found.steady == pytest.approx(0.4, rel=0.01)
    assert [s.name for s in found.setup] == ["unregister afterwards"]
    assert found.setup_seconds == pytest.approx(4 / 50)
    assert found.shapes[0].depth == 2
    assert found.shapes[0].workers == 1


def test_what_a_run_takes_before_it_registers_at_its_pace_is_paid_by_every_run() -> None:
    # 4 GB registered at 5 GB/s, and 0.4 ms before that; a size that pays it too.
    curve = affine(5e9)
    slow = changed(machine(), {"nodes.host0.register_ahead": curve})
    later = changed(machine(), {"nodes.host0.register_ahead": curve | {"overhead": 0.4e-3}})
    for size in (16 * MIB, 4 * GB):
        plain = by(slow, load(size), "mmap", "registered_chunks")
        found = by(later, load(size), "mmap", "registered_chunks")
        assert found.shapes == plain.shapes
        assert found.steady == pytest.approx(plain.steady + 0.4e-3, rel=1e-9)


def test_the_registration_limits_where_it_is_slower_than_the_wire() -> None:
    slow = changed(machine(), {"nodes.host0.register_ahead": affine(5e9)})
    found = by(slow, load(4 * GB), "mmap", "registered_chunks")
    assert found.steady == pytest.approx(0.8, rel=0.01)
    register, copy = found.way.movements[0].stages(found.shapes[0])
    assert (register.resource, copy.resource) == ("host0.register", "pcie0.forward")


def test_with_few_cores_registration_beats_the_ring() -> None:
    # One core copies 3 GB/s: 1.3 s for 4 GB. One thread that registers leads 0.4 s of copies.
    tables = {"file": {"workers": [1], "rings": [MIB], "rates": [[3e9]]}}
    host = one_gpu(copy=tables, setup={"register": 1e18, "unregister": 50e9})
    few = changed(host, {"nodes.host0.register_ahead": affine(40e9)})
    assert every(few, load(4 * GB, cores=1)).best.way.names == ("mmap", "registered_chunks")


def test_where_less_may_be_pinned_registrations_end_behind_the_copies() -> None:
    # One thread at 40 GB/s registers and at 8 GB/s gives back: 6.67 GB/s, below the wire's 10. On
    # top come 100 us a chunk and the copy of the last one: 3 + 13 ms for 128 MiB.
    need = load(4 * GB, pinned_budget=GB)
    found = by(machine(unregister=8e9), need, "mmap", "registered_chunks")
    assert found.steady == pytest.approx(0.6, rel=0.03)
    assert found.shapes[0].ring <= GB
    # What is left at the end is what may be pinned: 1 GB at 8 GB/s.
    assert [(s.name, s.size_bytes) for s in found.setup] == [("unregister afterwards", GB)]
    assert found.setup[0].duration_s == pytest.approx(0.125)
    # With room for all of it the wire sets the pace, and all is given back at the end.
    roomy = by(machine(unregister=8e9), load(4 * GB), "mmap", "registered_chunks")
    assert roomy.steady == pytest.approx(0.4, rel=0.02)
    assert roomy.setup[0].duration_s == pytest.approx(0.5)


def test_it_must_be_known_what_giving_back_costs() -> None:
    told = reason(machine(), load(4 * GB, pinned_budget=GB), "mmap", "registered_chunks")
    assert "host0 may not pin all, and has no measured end of a registration" in told


def test_two_chunks_must_fit_into_the_budget() -> None:
    need = load(4 * GB, pinned_budget=MIB, pins=Pins(chunk=MIB))
    told = reason(machine(unregister=8e9), need, "mmap", "registered_chunks")
    # One is registered while the other is copied: of 1 MiB each may have half.
    assert told == (
        "it needs at least 2 MiB pinned on host0, the budget is 1 MiB; chunks of 512 KiB would fit"
    )


def test_for_many_runs_the_pages_stay_registered() -> None:
    told = reason(machine(), load(4 * GB, repeat=2), "mmap", "registered_chunks")
    assert "registering them once is less" in told


def test_a_mapping_is_copied_into_the_users_own_buffer() -> None:
    # 20 GB/s of copying and 10 GB/s of faults, in turn: 6.67 GB/s.
    need = Need("r", "disk0", "host0", 4 * GB, "file", "pageable", pinned_budget=GB, cores=8)
    assert by(machine(), need, "mmap").steady == pytest.approx(0.6, rel=0.01)


@pytest.mark.parametrize(
    ("figure", "names", "told"),
    [
        ("map_touch", ("mmap", "pageable"), "pageable: host0 has no measured page faults"),
        ("map_touch", ("mmap", "staged"), "staged: host0 has no measured page faults"),
        ("register_file", ("mmap", "registered"), "mmap: host0 has no measured registration"),
    ],
)
def test_a_missing_figure_is_named(figure: str, names: tuple[str, ...], told: str) -> None:
    lacking = changed(machine(), {f"nodes.host0.setup.{figure}": None})
    assert reason(lacking, load(GB, pins=Pins()), *names).startswith(told)


def test_cold_faults_are_not_guessed() -> None:
    told = reason(one_gpu(), load(GB, cached=0.5), "mmap", "pageable")
    assert told.endswith("storage0 has no measured page faults (curve mmap)")
