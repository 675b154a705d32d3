"""A calibration of this computer: complete, measured here, quick, and tidy."""

from __future__ import annotations

import sys
import threading
from pathlib import Path
from time import perf_counter

import pytest

from planner.engine import calibrate as module
from planner.engine.calibrate import backend_name, calibrate
from planner.errors import UnavailableError
from planner.machine.dump import dump_machine
from planner.machine.load import load_machine
from planner.machine.schema import Hbm, Machine, Ram
from planner.plan.schema import Flow, Plan


@pytest.fixture(scope="module")
def measured(tmp_path_factory: pytest.TempPathFactory) -> tuple[Machine, Path, float]:
    """A machine with two emulated GPUs, the scratch folder, and how long it took."""
    folder = tmp_path_factory.mktemp("scratch")
    begun = perf_counter()
    machine = calibrate(backend="host", emulate_gpus=2, scratch=folder, seconds=2.0)
    return machine, folder, perf_counter() - begun


def test_it_has_every_place_and_link(measured: tuple[Machine, Path, float]) -> None:
    machine, folder, _ = measured
    assert list(machine.nodes) == ["disk0", "host0", "gpu0", "gpu1"]
    assert list(machine.links) == ["storage0", "pcie0", "pcie1", "nvlink0"]
    assert machine.emulated
    assert all(n.emulated for n in machine.nodes.values() if isinstance(n, Hbm))
    assert machine.nodes["disk0"].path == str(folder)  # type: ignore[union-attr]
    host = machine.nodes["host0"]
    assert isinstance(host, Ram)
    assert set(host.copy_rates) == {"file", "memory", "save", "save_memory"}
    for table in host.copy_rates.values():
        assert table.beside_dma is not None
        assert all(share > 0 for share in table.beside_dma)
    for link in ("pcie0", "pcie1"):
        for direction in (machine.links[link].forward, machine.links[link].backward):
            assert direction is not None
            assert {"pinned", "pageable", "pageable_hot"} <= set(direction.curves)
            assert all(curve.spread is not None for curve in direction.curves.values())


def test_every_number_is_measured_here(measured: tuple[Machine, Path, float]) -> None:
    (source,) = measured[0].sources.values()
    assert source.kind == "measured"
    assert source.by == "planner calibrate"
    assert source.samples is not None
    assert source.samples >= 1
    assert source.spread is not None


def test_it_reads_back_from_a_file(measured: tuple[Machine, Path, float], tmp_path: Path) -> None:
    path = tmp_path / "here.yaml"
    path.write_text(dump_machine(measured[0]), encoding="utf-8")
    assert load_machine(str(path)) == measured[0]


def test_it_predicts_a_load(measured: tuple[Machine, Path, float]) -> None:
    from planner.model.estimate import estimate

    flow = Flow.model_validate({"from": "disk0", "to": "gpu0", "size": "1GB", "cache": "warm"})
    plan = Plan.model_validate({"version": 1, "name": "x", "flows": {"load": flow}})
    found = estimate(plan, measured[0]).flows[0]
    # Memory moves at 0.5 to 500 GB/s on anything that runs this.
    assert 1 / 500 < found.steady_s < 1 / 0.5


def test_nothing_is_left_behind(measured: tuple[Machine, Path, float]) -> None:
    assert list(measured[1].iterdir()) == []
    assert not [t for t in threading.enumerate() if "calibration" in t.name]


def test_an_interrupt_leaves_nothing_behind(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def interrupt(*_args: object, **_options: object) -> None:
        raise KeyboardInterrupt

    before = sys.getswitchinterval()
    monkeypatch.setattr(module, "_measure", interrupt)
    with pytest.raises(KeyboardInterrupt):
        calibrate(backend="host", scratch=tmp_path, seconds=1.0)
    assert list(tmp_path.iterdir()) == []
    assert sys.getswitchinterval() == before
    assert not [t for t in threading.enumerate() if "calibration" in t.name]


def test_without_a_device_auto_is_the_host_and_cuda_is_refused(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(module, "missing", lambda: "there is no GPU")
    assert backend_name("auto") == "host"
    with pytest.raises(UnavailableError, match="there is no GPU"):
        backend_name("cuda")
    monkeypatch.setattr(module, "missing", lambda: None)
    assert backend_name("auto") == "cuda"
    with pytest.raises(UnavailableError, match="emulated GPUs"):
        calibrate(backend="cuda", emulate_gpus=2)
