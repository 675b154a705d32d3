"""Short runs of pipelines: as many workers and chunks as planned, each behind a sweep."""

from __future__ import annotations

from pathlib import Path

import pytest

from planner.engine.backends.host import HostBackend
from planner.engine.calibration import leads
from planner.engine.calibration.device import DeviceBench
from planner.engine.calibration.joint import Pipelines, Stock, joints
from planner.engine.calibration.leads import counts
from planner.machine.load import load_machine
from planner.model.strategies import Shape

MIB = 1 << 20


def test_short_runs_have_as_many_workers_as_fill_a_link() -> None:
    # Few workers take small chunks, as short flows have them: four chunks for each worker.
    assert counts([1, 2, 4, 8, 12, 16], few=False) == [1, 2, 4, 8, 12, 16]
    assert counts([1, 2, 4, 8, 16, 24, 32], few=True) == [2, 4, 16]
    assert [leads.shape(w, 1024 * MIB) for w in (2, 4, 8)] == [
        Shape(2 * MIB, 2, 2),
        Shape(2 * MIB, 2, 4),
        Shape(4 * MIB, 2, 8),
    ]
    # Outward they all are small.
    assert leads.shape(8, 1024 * MIB, "save_memory") == Shape(2 * MIB, 2, 8)
    # A stock of 16 MiB is cut into as many chunks of 1 MiB, the smallest.
    assert leads.shape(8, 16 * MIB) == Shape(MIB, 2, 8)


def test_a_target_in_memory_is_written_over_before_the_sweep(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    done: list[str] = []
    name = "planner.engine.calibration.leads"
    monkeypatch.setattr(f"{name}.sweep", lambda _address, _size: done.append("sweep"))
    monkeypatch.setattr(f"{name}.cleared", lambda _place, size: done.append(f"clear {size // MIB}"))
    backend = HostBackend()
    bench = DeviceBench(backend)
    try:
        host, device = bench.pageable(32 * MIB), bench.device(0, 32 * MIB)
        stock = Stock(tmp_path / "unused", host, device, tmp_path, 32 * MIB, bench.pinned(MIB))
        ready = Pipelines(backend, load_machine("h200-sxm-1"), "save_memory", stock)
        (cell,) = leads.cells(ready, [2])
        assert cell.take() > 0
        assert done == ["clear 8", "sweep"] * 2  # it has run once before
        ready.close()
    finally:
        bench.close()
        backend.close()


def test_caches_are_swept_before_each_short_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    backend = HostBackend()
    bench = DeviceBench(backend)
    swept: list[int] = []
    monkeypatch.setattr(
        "planner.engine.calibration.leads.sweep", lambda _address, size: swept.append(size)
    )
    try:
        host, device = bench.pageable(32 * MIB), bench.device(0, 32 * MIB)
        file = tmp_path / "unused"
        stock = Stock(file, host, device, tmp_path, 32 * MIB, bench.pinned(16 * MIB))
        ready = Pipelines(backend, load_machine("h200-sxm-1"), "memory", stock)
        found = leads.cells(ready, [1, 2])
        # 32 MiB are sixteen chunks of 2 MiB at most; the smallest chunk is 1 MiB.
        assert [cell.key for cell in found] == [
            ("lead", "memory", MIB, 2, 1, 4 * MIB),
            ("lead", "memory", MIB, 2, 2, 8 * MIB),
        ]
        assert swept == [16 * MIB] * 2  # each has run once
        seconds = [cell.take() for cell in found]
        assert swept == [16 * MIB] * 4
        assert all(cell.clean for cell in found)
        one = joints(found, leads.LEAD)[0]
        assert (one.copy, one.shape, one.size) == ("memory", Shape(MIB, 2, 1), 4 * MIB)
        assert one.seconds == seconds[0]
        assert joints(found) == []
        ready.close()
    finally:
        bench.close()
        backend.close()
