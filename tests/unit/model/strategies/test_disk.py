"""Disks: page cache, around it, durable writes, and straight into the GPU."""

from __future__ import annotations

import pytest

from planner.errors import InfeasibleError
from planner.machine.schema import Machine
from planner.model.need import Need, Pins
from tests.helpers.machines import GB, affine, one_gpu
from tests.helpers.variants import READ, WRITE, by, changed, every, load, reason

MIB = 1 << 20


def read(size: int, **more: object) -> Need:
    return Need("r", "disk0", "host0", size, "file", "pageable", GB, 8, **more)  # type: ignore[arg-type]


def save(size: int, **more: object) -> Need:
    return Need("s", "host0", "disk0", size, "pageable", "file", GB, 8, **more)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("cached", "expected"),
    # 4 GB: cached at 20 GB/s, else the disk's 2 GB/s (the copy hides behind it).
    [(1.0, 0.2), (0.5, 0.1 + 1.0), (0.0, 2.0)],
)
def test_the_page_cache_warm_partly_and_cold(cached: float, expected: float) -> None:
    found = by(one_gpu(), read(4 * GB, cached=cached), "buffered")
    assert found.steady == pytest.approx(expected, rel=0.01)


def test_around_the_page_cache_it_does_not_matter_what_is_cached() -> None:
    # One request of 128 MiB takes 100 us and 67 ms; 4 GB at 2 GB/s.
    for cached in (0.0, 1.0):
        found = by(one_gpu(), read(4 * GB, cached=cached), "direct")
        assert found.steady == pytest.approx(2.0, rel=0.02)


def test_too_few_requests_in_flight_are_named() -> None:
    # A single worker with chunks of 256 KiB: 100 us + 131 us each, 1.13 GB/s of 2.
    need = read(GB, pins=Pins(strategy="direct", chunk=256 << 10, workers=1))
    found = by(one_gpu(), need, "direct")
    assert found.steady == pytest.approx(GB / (256 << 10) * (100e-6 + (256 << 10) / 2e9), rel=1e-3)
    (stage,) = found.way.movements[0].stages(found.shapes[0])
    assert stage.cause == "queue_depth"


def pools() -> Machine:
    """`one_gpu` with readers measured: 1 GB/s of 1 MiB under way, 2 of 4 MiB, 1.5 of 16 MiB."""
    readers = {
        "workers": [1, 4],
        "requests": [MIB, 4 * MIB],
        "rates": [[1e9, 2e9], [2e9, 1.5e9]],
    }
    return changed(one_gpu(), {f"{READ}.curves.direct.readers": readers})


@pytest.mark.parametrize(
    ("workers", "chunk", "rate", "cause", "reach"),
    [
        (1, MIB, 1e9, "queue_depth", 2e9),
        (4, MIB, 2e9, "bandwidth", 2e9),
        # Too many bytes under way: nobody else gets the rest.
        (4, 4 * MIB, 1.5e9, "bandwidth", 1.5e9),
    ],
)
def test_readers_measured_together_set_the_pace(
    workers: int, chunk: int, rate: float, cause: str, reach: float
) -> None:
    size = 1024 * MIB
    need = read(size, pins=Pins(strategy="direct", chunk=chunk, workers=workers))
    found = by(pools(), need, "direct")
    assert found.steady == pytest.approx(size / rate)
    (stage,) = found.way.movements[0].stages(found.shapes[0])
    assert stage.cause == cause
    assert stage.charges == pytest.approx({"storage0.forward": 1 / reach})


def test_only_memory_that_is_in_no_cache_slows_reads_around_the_page_cache() -> None:
    # Four readers of 1 MiB: half of 2 GB/s into host memory, all of it into a ring.
    machine = changed(pools(), {f"{READ}.curves.direct.readers.into_memory": 0.5})
    size = 1024 * MIB
    pins = Pins(strategy="direct", chunk=MIB, workers=4)
    assert by(machine, read(size, pins=pins), "direct").steady == pytest.approx(size / 1e9)
    ring = load(size, cached=0.0, pins=Pins(chunk=MIB, workers=4, depth=2))
    slow, fast = (by(one, ring, "direct", "pinned").steady for one in (machine, pools()))
    assert slow == fast == pytest.approx(size / 2e9, rel=0.02)


def test_the_best_readers_are_chosen() -> None:
    # 2 GB/s take four requests of 1 MiB, or one of 4 MiB; the smallest ring of the fewest workers.
    found = by(pools(), load(1024 * MIB, cached=0.0), "direct", "pinned")
    shape = found.shapes[0]
    assert shape.workers * shape.chunk == 4 * MIB


def test_operations_per_second_bound_small_requests() -> None:
    # 10,000 a second of 256 KiB are 2.6 GB/s, more than the disk has; 1,000 are 0.26 GB/s.
    slow = changed(one_gpu(), {f"{READ}.requests": 1000.0})
    need = read(GB, cached=0.0, pins=Pins(strategy="direct", chunk=256 << 10))
    assert by(slow, need, "direct").steady == pytest.approx(GB / (256 << 10) / 1000, rel=0.01)


def test_a_save_ends_in_the_page_cache() -> None:
    assert by(one_gpu(), save(4 * GB), "buffered").steady == pytest.approx(0.2, rel=0.01)


def test_a_durable_save_waits_for_the_device() -> None:
    # 4 GB at 2 GB/s; the copies hide behind it.
    found = by(one_gpu(), save(4 * GB, fsync=True), "buffered")
    assert found.steady == pytest.approx(2.0, rel=0.01)
    (stage,) = found.way.movements[0].stages(found.shapes[0])
    assert (stage.resource, stage.cause) == ("storage0.backward", "bandwidth")
    assert stage.charges["storage0.backward"] == pytest.approx(1 / 2e9)


def test_durable_copies_that_are_slower_than_the_device_limit_themselves() -> None:
    slow = one_gpu(copy={"save": {"workers": [1], "rings": [1], "rates": [[1e9]]}})
    found = by(slow, save(4 * GB, fsync=True), "buffered")
    assert found.steady == pytest.approx(4.0, rel=0.01)


def test_a_save_around_the_page_cache_takes_the_disks_time() -> None:
    assert by(one_gpu(), save(4 * GB), "direct").steady == pytest.approx(2.0, rel=0.02)


def test_missing_figures_of_writes_are_named() -> None:
    bare = changed(one_gpu(), {f"{WRITE}.curves": {}})
    assert reason(bare, save(GB), "direct").endswith("no measured direct (O_DIRECT) writes")
    told = reason(bare, save(GB, fsync=True), "buffered")
    assert told.endswith("no measured writes that wait for the device")


def gds(rate: float = 3e9) -> Machine:
    """`one_gpu` with a link from the disk to the GPU."""
    way = {"rate": rate, "curves": {"gds": affine(rate, 100e-6)}}
    link = {"kind": "storage", "ends": ["disk0", "gpu0"], "forward": way, "backward": way}
    return changed(one_gpu(), {"links.gds0": link})


def test_gpudirect_storage_needs_no_host() -> None:
    found = by(gds(), load(6 * GB, cached=0.0), "gds")
    assert found.steady == pytest.approx(2.0, rel=0.02)
    assert not found.setup
    (stage,) = found.way.movements[0].stages(found.shapes[0])
    # No copy of the host's; the bytes take the GPU's own link, 1 / 10 GB/s each.
    assert stage.charges == pytest.approx({"gds0.forward": 1 / 3e9, "pcie0.forward": 1e-10})


def test_it_loses_against_a_warm_page_cache_and_wins_cold() -> None:
    assert every(gds(), load(6 * GB)).best.way.names == ("buffered", "pinned")
    assert every(gds(), load(6 * GB, cached=0.0)).best.way.names == ("gds",)


def test_it_saves_too() -> None:
    need = Need("s", "gpu0", "disk0", 6 * GB, "device", "file", GB, 8)
    found = by(gds(), need, "gds")
    assert found.steady == pytest.approx(2.0, rel=0.02)
    (stage,) = found.way.movements[0].stages(found.shapes[0])
    assert stage.charges["pcie0.backward"] == pytest.approx(1e-10)


def test_a_machine_without_it_says_so() -> None:
    told = reason(one_gpu(), load(GB), "gds")
    assert told == "gds: small has no GPUDirect Storage between disk0 and gpu0"
    bare = changed(gds(), {"links.gds0.forward.curves": {}})
    told = reason(bare, load(GB), "gds")
    assert told == "gds: gds0 has no GPUDirect Storage (curve gds)"
    with pytest.raises(InfeasibleError, match="no GPUDirect Storage"):
        every(one_gpu(), load(GB, pins=Pins(strategy="gds")))
