"""Calibrations of real GPUs: in time, and with every curve that the model reads."""

from __future__ import annotations

from pathlib import Path
from time import perf_counter

import pytest

from planner.engine.calibrate import calibrate
from planner.machine.schema import Hbm, Ram

cupy = pytest.importorskip("cupy", reason="the cuda backend needs CuPy")
pytestmark = pytest.mark.gpu


def test_a_quick_calibration_takes_less_than_thirteen_seconds(tmp_path: Path) -> None:
    begun = perf_counter()
    machine = calibrate(backend="cuda", scratch=tmp_path)
    assert perf_counter() - begun < 13
    assert not machine.emulated
    assert list(tmp_path.iterdir()) == []


def test_a_full_calibration_has_every_curve_and_takes_less_than_three_minutes(
    tmp_path: Path,
) -> None:
    begun = perf_counter()
    machine = calibrate(backend="cuda", scratch=tmp_path, full=True)
    assert perf_counter() - begun < 180
    forward, backward = machine.links["pcie0"].forward, machine.links["pcie0"].backward
    assert forward is not None
    assert backward is not None
    both = {"pinned", "pageable", "pageable_hot", "zero_copy"}
    assert both | {"managed_fault", "managed_prefetch"} <= set(forward.curves)
    assert both <= set(backward.curves)
    assert forward.requests is not None
    # PCIe carries 64-byte sectors at 0.1 to 2 G requests a second on anything with a Hopper GPU.
    assert 1e8 < forward.requests < 2e9
    host, gpu = machine.nodes["host0"], machine.nodes["gpu0"]
    assert isinstance(host, Ram)
    assert isinstance(gpu, Hbm)
    assert gpu.uuid is not None
    assert gpu.context > 0
    assert host.setup.host_alloc is not None
    assert host.write_combined is not None
    assert machine.hardware["driver"]
    for copy in ("file", "memory", "save_memory"):
        leads = host.copy_rates[copy].lead
        assert leads is not None
        # Threads are awake within a millisecond each; a short run may hide what few take.
        assert 0 <= leads[-1] < 1e-3 * host.cores
        assert list(leads) == sorted(leads)
    if host.register_ahead is not None:
        assert host.register_ahead.overhead < 10e-3
    link = machine.links["pcie0"]
    if link.generation is not None and link.max_generation is not None:
        # Asked under load: an idle link would show its slowest generation.
        assert link.generation > 1 or link.max_generation == 1
    for name, other in machine.links.items():
        if name.startswith("nvlink") and other.peer_access:
            assert other.forward is not None
            apart, peer = other.forward.curves["peer_off"], other.forward.curves["peer"]
            # With access no copy goes through the host.
            assert peer.rate > apart.rate
