"""What is made of cells: interference, shared wires, sizes between, costs, the disk, warnings."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from planner.engine.backends.host import HostBackend
from planner.engine.calibration import cold_curves, costs, disk, setup, tables
from planner.engine.calibration.copies import Refinement
from planner.engine.calibration.degraded import link_warning
from planner.engine.calibration.device import DeviceBench
from planner.engine.calibration.duplex import interference, shared
from planner.engine.calibration.joint import Pipelines, Run, Stock, runs, shapes
from planner.engine.calibration.noise import Watch
from planner.engine.calibration.onward import Onward
from planner.engine.calibration.relink import wanted_link
from planner.engine.calibration.rounds import Cell
from planner.engine.calibration.scope import FULL, QUICK
from planner.engine.files import read_exactly
from planner.engine.memory import HostBuffer
from planner.engine.team import Team
from planner.engine.waits import Stop
from planner.errors import InputError
from planner.machine.load import load_machine
from planner.machine.schema import Direction, Link
from planner.model.strategies import Shape

MIB = 1 << 20


def _cell(*key: object, value: float, also: float | None = None, is_rate: bool = False) -> Cell:
    return Cell(key, None, is_rate=is_rate, clean=[value], also=[] if also is None else [also])


def test_interference_of_one_point_is_what_is_lost_to_each_byte() -> None:
    # 55.2 alone, 50.4 beside 51.3 the other way: 4.8 / 51.3.
    assert interference(55.2, [(50.4, 51.3)]) == pytest.approx(4.8 / 51.3)
    assert interference(55.2, [(56.0, 51.3)]) == 0.0
    assert interference(55.2, []) == 0.0


def test_interference_of_two_points_weighs_the_busier_one_more() -> None:
    # Losses 4.8 and 1.2 beside 51.3 and 12.9: least squares through the origin.
    slope = (4.8 * 51.3 + 1.2 * 12.9) / (51.3**2 + 12.9**2)
    found = interference(55.2, [(50.4, 51.3), (54.0, 12.9)])
    assert found == pytest.approx(slope)
    assert 1.2 / 12.9 < found < 4.8 / 51.3 or 4.8 / 51.3 < found < 1.2 / 12.9


def test_gpus_that_lose_by_each_other_share_a_wire() -> None:
    # 0 and 1 reach 60 of 110, 1 and 2 reach 62; 3 loses nothing by anyone.
    together = {(0, 1): 60.0, (1, 2): 62.0}
    assert shared([55.0] * 4, lambda i, j: together.get((i, j), 110.0)) == [(0, 1, 2)]
    # 104.5 of 110 is 5 % off: a wire. 109 is 1 % off, within the noise of both rates.
    assert shared([55.0, 55.0], lambda _i, _j: 104.5) == [(0, 1)]
    assert shared([55.0, 55.0], lambda _i, _j: 109.0) == []
    assert shared([55.0, 55.0], lambda _i, _j: None) == []


def _curve(times: dict[int, float]) -> list[Cell]:
    return [_cell("h2d0", "alone", size, value=seconds) for size, seconds in times.items()]


def test_the_middle_of_every_interval_is_tried_and_halves_only_where_it_bends() -> None:
    refine = Refinement(lambda name, size: Cell((name, "alone", size), None))
    # A line of 10 us and 50 GB/s up to 4 MiB, then half as fast.
    line = {size: 10e-6 + size / 50e9 for size in (MIB, 4 * MIB)}
    times = line | {16 * MIB: line[4 * MIB] + 12 * MIB / 25e9}
    cells = _curve(times)
    first = refine(cells)
    assert [cell.key for cell in first] == [("h2d0", "alone", 2 * MIB), ("h2d0", "alone", 8 * MIB)]
    first[0].clean.append(10e-6 + 2 * MIB / 50e9)
    # The bend is really at 8 MiB: there the copy is still on the fast line.
    first[1].clean.append(10e-6 + 8 * MIB / 50e9)
    second = refine([*cells, *first])
    # Halves of 4 to 8 and of 8 to 16 MiB: 5.66 and 11.3 MiB; a factor of two has no more between.
    assert second == []
    assert refine([*cells, *first]) == []


def test_wide_intervals_are_halved_twice() -> None:
    refine = Refinement(lambda name, size: Cell((name, "alone", size), None))
    cells = _curve({MIB: 1e-3, 16 * MIB: 16e-3})
    (middle,) = refine(cells)
    assert middle.key == ("h2d0", "alone", 4 * MIB)
    middle.clean.append(8e-3)  # on the line it would be 4 ms
    assert [cell.key[2] for cell in refine([*cells, middle])] == [2 * MIB, 8 * MIB]  # type: ignore[index]


@pytest.mark.parametrize("count", [2, 4])
def test_waking_is_timed_to_the_beginning_of_the_last_worker(count: int) -> None:
    team = Team(1, Stop(), "test")
    buffer = HostBuffer(8 * MIB)
    try:
        cost = costs.Costs(HostBackend(), team, [0], MIB, Path("unused"))
        # Another thread begins after the call that wakes it, and long before a second has passed.
        assert 1e-6 < cost.wake(count, buffer) < 1.0
    finally:
        buffer.close()
        team.close()


def test_setup_is_made_of_its_cells() -> None:
    size = 256 * MIB
    found = setup.setup_of(
        [
            _cell("setup", "fresh", size, value=0.1),
            _cell("setup", "touch", size, value=0.05, also=0.0051),
            _cell("setup", "touch_worker", 32 * MIB, value=0.008),
            _cell("setup", "register", size, value=0.0101, also=0.005),
            _cell("setup", "register", 4096, value=0.0001, also=0.00002),
            _cell("setup", "host_alloc", 4096, value=0.0015),
            _cell("setup", "host_alloc", 64 * MIB, value=0.0335),
            _cell("setup", "workers", 1, value=0.0001),
            _cell("setup", "workers", 16, value=0.0031),
            _cell("setup", "lane", 16, value=0.00008),
            _cell("setup", "wake", 8, value=0.0003),
            _cell("setup", "wake", 16, value=0.0006),
            _cell("setup", "map", size, value=0.01, also=0.01),
        ]
    )
    assert found.touch_fresh == pytest.approx(size / 0.1)
    assert found.touch_recycled == pytest.approx(size / 0.05)
    assert found.touch_worker == pytest.approx(32 * MIB / 0.008)
    # The ring's registration has the same 0.1 ms in it.
    assert found.register_ring == pytest.approx(size / 0.005)
    assert found.register_latency == pytest.approx(0.0001)
    assert found.register_rate == pytest.approx(size / 0.01)
    assert found.unregister == pytest.approx(size / 0.00498)
    assert found.unregister_latency == pytest.approx(0.00002)
    # 64 MiB less the 1.5 ms that a page takes as well.
    assert found.host_alloc == pytest.approx(64 * MIB / 0.032)
    assert found.host_alloc_latency == pytest.approx(0.0015)
    # 15 further workers took 3 ms longer than one alone.
    assert found.start == pytest.approx(0.0001)
    assert found.worker == pytest.approx(0.0002)
    assert found.lane == pytest.approx(0.00008)
    # 7 further workers are at it after 0.3 ms, 15 after 0.6 ms: least squares through nothing,
    # (7 x 0.3 + 15 x 0.6) / (49 + 225) ms each.
    assert found.wake == pytest.approx(11.1e-3 / 274)
    assert found.workers == 0.0
    # Mapping touches the pages, and registering pins them then.
    assert found.map_touch == pytest.approx(size / 0.01)
    assert found.register_file == pytest.approx(size / 0.02)
    assert setup.setup_of([]).register_rate is None


def test_a_ring_is_registered_among_other_steps() -> None:
    size = 256 * MIB
    rows = [
        _cell("setup", "touch", size, value=0.05, also=0.0051),
        _cell("setup", "register", 4096, value=0.0001, also=0.00002),
    ]
    # Many calls in a row take 0.1 ms each; a flow takes 0.5 ms for 8 MiB, of which the rate of a
    # ring, 256 MiB in 5 ms, makes a 32nd of 5 ms.
    slow = setup.setup_of([*rows, _cell("setup", "ring", 8 * MIB, value=0.0005)])
    assert slow.register_latency == pytest.approx(0.0005 - 0.005 / 32)
    quick = setup.setup_of([*rows, _cell("setup", "ring", 8 * MIB, value=0.0002)])
    assert quick.register_latency == pytest.approx(0.0001)


def _readers(name: str, count: int, size: int, *rates: float) -> Cell:
    return Cell(("disk", name, "readers", count, size), None, is_rate=True, clean=list(rates))


def test_a_disk_s_latency_is_what_the_line_through_its_requests_leaves() -> None:
    # 0.1 ms and 2 GB/s: 1 MiB in 0.624 ms, 4 MiB in 2.197 ms; eight readers reach 2.5 GB/s.
    cells = [
        *(_readers("direct", 1, s, s / (1e-4 + s / 2e9)) for s in (MIB, 4 * MIB)),
        _readers("direct", 8, MIB, 2.2e9),
        _readers("direct", 8, 4 * MIB, 2.5e9),
        _cell("disk", "write", value=1e9, is_rate=True),
    ]
    curve = cold_curves.curve_of(cells, "direct")
    assert curve is not None
    assert curve.latency == pytest.approx(1e-4)
    assert curve.rate == 2.5e9
    assert curve.readers is not None
    assert curve.readers.rate(8, MIB) == 2.2e9
    reading, writing = cold_curves.forward(cells), cold_curves.backward(cells)
    assert reading is not None
    assert set(reading.curves) == {"direct"}
    assert writing is not None
    assert writing.rate == 1e9


def test_writes_through_and_around_the_page_cache_are_a_curve_each() -> None:
    cells = [
        _readers("buffered_write", 1, MIB, 1e9, 1.2e9, 1.1e9),
        *(_readers("direct_write", 1, s, s / (1e-4 + s / 2e9)) for s in (MIB, 4 * MIB)),
        _readers("direct_write", 4, 4 * MIB, 2.5e9),
        _cell("disk", "write", value=0.5e9, is_rate=True),
    ]
    writing = cold_curves.backward(cells)
    assert writing is not None
    assert writing.rate == 2.5e9
    assert writing.curves["buffered"].rate == 1.1e9  # not what one long file took
    assert writing.curves["direct"].latency == pytest.approx(1e-4)
    # A system that cannot write around the cache, and one that was not asked to.
    through = cold_curves.backward([cells[0]])
    assert through is not None
    assert set(through.curves) == {"buffered"}
    assert cold_curves.backward([]) is None
    assert cold_curves.forward(cells) is None


def test_reads_into_memory_that_is_in_no_cache_are_a_share_of_those_into_a_ring() -> None:
    # 1.8 of 2 and 2.1 of 3 GB/s: 0.9 and 0.7, so 0.8 is in the middle.
    cells = [
        _readers("direct", 1, 4 * MIB, 2e9),
        _readers("direct", 4, MIB, 3e9),
        Cell(("disk", "direct", "afar", 1, 4 * MIB), None, is_rate=True, clean=[1.8e9]),
        Cell(("disk", "direct", "afar", 4, MIB), None, is_rate=True, clean=[2.1e9]),
    ]
    curve = cold_curves.curve_of(cells, "direct")
    assert curve is not None
    assert curve.readers is not None
    assert curve.readers.into_memory == pytest.approx(0.8)
    without = cold_curves.curve_of(cells[:2], "direct")
    assert without is not None
    assert without.readers is not None
    assert without.readers.into_memory == 1.0


def test_one_lucky_pool_around_the_page_cache_does_not_make_the_disk() -> None:
    # 4 MiB under way as 4 x 1 MiB and 1 x 4 MiB: own samples count twice, the other's once.
    cells = [_readers("direct", 4, MIB, 3e9), _readers("direct", 1, 4 * MIB, 2e9, 2e9)]
    curve = cold_curves.curve_of(cells, "direct")
    assert curve is not None
    assert curve.readers is not None
    # [3, 3, 2, 2] and [2, 2, 2, 2, 3]
    assert curve.readers.rates == ((None, 2e9), (2.5e9, None))


def test_the_read_ahead_tells_pools_of_one_request_size_alike() -> None:
    cells = [_readers("buffered", n, MIB, rate) for n, rate in ((1, 2e9), (2, 3e9), (8, 1e9))]
    curve = cold_curves.curve_of(cells, "buffered")
    assert curve is not None
    assert curve.readers is not None
    # One reader: [2, 2, 3]; two: [3, 3, 2, 1]; eight: [1, 1, 3].
    assert curve.readers.rates == ((2e9,), (2.5e9,), (1e9,))


def test_the_spread_of_a_disk_is_that_of_every_sample() -> None:
    # Around their medians: 0.8, 1, 1.2 and 0.9, 1, 1.1, so quartiles 0.925 and 1.075.
    cells = [
        _readers("direct", 1, MIB, 0.8e9, 1e9, 1.2e9),
        _readers("direct", 1, 4 * MIB, 1.8e9, 2e9, 2.2e9),
    ]
    curve = cold_curves.curve_of(cells, "direct")
    assert curve is not None
    assert curve.spread == pytest.approx(0.075)


def test_through_the_page_cache_a_request_s_size_changes_little() -> None:
    # One reader: the cells beside each count once, its own twice. 1 MiB: 3, 3, 3, 3, 5, 5 around 3
    # and 5; 4 MiB: 5, 5, 5, 5, 3, 3, 4, 4; 16 MiB: 4, 4, 4, 4, 5, 5. Around it each is its own.
    sizes = {MIB: 3e9, 4 * MIB: 5e9, 16 * MIB: 4e9}
    for name, wanted in (("buffered", [3e9, 4.5e9, 4e9]), ("direct", [3e9, 5e9, 4e9])):
        cells = [_readers(name, 1, size, rate, rate) for size, rate in sizes.items()]
        curve = cold_curves.curve_of(cells, name)
        assert curve is not None
        assert curve.readers is not None
        assert list(curve.readers.rates[0]) == pytest.approx(wanted)


def test_what_waits_for_a_disk_counts_whatever_the_processors_did() -> None:
    @contextmanager
    def busy(threads: int = 1, *, resident: bool = False) -> Iterator[Watch]:
        seen = Watch()
        yield seen
        seen.disturbed = threads > 0 and not resident

    cell = Cell(("disk", "direct", "readers", 1, MIB), lambda: 1e9, is_rate=True, waits=True)
    cell.void(cell.take(busy))
    assert (cell.clean, cell.dirty) == ([1e9], [])


def test_cold_reads_of_a_real_file_and_of_its_mapping(tmp_path: Path) -> None:
    path = tmp_path / "cold"
    block = memoryview(os.urandom(4 * MIB))
    written, rate = disk.write_cold(path, 32 * MIB, block, 60.0)
    assert written == path.stat().st_size == 32 * MIB
    assert rate > 0
    cold = disk.ColdFile(path, written, (MIB, 4 * MIB, 16 * MIB), (1, 2), 0.01)
    try:
        cells = list(cold.cells(mapped=True))
        keys = [cell.key for cell in cells]
        assert ("disk", "buffered", "readers", 1, MIB) in keys
        assert ("disk", "buffered", "readers", 2, MIB) in keys
        # Half of the file under way, and no more.
        assert ("disk", "buffered", "readers", 1, 16 * MIB) in keys
        assert ("disk", "buffered", "readers", 2, 16 * MIB) not in keys
        assert ("disk", "mmap", "alone", 4 * MIB) in keys
        direct = (
            "disk",
            "direct",
            "readers",
            1,
            MIB,
        ) in keys  # not every file system reads that way
        assert (("disk", "direct", "afar", 1, 4 * MIB) in keys) == direct
        # Often enough to come to the file's end and start over.
        assert all(cell.take() > 0 for _ in range(3) for cell in cells)
    finally:
        cold.close()


def test_a_slot_is_read_into_when_its_bytes_have_gone_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "cold"
    written, _ = disk.write_cold(path, 32 * MIB, memoryview(os.urandom(4 * MIB)), 60.0)
    done: list[tuple[str, int]] = []

    class Way:
        def wait(self, slot: int) -> None:
            done.append(("wait", slot))

        def copy(self, slot: int, _target: int, _source: int, _length: int) -> None:
            done.append(("copy", slot))

    way = Way()
    monkeypatch.setattr(Onward, "lanes", lambda _onward, readers: [way] * readers)
    monkeypatch.setattr(Onward, "register", lambda *_: None)
    monkeypatch.setattr(Onward, "unregister", lambda *_: None)

    def read(fd: int, view: memoryview, offset: int) -> None:
        done.append(("read", 0))
        read_exactly(fd, view, offset)

    monkeypatch.setattr(disk, "read_exactly", read)
    backend = HostBackend()
    reader = disk.Reader(
        path,
        written,
        direct=False,
        room=8 * MIB,
        seconds=10.0,
        onward=Onward(backend, DeviceBench(backend, 1).device(0, MIB), disk.SLOTS),
    )
    try:
        assert reader.together(1, MIB) > 0
    finally:
        reader.close()
        backend.close()
    # 32 requests, each into a slot that was waited for, and on out of it.
    rounds = [done[at : at + 3] for at in range(0, 96, 3)]
    assert rounds == [[("wait", turn % 2), ("read", 0), ("copy", turn % 2)] for turn in range(32)]


def test_what_is_read_goes_on_to_a_gpu(tmp_path: Path) -> None:
    path = tmp_path / "cold"
    written, _ = disk.write_cold(path, 64 * MIB, memoryview(os.urandom(4 * MIB)), 60.0)
    backend = HostBackend()
    bench = DeviceBench(backend, 1)
    cold = disk.ColdFile(path, written, (MIB, 4 * MIB), (1, 2), 0.01)
    try:
        target = bench.device(0, 8 * MIB)
        onward = Onward(backend, target, disk.SLOTS)
        cells = {cell.key: cell for cell in cold.cells(mapped=False, onward=onward)}
        assert target.view is not None
        whole = path.read_bytes()
        for key, cell in cells.items():
            bench.backend.fill(target.owner, 0)
            assert cell.take() > 0
            # Where bytes stay in the memory that they are read into, none has come.
            assert (bytes(target.view[:MIB]) != bytes(MIB)) == ("readers" in str(key))
            # What came is a part of the file.
            assert "afar" in str(key) or bytes(target.view[:MIB]) in whole
    finally:
        cold.close()
        bench.close()
        backend.close()


@pytest.mark.parametrize(
    ("generation", "width", "words"),
    [
        # Half the lanes of the same generation; a generation less of all lanes; both.
        (5, 8, "about 50%"),
        (4, 16, "about 50%"),
        (4, 8, "about 25%"),
        (5, 16, None),
        (None, 16, None),
    ],
)
def test_a_link_below_what_it_can_do_is_said(
    generation: int | None, width: int, words: str | None
) -> None:
    link = Link(
        kind="pcie",
        ends=("host0", "gpu0"),
        forward=Direction(rate=50e9),
        generation=generation,
        width=width,
        max_generation=5,
        max_width=16,
    )
    text = link_warning("pcie0", link)
    if words is None:
        assert text is None
    else:
        assert text is not None
        assert text.startswith(f"pcie0 runs as PCIe {generation} x{width} under load")
        assert words in text


def test_a_link_is_named_by_its_name_or_its_ends() -> None:
    machine = load_machine("h200-sxm-2")
    assert wanted_link(machine, "pcie1") == "pcie1"
    assert wanted_link(machine, "host0->gpu1") == "pcie1"
    assert wanted_link(machine, "gpu1 -> host0") == "pcie1"
    with pytest.raises(InputError, match="no measured link pcie9") as error:
        wanted_link(machine, "pcie9")
    assert "pcie" in str(error.value.hint)


def test_only_quick_copies_outward_are_run_with_small_chunks_too() -> None:
    # The fewest, the middle and the most of six counts; the most and half as many with small ones.
    counts = [1, 2, 4, 8, 12, 16]
    saved = shapes(counts, 1024 * MIB, outward=True, quick=False)
    assert saved == [Shape(4 * MIB, 2, w) for w in (1, 8, 16)]
    out = shapes(counts, 1024 * MIB, outward=True)
    small = [Shape(chunk, 2, w) for chunk in (MIB, MIB // 4) for w in (8, 16)]
    assert out == [*saved, *small]
    # Where a few runs must do, the most workers tell.
    brief = shapes(counts, 1024 * MIB, outward=True, few=True)
    assert brief == [*saved, Shape(MIB, 2, 16), Shape(MIB // 4, 2, 16)]


def test_small_chunks_and_single_slots_are_run_by_as_many_workers_as_rings_have() -> None:
    # 32 cores: no ring needs 24 or 32 workers, and the locks are slower with so many.
    many = shapes([1, 2, 4, 8, 16, 24, 32], 1024 * MIB)
    small = [(8, MIB), (16, MIB), (8, MIB // 4), (16, MIB // 4)]
    assert [(s.workers, s.chunk) for s in many if s.chunk < 4 * MIB] == small
    assert many[-1] == Shape(4 * MIB, 1, 16)
    # Twelve at the most: 8 and 4 are as near to half of that, and the fewer are taken.
    some = shapes([1, 2, 4, 8, 12], 1024 * MIB)
    assert [s.workers for s in some if s.chunk == MIB] == [4, 12]
    assert some[-1] == Shape(4 * MIB, 1, 8)
    # Where one thread hands on what others read, the link would hide a slot's idle time.
    apart = shapes([1, 2, 4, 8, 12, 16], 1024 * MIB, apart=True)
    assert [(s.workers, s.chunk) for s in apart if s.chunk < 4 * MIB] == small
    assert apart[-1] == Shape(4 * MIB, 1, 8)
    # Two cores: one worker alone hands its chunks to another thread, too.
    few = shapes([1, 2], 1024 * MIB)
    assert [s.workers for s in few if s.chunk < 4 * MIB] == [1, 2]
    assert few[-1] == Shape(4 * MIB, 1, 2)


def test_a_quick_calibration_runs_no_more_workers_than_rings_have(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Pipelines, "ready", lambda _self, _one: lambda: 1.0)
    bench = DeviceBench(HostBackend())
    try:
        memory = bench.pageable(MIB)
        stock = Stock(tmp_path / "unused", memory, memory, tmp_path, 1024 * MIB, memory)
        pipelines = Pipelines(HostBackend(), load_machine("h200-sxm-1"), "memory", stock)
        counts = [1, 2, 4, 8, 16, 24, 32]
        quick = pipelines.cells(counts, 128 * MIB, few=True)
        full = pipelines.cells(counts, 128 * MIB, few=False)
    finally:
        bench.close()
    # (joint, copy, chunk, depth, workers, ...)
    assert {cell.key[4] for cell in quick if isinstance(cell.key, tuple)} == {1, 2, 4, 8, 16}
    assert {cell.key[4] for cell in full if isinstance(cell.key, tuple)} == set(counts)


def test_every_run_takes_about_as_long() -> None:
    planned = shapes([1, 2, 4, 8, 12, 16], 1024 * MIB)
    found = runs(planned, 1024 * MIB, 256 * MIB, again=True)
    by_workers = {r.shape.workers: r for r in found if r.shape.chunk == 4 * MIB and r.times >= 1}
    # 256 MiB each: one worker moves a quarter of the stock, sixteen go over it four times.
    assert by_workers[1] == Run(by_workers[1].shape, 256 * MIB, 1)
    assert by_workers[16].total == 4096 * MIB
    # One slot each for the most workers but one, twelve: 3 GiB, in 768 chunks.
    assert found[-1].total == 3072 * MIB
    assert len(found) == len({run.shape for run in found})
    # Small chunks take as long as the locks do, so their number is what counts.
    assert {r.total // r.shape.chunk for r in found if r.shape.chunk < 4 * MIB} == {1024}
    few = runs(shapes([1, 2], 256 * MIB), 256 * MIB, 256 * MIB, again=False)
    assert all(r.total <= 256 * MIB for r in few)


@pytest.mark.parametrize(("scope", "limit"), [(QUICK, 13.0), (FULL, 180.0)])
def test_the_groups_fit_into_the_time(scope: object, limit: float) -> None:
    assert scope in (QUICK, FULL)
    one = QUICK if scope is QUICK else FULL
    planned = sum(one.weights.values()) + one.reserve
    assert planned <= one.seconds
    # Starting Python and the contexts takes a second or two, ending some more.
    assert one.seconds + 3 < limit


@pytest.mark.parametrize(("real", "small"), [(True, 0.3e-3), (False, 0.04e-3)])
def test_a_small_allocation_by_a_driver_takes_as_long_as_a_block(real: bool, small: float) -> None:
    times = {MIB: 0.04e-3, 4 * MIB: 0.3e-3, 64 * MIB: 0.5e-3}
    cells = [Cell(("allocate", 0, size), None, clean=[time]) for size, time in times.items()]
    found = setup.allocation(cells, 0, real=real)
    assert found is not None
    assert found.seconds(MIB) == pytest.approx(small)
    assert found.seconds(4096) == pytest.approx(small)
    assert found.seconds(64 * MIB) == pytest.approx(0.5e-3)


def test_a_piece_costs_its_call_and_its_bytes() -> None:
    ring = HostBuffer(4 * MIB)
    ring.touch()
    cell = tables.per_piece_cell("memory", ring.view)
    assert cell.key == ("piece", "memory")
    # 4 KiB at 100 GB/s, faster than any single thread, take 40 ns; 100 us is a stuck machine.
    assert 40e-9 < min(cell.take() for _ in range(3)) < 100e-6
    ring.close()
