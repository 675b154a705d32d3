"""The driver's copies as runs: in which state each run finds its bytes, and its engines."""

from __future__ import annotations

from contextlib import ExitStack

import pytest

from planner.engine.awake import Waker
from planner.engine.backends.host import HostBackend
from planner.engine.calibration.device import DeviceBench
from planner.engine.calibration.first import SIZE
from planner.engine.calibration.once import FEW_IN_A_ROW
from planner.engine.calibration.pageable import Pageable
from tests.helpers.machines import one_gpu

KIB, MIB = 1 << 10, 1 << 20


@pytest.mark.parametrize("way", ["h2d", "d2h"])
def test_runs_move_their_bytes_cold_and_hot(way: str, monkeypatch: pytest.MonkeyPatch) -> None:
    backend = HostBackend()
    bench = DeviceBench(backend, 1)
    swept: list[int] = []
    woken: list[int] = []
    monkeypatch.setattr(
        "planner.engine.calibration.pageable.sweep", lambda _at, size: swept.append(size)
    )
    monkeypatch.setattr(Waker, "__call__", lambda _waker, engines: woken.append(len(engines)))
    undo = ExitStack()
    try:
        host, device, through = bench.pageable(MIB), bench.device(0, MIB), bench.pinned(MIB)
        made = Pageable(bench, one_gpu(), 0, host, device, through, undo)
        found = list(made.cells("h2d" if way == "h2d" else "d2h", (MIB, 4 * MIB), (64 * KIB,)))
        name = f"{way}_pageable0"
        # 4 MiB fit into neither buffer.
        keys = [(name, "alone", MIB), (f"{name}_hot", "alone", 64 * KIB), ("idle", name, SIZE)]
        assert [cell.key for cell in found] == keys
        cold, hot, idle = found
        source, target = (host, device) if way == "h2d" else (device, host)
        assert source.view is not None
        assert target.view is not None
        source.view[:] = bytes([5]) * MIB
        assert cold.take() > 0
        assert bytes(target.view) == bytes([5]) * MIB
        # A sample of so few bytes is the middle of a few runs, each behind a sweep.
        assert swept == [MIB] * FEW_IN_A_ROW
        assert hot.take() > 0
        assert bytes(target.view[: 64 * KIB]) == bytes(source.view[: 64 * KIB])
        # What is hot was written just before, and everything else was swept before that.
        assert (way == "d2h") == (bytes(source.view[: 64 * KIB]) == bytes([5]) * 64 * KIB)
        assert swept == [MIB] * 2 * FEW_IN_A_ROW
        assert woken == [1] * 2 * FEW_IN_A_ROW
        # The run after a pause finds its engine asleep.
        assert idle.take() > 0
        assert woken == [1] * 2 * FEW_IN_A_ROW
    finally:
        undo.close()
        bench.close()
        backend.close()
