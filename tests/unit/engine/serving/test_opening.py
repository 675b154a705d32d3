"""The cold start: reads before the device is open, and a CUDA context by the driver alone."""

from __future__ import annotations

import ctypes
import sys
from collections.abc import Iterator
from pathlib import Path
from threading import Event, get_ident
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest

import planner
from planner.engine import files
from planner.engine.backends import cuda_context, cuda_foreign
from planner.engine.backends.host import HostBackend
from planner.engine.serving import loader, opening
from planner.errors import InputError, UnavailableError
from tests.helpers.weights import write_weights


def test_reads_begin_before_the_device_is_open(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "m.safetensors"
    held = write_weights(path, [("a", "U8", (1_000_000,))])
    read = Event()
    real = files.preadv

    def told(*given: Any) -> int:
        found = real(*given)
        read.set()
        return found

    def slow(_name: str, _gpu: int) -> HostBackend:
        assert read.wait(30), "nobody read while the device was opened"
        return HostBackend()

    monkeypatch.setattr(files, "preadv", told)
    monkeypatch.setattr(loader, "open_for", slow)
    with planner.Loader(backend="host") as pool:
        found = pool.load(path, cache="warm")
        assert found["a"].numpy().tobytes() == held["a"].tobytes()
        del found


def test_a_device_that_cannot_be_opened_ends_the_load_and_may_come_later(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "m.safetensors"
    held = write_weights(path, [("a", "U8", (1_000_000,))])

    def absent(_name: str, _gpu: int) -> HostBackend:
        raise UnavailableError("there is no device cuda:0")

    monkeypatch.setattr(loader, "open_for", absent)
    with planner.Loader(backend="host") as pool:
        with pytest.raises(UnavailableError, match="no device cuda:0"):
            pool.load(path)
        monkeypatch.setattr(loader, "open_for", lambda _name, _gpu: HostBackend())
        found = pool.load(path)
        assert found["a"].numpy().tobytes() == held["a"].tobytes()
        del found


class Driver:
    """Stands in for libcuda: two devices; counts who holds a context."""

    def __init__(self) -> None:
        self.held: list[int] = []
        self.thread = 0

    def cuInit(self, flags: int) -> int:  # noqa: N802 - the driver's names
        self.thread = get_ident()
        return flags

    def cuDeviceGet(self, device: Any, index: int) -> int:  # noqa: N802
        if index > 1:
            return 101  # CUDA_ERROR_INVALID_DEVICE
        device._obj.value = index
        return 0

    def cuDevicePrimaryCtxRetain(self, _context: Any, device: Any) -> int:  # noqa: N802
        self.held.append(device.value)
        return 0

    def cuDevicePrimaryCtxRelease_v2(self, device: Any) -> int:  # noqa: N802
        self.held.remove(device.value)
        return 0


@pytest.fixture
def driver(monkeypatch: pytest.MonkeyPatch) -> Iterator[Driver]:
    found = Driver()
    monkeypatch.setattr(ctypes, "CDLL", lambda _name: found)
    monkeypatch.delenv("CUDA_DEVICE_MAX_CONNECTIONS", raising=False)
    monkeypatch.setenv("CUDA_DEVICE_MAX_CONNECTIONS", "8")
    yield found
    assert found.held == []


def test_the_context_is_held_until_it_is_let_go(driver: Driver) -> None:
    let_go = cuda_context.hold_context(1)
    assert driver.held == [1]
    let_go()
    assert driver.held == []


def test_a_device_that_is_not_there_is_told_with_the_drivers_code(driver: Driver) -> None:
    with pytest.raises(UnavailableError, match=r"no device cuda:7.*101"):
        cuda_context.hold_context(7)
    assert driver.held == []


def test_a_missing_driver_is_told_with_another_way(monkeypatch: pytest.MonkeyPatch) -> None:
    def absent(_name: str) -> Any:
        raise OSError("libcuda.so.1: cannot open shared object file")

    monkeypatch.setattr(ctypes, "CDLL", absent)
    with pytest.raises(UnavailableError, match="libcuda") as caught:
        cuda_context.hold_context(0)
    assert "cpu" in str(caught.value.hint)


class Backend:
    """Stands in for the cuda backend; notes whether the context was held when it attached."""

    emulated = False

    def __init__(self, driver: Driver) -> None:
        self._driver = driver
        self.attached: list[tuple[int, list[int]]] = []
        self.closed = False

    def attach(self, gpu: int) -> None:
        self.attached.append((gpu, list(self._driver.held)))

    def close(self) -> None:
        self.closed = True


def _module(monkeypatch: pytest.MonkeyPatch, make: Any) -> None:
    module = ModuleType("planner.engine.backends.cuda")
    module.CudaBackend = make  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "planner.engine.backends.cuda", module)


def test_the_context_is_made_on_another_thread_and_handed_over(
    driver: Driver, monkeypatch: pytest.MonkeyPatch
) -> None:
    _module(monkeypatch, lambda: Backend(driver))
    found: Any = opening.open_for("cuda", 1)
    assert found.attached == [(1, [1])]  # the runtime took the context before it was let go
    assert driver.thread != get_ident()


def test_a_context_that_cannot_be_made_closes_the_backend(
    driver: Driver, monkeypatch: pytest.MonkeyPatch
) -> None:
    backend = Backend(driver)
    _module(monkeypatch, lambda: backend)
    with pytest.raises(UnavailableError, match="no device cuda:7"):
        opening.open_for("cuda", 7)
    assert backend.closed


def test_a_backend_that_is_missing_lets_the_context_go(
    driver: Driver, monkeypatch: pytest.MonkeyPatch
) -> None:
    def absent() -> Backend:
        raise UnavailableError("CuPy cannot be imported")

    _module(monkeypatch, absent)
    with pytest.raises(UnavailableError, match="CuPy"):
        opening.open_for("cuda", 0)
    assert driver.held == []


@pytest.mark.parametrize(
    ("stream", "wanted"),
    [
        (0, 0),
        (1, 1),
        (SimpleNamespace(ptr=77), 77),
        (SimpleNamespace(cuda_stream=78), 78),
        (SimpleNamespace(__cuda_stream__=lambda: (0, 79)), 79),
    ],
)
def test_streams_of_all_libraries_have_a_handle(stream: Any, wanted: int) -> None:
    assert cuda_foreign.stream_pointer(stream) == wanted


@pytest.mark.parametrize("thing", [True, "0", None, object()])
def test_what_is_no_stream_is_told(thing: Any) -> None:
    with pytest.raises(InputError, match="no CUDA stream"):
        cuda_foreign.stream_pointer(thing)


@pytest.mark.parametrize(
    ("device", "wanted"),
    [("cuda:0", 0), ("cuda:3", 3), ("cuda", 0), (2, 2), ("cpu", None), (None, None)],
)
def test_devices_have_an_index(device: Any, wanted: int | None) -> None:
    assert opening.device_index(device) == wanted


@pytest.mark.parametrize("device", ["cuda:x", "gpu0", -1, True, 1.5, "cuda:-1"])
def test_what_is_no_device_is_told(device: Any) -> None:
    with pytest.raises(InputError, match="no device"):
        opening.device_index(device)
