"""What GPUs read in place: the probes run on emulated GPUs, and sectors and requests are found."""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from pathlib import Path

import pytest

from planner.engine.backends.base import DeviceBuffer
from planner.engine.backends.host import HostBackend
from planner.engine.caches import THROUGH, sweep
from planner.engine.calibration import ahead
from planner.engine.calibration.ahead import pace
from planner.engine.calibration.copies import curve_of
from planner.engine.calibration.device import DeviceBench
from planner.engine.calibration.in_place import COMBINED, OWN, STRIDES, InPlace, scattered
from planner.engine.calibration.managed import REST
from planner.engine.calibration.rounds import Cell
from planner.engine.memory import Mapping
from planner.engine.places import DevicePlace
from planner.engine.transfer import Moved
from planner.machine.curve import Curve
from planner.model.touched import ELEMENT, Use, in_place

MIB = 1 << 20
OVER = 256 * MIB
DENSE = Curve(latency=14e-6, rate=50e9)


def _strided(seconds: dict[int, float]) -> list[Cell]:
    return [Cell(("h2d0_strided", OVER, s), None, clean=[t]) for s, t in seconds.items()]


def _time(stride: int, sector: int, requests: float) -> float:
    """What the model says of one pass."""
    touch = in_place(OVER, Use(ELEMENT / stride, 1, "strided"), sector)
    return DENSE.latency + max(touch.size / DENSE.rate, touch.requests / requests)


@pytest.mark.parametrize("sector", [32, 64, 128])
def test_sector_and_requests_give_the_times_again(sector: int) -> None:
    truth = {stride: _time(stride, sector, 0.6e9) for stride in STRIDES}
    found = scattered(_strided(truth), 0, DENSE)
    assert found is not None
    for stride, seconds in truth.items():
        assert _time(stride, found[1], found[0]) == pytest.approx(seconds)
    # Lines of 128 bytes fill the wire before requests bind (50 GB/s are 0.39 G lines a second), so
    # their times tell no sector; smaller ones are told.
    assert found[0] == pytest.approx(min(0.6e9, DENSE.rate / sector))
    assert found[1] == sector or sector == 128


def test_the_strides_of_an_h200() -> None:
    # 1 GiB, 16 bytes of every 32, 64, 128, 512 and 4096: measured 2026-11-29 on an H200 machine.
    seen = {32: 21.1e-3, 64: 18.6e-3, 128: 14.4e-3, 512: 3.4e-3, 4096: 0.45e-3}
    cells = [Cell(("h2d0_strided", 1 << 30, s), None, clean=[t]) for s, t in seen.items()]
    found = scattered(cells, 0, Curve(latency=13.9e-6, rate=50.4e9))
    assert found is not None
    # 2^30 / 512 requests in 3.4 ms are 0.62 G/s, the most of the three; pairs of sectors move.
    assert found[0] == pytest.approx(0.62e9, rel=0.01)
    assert found[1] == 64
    assert scattered([], 0, DENSE) is None


@pytest.mark.parametrize("size", [64 << 10, 4 * MIB])
def test_between_two_runs_a_few_times_their_bytes_go_through_the_caches(
    size: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = tmp_path / "warm"
    file.write_bytes(bytes(MIB))
    copied: list[int] = []
    monkeypatch.setattr(
        "planner.engine.calibration.in_place.copy_memory",
        lambda _to, _from, length: copied.append(length),
    )
    backend = HostBackend()
    bench = DeviceBench(backend)
    probe = InPlace(backend, 0, bench.pageable(4 * MIB), bench.device(0, 4 * MIB), file)
    try:
        cells = {cell.key: cell for cell in probe.cells(maps=False)}
        copied.clear()
        cells["h2d0_zero_copy", "alone", size].take()
        # As much as a core's own caches hold at the most.
        assert set(copied) == {min(OWN, THROUGH * size)}
    finally:
        probe.close()
        bench.close()
        backend.close()


def test_the_probes_on_an_emulated_gpu(tmp_path: Path) -> None:
    file = tmp_path / "warm"
    file.write_bytes(bytes(MIB))
    backend = HostBackend()
    bench = DeviceBench(backend)
    try:
        host, device = bench.pinned(16 * MIB), bench.device(0, 16 * MIB)
        probes = InPlace(backend, 0, host, device, file)
        cells = {cell.key: cell for cell in probes.cells(maps=False)}
        for cell in cells.values():
            assert cell.take() > 0
        for name in ("h2d0_zero_copy", "d2h0_zero_copy"):
            assert (name, "alone", 16 * MIB) in cells
        faults = ("h2d0_managed_fault", "h2d0_managed_scattered")
        moves = ("h2d0_managed_prefetch", "d2h0_managed_prefetch")
        for name in (*faults, *moves):
            # Part of a block of 2 MiB, and two blocks with a part: eight are more than 16 MiB.
            sizes = {REST, 4 * MIB + REST}
            assert {key[2] for key in cells if key[:2] == (name, "alone")} == sizes  # type: ignore[index]
            assert ("idle", name, REST) in cells
        for name in ("managed_touch", "managed_fill", "managed_map"):
            assert (name, "alone", 4 * MIB + REST) in cells
        assert {key[2] for key in cells if key[0] == "h2d0_strided"} == set(STRIDES)  # type: ignore[index]
        # Emulated write-combined memory is ordinary memory, and that shows.
        assert cells["combined", "read"].summary().median > COMBINED
        probes.close()
    finally:
        bench.close()
        backend.close()


def test_pieces_are_registered_ahead_of_their_copies_and_given_back(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = tmp_path / "warm"
    file.write_bytes(bytes(32 * MIB))
    backend = HostBackend()
    bench = DeviceBench(backend)
    held: set[int] = set()
    most = 0

    def register(address: int, size: int, **_options: bool) -> None:
        nonlocal most
        assert size in {4 * MIB, 8 * MIB, 16 * MIB}
        assert address not in held
        held.add(address)
        most = max(most, len(held))

    try:
        host, device = bench.pinned(MIB), bench.device(0, 32 * MIB)
        probes = InPlace(backend, 0, host, device, file)
        names = ("register_ahead", "register_helped", "register_memory")
        found = [(cell.key, cell) for cell in probes.cells(maps=True)]
        cells = [(key, cell) for key, cell in found if isinstance(key, tuple) and key[0] in names]
        # Two pieces of 16 MiB fit, of 32 MiB only one.
        kinds = [("alone", 4), ("alone", 8), ("alone", 16), ("begin", 16)]
        wanted = [(name, kind, size * MIB) for name in names for kind, size in kinds]
        assert [key for key, _ in cells] == wanted
        # The threads that empty the caches beforehand would be taken for a disturbance.
        assert all(cell.waits for _, cell in cells)
        with monkeypatch.context() as patched:
            patched.setattr(backend, "register", register)
            patched.setattr(backend, "unregister", held.remove)
            for (_, kind, size), cell in cells:
                assert cell.take() > 0
                assert held == set()
                assert most == (2 if kind == "begin" else 32 * MIB // size)
                most = 0
        probes.close()
    finally:
        bench.close()
        backend.close()


def test_a_piece_takes_its_registration_and_the_issue_of_its_copy() -> None:
    # Registrations of 2 s, the first of 3 s, each followed by 0.5 s in which the copy is issued;
    # copies take 1 s. What the first piece takes is no part of the pace.
    registered = ((0.0, 3.0), (3.5, 5.5), (6.0, 8.0))
    copied = ((3.0, 4.0), (5.5, 6.5), (8.0, 9.0))
    moved = Moved(0.0, 9.0, (registered, copied), (None, ("h2d", 0)))
    assert pace(moved) == pytest.approx(2.0 + 0.5)
    # Copies of 4 s: the third piece waits until 7.5 for the slot of the first; 0.5 s are issue.
    registered = ((0.0, 3.0), (3.5, 5.5), (8.0, 10.0))
    copied = ((3.0, 7.5), (5.5, 11.5), (10.0, 15.5))
    moved = Moved(0.0, 15.5, (registered, copied), (None, ("h2d", 0)))
    assert pace(moved) == pytest.approx(2.0 + 0.5)


@pytest.mark.parametrize(("each", "copy"), [(2e-3, 1e-3), (1e-3, 3e-3)])
def test_what_a_run_takes_before_its_pieces_go_at_their_pace(each: float, copy: float) -> None:
    # Two pieces of 16 MiB: one is registered, the other beside the first one's copy, and a copy is
    # left. The run takes 0.4 ms more, by the middle of what was seen beside two GPUs.
    piece = 16 * MIB
    total = each + max(each, copy) + copy + 0.4e-3
    cells = [
        Cell(("register_ahead", "alone", piece), None, clean=[each]),
        Cell(("register_ahead", "begin", piece), None, clean=[total, total + 0.1e-3]),
        Cell(("register_ahead", "begin", piece), None, clean=[total - 0.1e-3]),
    ]
    copies = Curve(latency=0.0, rate=piece / copy)
    found = ahead.begun("register_ahead", cells, copies)
    assert found is not None
    assert found.seconds(piece) == pytest.approx(each)
    assert found.overhead == pytest.approx(0.4e-3)
    # Without the run, or without copies to hold it against, nothing is known of it.
    for known in (
        ahead.begun("register_ahead", cells[:1], copies),
        ahead.begun("register_ahead", cells, None),
    ):
        assert known is not None
        assert known.overhead == 0
    assert ahead.begun("register_memory", cells, copies) is None


def test_registering_runs_as_a_plan_does_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = tmp_path / "warm"
    file.write_bytes(bytes(64 * MIB))
    backend = HostBackend()
    bench = DeviceBench(backend)
    done: list[str] = []
    undo = contextlib.ExitStack()

    def noted(name: str, plain: Callable[..., None]) -> Callable[..., None]:
        def call(*args: object, **options: object) -> None:
            done.append(name)
            plain(*args, **options)

        return call

    try:
        host, device = bench.pinned(MIB), bench.device(0, 64 * MIB)
        there = DevicePlace(0, DeviceBuffer(0, device.address, device.size))
        monkeypatch.setattr("planner.engine.calibration.ahead.sweep", noted("sweep", sweep))
        monkeypatch.setattr(Mapping, "forget", noted("forget", Mapping.forget))
        monkeypatch.setattr(backend, "register", noted("register", backend.register))
        monkeypatch.setattr(backend, "unregister", noted("unregister", backend.unregister))
        cells = list(ahead.Ahead(backend, 0, there, host, undo).file_cells(file))
        assert [cell.key for cell in cells] == [
            (name, kind, size * MIB)
            for name in ("register_ahead", "register_helped")
            for kind, size in (*(("alone", size) for size in (4, 8, 16, 32)), ("begin", 16))
        ]
        for _ in range(2):
            done.clear()
            assert cells[3].take() > 0
            assert done == ["forget", "sweep", *["register"] * 2, *["unregister"] * 2]
        # Of each run, what giving one of its pieces back took.
        assert len(cells[3].also) == 2
        assert all(seconds > 0 for seconds in cells[3].also)
    finally:
        undo.close()
        bench.close()
        backend.close()


def test_what_was_measured_beside_each_gpu_counts_together() -> None:
    # Host figures come from a cell for each GPU: neither is taken alone. Middle of 1, 2, 4, 8, 9.
    piece = 16 * MIB
    cells = [
        Cell(("register_memory", "alone", piece), None, clean=[1e-3, 9e-3]),
        Cell(("register_memory", "alone", piece), None, clean=[2e-3, 4e-3, 8e-3]),
    ]
    found = curve_of("register_memory", cells)
    assert found is not None
    assert found.seconds(piece) == pytest.approx(4e-3)
