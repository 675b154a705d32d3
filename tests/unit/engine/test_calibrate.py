"""A calibration of this computer: complete, measured here, quick, and tidy."""

from __future__ import annotations

import sys
import threading
from dataclasses import replace
from pathlib import Path
from time import perf_counter

import pytest

from planner.engine import calibrate as module
from planner.engine.calibrate import backend_name, calibrate, recalibrate_link
from planner.engine.calibration.ledger import Ledger
from planner.engine.calibration.rounds import Cell
from planner.engine.calibration.scope import FULL, QUICK
from planner.errors import InputError, UnavailableError
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
            # One sample has no spread, and none is no spread of zero.
            assert all(curve.spread != 0 for curve in direction.curves.values())


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
    monkeypatch.setattr(module, "_sample", interrupt)
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


def test_a_full_one_measures_more_and_can_be_gone_on_with(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # All cells of a full one, each as short as it can be.
    brief = replace(
        FULL,
        slice_s=0.01,
        read_s=0.01,
        duplex_s=0.01,
        joint=16 << 20,
        stock_few=64 << 20,
        stock=64 << 20,
    )
    monkeypatch.setattr(module, "FULL", brief)
    path = tmp_path / "unfinished.json"
    scratch = tmp_path / "scratch"
    scratch.mkdir()
    ledger = Ledger.open(path, "here")
    # No time at all: only what every prediction needs, once.
    machine = calibrate(backend="host", scratch=scratch, seconds=0.1, full=True, ledger=ledger)
    (source,) = machine.sources.values()
    assert source.by == "planner calibrate --full"
    pinned = machine.links["pcie0"].forward.curves["pinned"]  # type: ignore[union-attr]
    assert len(pinned.queued) > len(QUICK.queued)
    host = machine.nodes["host0"]
    assert isinstance(host, Ram)
    assert host.issue > 0
    assert list(scratch.iterdir()) == []

    # A second one finds everything in the file, and comes to the same machine without sampling.
    again = Ledger.open(path, "here")
    assert list(again.groups) == list(ledger.groups)
    monkeypatch.setattr(Cell, "take", lambda *_: pytest.fail("a sample was taken"))
    same = calibrate(backend="host", scratch=scratch, seconds=9.0, full=True, ledger=again)
    assert same.nodes == machine.nodes
    assert same.links == machine.links


def test_one_link_is_measured_again_and_the_others_are_kept(
    measured: tuple[Machine, Path, float], tmp_path: Path
) -> None:
    machine = measured[0]
    found = recalibrate_link(machine, "host0->gpu1", backend="host", scratch=tmp_path)
    assert found.links["pcie1"] != machine.links["pcie1"]
    assert found.links["pcie1"].source == "pcie1 again"
    assert found.sources["pcie1 again"].when >= found.sources["calibration"].when
    assert found.sources["calibration"] == machine.sources["calibration"]
    assert found.nodes == machine.nodes
    for name in ("storage0", "pcie0", "nvlink0"):
        assert found.links[name] == machine.links[name]
    path = tmp_path / "again.yaml"
    path.write_text(dump_machine(found), encoding="utf-8")
    assert load_machine(str(path)) == found
    with pytest.raises(InputError, match="no measured link"):
        recalibrate_link(machine, "host0->gpu7", backend="host", scratch=tmp_path)
