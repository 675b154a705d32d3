"""Looking at this computer: CUDA without a context, the cache, and parts that fail alone."""

from __future__ import annotations

import ctypes
import json
import sys
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest

from planner.engine import calibrate as calibration, here
from planner.engine.backends import cuda_look
from planner.engine.here import calibrations
from planner.engine.observe import TOPOLOGY, observe
from planner.machine.load import load_machine
from tests.helpers.cuda_library import installed


def fake_cupy(**functions: Any) -> ModuleType:
    """A CuPy of which only the questions exist that need no context."""
    module = ModuleType("cupy")
    vars(module).update(
        __version__="14.2.0", cuda=SimpleNamespace(runtime=SimpleNamespace(**functions))
    )
    return module


def refuse() -> int:
    raise RuntimeError("\n====\ncudaErrorInsufficientDriver: too old\nmore")


@pytest.fixture
def driver(monkeypatch: pytest.MonkeyPatch) -> None:
    """The driver's library is there."""
    monkeypatch.setattr(ctypes, "CDLL", lambda _name: object())


@pytest.mark.usefixtures("driver")
def test_cuda_tells_versions_and_devices(monkeypatch: pytest.MonkeyPatch) -> None:
    cupy = fake_cupy(
        getDeviceCount=lambda: 2, runtimeGetVersion=lambda: 12090, driverGetVersion=lambda: 13000
    )
    monkeypatch.setitem(sys.modules, "cupy", cupy)
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "0,1")
    look = cuda_look.look()
    assert (look.cupy, look.runtime, look.driver, look.devices) == ("14.2.0", 12090, 13000, 2)
    assert (look.no_devices, look.visible) == (None, "0,1")


@pytest.mark.usefixtures("driver")
def test_what_cuda_refuses_is_a_reason(monkeypatch: pytest.MonkeyPatch) -> None:
    cupy = fake_cupy(getDeviceCount=refuse, runtimeGetVersion=refuse, driverGetVersion=refuse)
    monkeypatch.setitem(sys.modules, "cupy", cupy)
    look = cuda_look.look()
    assert (look.devices, look.runtime, look.driver) == (None, None, None)
    assert look.no_devices == "cudaErrorInsufficientDriver: too old"
    monkeypatch.setitem(sys.modules, "cupy", None)  # importing it raises ImportError
    assert "cupy" in (cuda_look.look().no_cupy or "")


def test_the_driver_tells_where_its_devices_are() -> None:
    with installed() as library:  # beside a CuPy that cannot be imported
        assert cuda_look.addresses() == ("0000:0A:00.0", "0000:0B:00.0")
        assert library.retained == []
        library.status["cuDeviceGetCount"] = 999
        assert cuda_look.addresses() == ()


def test_without_the_drivers_library_nothing_is_imported(monkeypatch: pytest.MonkeyPatch) -> None:
    def absent(_name: str) -> object:
        raise OSError

    monkeypatch.setattr(ctypes, "CDLL", absent)
    monkeypatch.setitem(sys.modules, "cupy", None)
    look = cuda_look.look()
    assert (look.driver_library, look.no_cupy) == (False, None)


def test_only_what_is_asked_for_is_looked_at() -> None:
    seen = observe(TOPOLOGY)
    assert seen.about is not None
    assert seen.details is not None
    assert (seen.cuda, seen.strain, seen.scratch, seen.storage) == (None,) * 4
    assert seen.unknown == {}


def test_everything_is_looked_at_here() -> None:
    seen = observe()
    assert seen.unknown == {}
    assert None not in (seen.about, seen.details, seen.cuda, seen.scratch, seen.strain)
    assert seen.strain is not None
    assert seen.strain.allowed_cpus is not None


def test_calibrations_of_other_days_are_told_apart(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PLANNER_CACHE_DIR", str(tmp_path))
    monkeypatch.setattr(calibration, "backend_name", lambda _name: "host")
    assert calibrations("auto") == (None, ())
    machine = load_machine("h200-sxm-1").model_dump(mode="json")
    layout = here.LAYOUT
    body = json.dumps({"calibrated_at_s": 1.0, "machine": machine})
    (tmp_path / f"here-old-host-v{layout}.json").write_text(body)
    body = json.dumps({"calibrated_at_s": 2.0, "machine": machine})
    (tmp_path / f"here-newer-host-v{layout}.json").write_text(body)
    (tmp_path / f"here-broken-host-v{layout}.json").write_text("{")
    (tmp_path / f"here-gpu-cuda-v{layout}.json").write_text(body)  # of the other backend
    now, others = calibrations("auto")
    assert now is None
    assert [other.at_s for other in others] == [2.0, 1.0]
    own = here._path("host")
    own.write_text(json.dumps({"calibrated_at_s": 3.0, "machine": machine}))
    now, others = calibrations("auto")
    assert now is not None
    assert (now.at_s, len(others)) == (3.0, 2)
