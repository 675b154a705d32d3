"""One copy after a pause: what of it belongs to the pause, and that it really moves its bytes."""

from __future__ import annotations

from time import perf_counter

import pytest

from planner.engine.backends.host import HostBackend
from planner.engine.calibration.copies import Walk
from planner.engine.calibration.device import DeviceBench
from planner.engine.calibration.first import SIZE
from planner.engine.calibration.lone import Lone, cells, rested
from planner.engine.calibration.once import CLEARED
from planner.engine.calibration.pause import PAUSE, after_pause
from planner.engine.calibration.rounds import Cell
from tests.helpers.machines import one_gpu


def _cell(*key: object, value: float) -> Cell:
    return Cell(key, None, clean=[value])


def test_a_run_costs_what_the_curve_does_not_say_and_the_pause_what_the_run_does_not() -> None:
    curve = [_cell("h2d0", "alone", size, value=10e-6 + size / 50e9) for size in (4096, 1 << 20)]
    assert rested("d2h0", curve) is None
    plain = rested("h2d0", curve)
    assert plain is not None
    assert (plain.overhead, plain.idle) == (0.0, 0.0)
    # 256 KiB at 50 GB/s and 10 us are 15.2 us; the run took 35.2, and after a pause 85.2.
    took = 10e-6 + SIZE / 50e9
    awake = _cell("awake", "h2d0", SIZE, value=took + 20e-6)
    found = rested("h2d0", [*curve, awake, _cell("idle", "h2d0", SIZE, value=took + 70e-6)])
    assert found is not None
    assert found.overhead == pytest.approx(20e-6)
    assert found.idle == pytest.approx(50e-6)
    assert found.points == plain.points
    # Points that are runs themselves hold the overhead: the pause is what is beyond them.
    runs = rested("h2d0", [*curve, _cell("idle", "h2d0", SIZE, value=took + 70e-6)])
    assert runs is not None
    assert runs.overhead == 0.0
    assert runs.idle == pytest.approx(70e-6)
    # That a run is quicker than its copy, or than one that is awake, is noise.
    quick = rested(
        "h2d0",
        [
            *curve,
            _cell("awake", "h2d0", SIZE, value=2e-6),
            _cell("idle", "h2d0", SIZE, value=1e-6),
        ],
    )
    assert quick is not None
    assert (quick.overhead, quick.idle) == (0.0, 0.0)


def test_what_is_beside_the_bytes_varies_as_small_runs_do() -> None:
    def cell(*key: object, off: float, value: float = 30e-6) -> Cell:
        samples = [value * (1 + off * k / 2) for k in (-2, -1, 0, 1, 2)]  # quartiles at -off, +off
        return Cell(key, None, clean=samples)

    large = [cell("h2d0", "alone", size, off=0.002) for size in (1 << 20, 1 << 24)]
    small = cell("h2d0", "alone", 4096, off=0.04)
    awake = cell("awake", "h2d0", SIZE, off=0.2)
    found = [rested("h2d0", [*large, *more]) for more in ([], [small], [small, awake])]
    spreads = [None if curve is None else curve.lone_spread for curve in found]
    # Copies of MiB say nothing of it; the run of one copy says more than the smallest copy does.
    idle = cell("idle", "h2d0", SIZE, off=0.0)
    assert spreads == [None, None, pytest.approx(0.1)]
    other = rested("h2d0", [*large, small, idle])
    assert other is not None
    assert other.lone_spread == pytest.approx(0.02)


def test_ordinary_memory_is_held_against_copies_of_one_place() -> None:
    # Cold 256 KiB take 90 us, hot ones 30; the run of hot ones 45 and after a pause 100: 15 and 55
    # us for both curves.
    measured = [
        _cell("h2d_pageable0", "alone", SIZE, value=90e-6),
        _cell("h2d_pageable0_hot", "alone", SIZE, value=30e-6),
        _cell("awake", "h2d_pageable0", SIZE, value=45e-6),
        _cell("idle", "h2d_pageable0", SIZE, value=100e-6),
    ]
    for name in ("h2d_pageable0", "h2d_pageable0_hot"):
        found = rested(name, measured)
        assert found is not None
        assert found.overhead == pytest.approx(15e-6)
        assert found.idle == pytest.approx(55e-6)


def test_it_runs_the_engine_s_own_movement_each_way() -> None:
    backend = HostBackend()
    bench = DeviceBench(backend, 1)
    try:
        pinned, plain, device = bench.pinned(SIZE), bench.pageable(SIZE), bench.device(0, SIZE)
        ways = {"in": (device, pinned), "out": (plain, device), "pageable": (device, plain)}
        for number, (name, (target, source)) in enumerate(ways.items(), start=1):
            assert source.view is not None
            assert target.view is not None
            source.view[:] = bytes([number]) * SIZE
            run = Lone(backend, one_gpu(), 0, Walk(target, source))
            for made in cells(name, run):
                target.view[:] = bytes(SIZE)
                begun = perf_counter()
                seconds = made.take()
                assert bytes(target.view) == bytes([number]) * SIZE
                # The pause is no part of what is measured.
                assert 0 < seconds < perf_counter() - begun - PAUSE
            run.close()
    finally:
        bench.close()
        backend.close()


def test_an_error_in_the_run_comes_to_the_caller() -> None:
    backend = HostBackend()

    def fails() -> float:
        raise ValueError("no copy")

    with pytest.raises(ValueError, match="no copy"):
        after_pause(backend, 0, fails)
    backend.close()


def test_a_steady_run_comes_without_a_pause(monkeypatch: pytest.MonkeyPatch) -> None:
    backend = HostBackend()
    bench = DeviceBench(backend, 1)
    slept: list[float] = []
    monkeypatch.setattr("planner.engine.calibration.pause.sleep", slept.append)
    try:
        pinned, device = bench.pinned(SIZE), bench.device(0, SIZE)
        run = Lone(backend, one_gpu(), 0, Walk(device, pinned))
        slept.clear()
        run.awake()
        assert slept == []
        run.asleep.moved()
        assert slept == [PAUSE]
        run.close()
    finally:
        bench.close()
        backend.close()


def test_a_target_is_cleared_before_each_run() -> None:
    # The source is copied over what the target was set to: were it not cleared, nothing would tell
    # a run that moves nothing from one that moves its bytes.
    backend = HostBackend()
    bench = DeviceBench(backend, 1)
    try:
        plain, device = bench.pinned(2 * SIZE), bench.device(0, 2 * SIZE)
        seen: list[tuple[bytes, bytes]] = []
        for walk in (Walk(device, plain), Walk(plain, device)):
            run = Lone(backend, one_gpu(), 0, walk)
            target = walk.target
            assert target.view is not None
            target.view[:] = bytes(2 * SIZE)
            run.awake._go = lambda: 1.0  # type: ignore[method-assign]
            run.awake()
            seen.append((bytes(target.view[:SIZE]), bytes(target.view[SIZE:])))
            run.close()
        # What the run would have written, and no more.
        assert seen == [(bytes([CLEARED]) * SIZE, bytes(SIZE))] * 2
    finally:
        bench.close()
        backend.close()
