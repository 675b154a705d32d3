"""What the cuda backend asks of the driver, by a library that only keeps the books."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from contextlib import closing
from threading import Thread
from types import ModuleType, SimpleNamespace

import pytest

from planner.engine.backends import cuda_present
from planner.engine.backends.base import Engine
from planner.engine.backends.cuda import CudaBackend
from planner.engine.backends.cuda_kernels import imported_cupy
from planner.engine.backends.cuda_library import DriverError
from planner.engine.backends.cuda_present import missing
from planner.engine.serving.bank import Bank
from planner.errors import InfeasibleError, UnavailableError
from tests.helpers.cuda_library import Library, installed
from tests.helpers.devices import holds


@pytest.fixture
def library() -> Iterator[Library]:
    with installed() as found:
        yield found


@pytest.fixture
def backend(library: Library) -> Iterator[CudaBackend]:
    assert library.called == []
    with closing(CudaBackend()) as found:
        yield found


def test_devices_are_described_by_the_driver(
    backend: CudaBackend, library: Library, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(cuda_present, "_CUPY", ("no-such-distribution", "pytest"))
    about = backend.describe([0, 1, 2])
    assert (about.gpus, about.driver) == (("GPU 0", "GPU 1"), "CUDA 13000")
    assert about.libraries == {"cupy": pytest.__version__}
    monkeypatch.setattr(cuda_present, "_CUPY", ("no-such-distribution",))
    assert backend.describe([]).libraries == {}
    assert library.retained == []


def test_a_device_that_is_full_is_told_with_what_is_free(
    backend: CudaBackend, library: Library
) -> None:
    library.status["cuMemAlloc_v2"] = 2
    with pytest.raises(InfeasibleError, match="device 1 has 0 bytes free, not 100"):
        backend.allocate(1, 100)
    library.status["cuMemAlloc_v2"] = 1
    with pytest.raises(DriverError, match="CUDA_ERROR_INVALID_VALUE"):
        backend.allocate(1, 100)


def test_memory_is_given_back_once_and_on_its_device(
    backend: CudaBackend, library: Library
) -> None:
    seen: list[int] = []
    library.at("cuMemFree_v2", lambda: seen.append(library.here()))
    buffer = backend.allocate(1, 0)
    assert ("cuMemAlloc_v2", 0, 1) in library.called  # the driver gives no memory of no bytes
    backend.attach(0)
    backend.release(buffer)
    backend.release(buffer)
    assert seen == [101]


def test_a_device_that_is_asked_for_later_and_is_not_there_is_told(
    backend: CudaBackend, library: Library
) -> None:
    backend.attach(0)
    with pytest.raises(
        UnavailableError, match=r"no device cuda:7 \(.*cuDeviceGet: .*101"
    ) as caught:
        backend.allocate(7, 100)
    assert "nvidia-smi" in str(caught.value.hint)
    library.status["cuDevicePrimaryCtxRetain"] = 2
    with pytest.raises(UnavailableError, match=r"cuda:1 gives no context .*Retain.*\(2\)"):
        backend.attach(1)
    assert library.here() == 100


@pytest.mark.parametrize(("attached", "context"), [(1, 101), (None, 100)])
def test_threads_without_a_context_lock_pages_in_that_of_a_device_in_use(
    attached: int | None, context: int, backend: CudaBackend, library: Library
) -> None:
    seen: list[int] = []
    for name in ("Register_v2", "Unregister", "Alloc"):
        library.at(f"cuMemHost{name}", lambda: seen.append(library.here()))
    library.at("cuMemFreeHost", lambda: seen.append(library.here()))
    if attached is not None:
        backend.attach(attached)

    def work() -> None:
        backend.register(1 << 20, 100)
        backend.unregister(1 << 20)
        backend.combined(100).close()

    thread = Thread(target=work)
    thread.start()
    thread.join()
    assert seen == [context] * 4
    assert holds(backend) == {}
    assert library.retained == [context - 100]  # and on no other device


def test_pages_stay_locked_in_the_context_of_whoever_has_one(
    backend: CudaBackend, library: Library
) -> None:
    backend.driver.set_current(77)
    backend.register(1 << 20, 100, read_only=True)
    assert ("cuMemHostRegister_v2", 1 << 20, 100, 8) in library.called
    assert library.here() == 77
    backend.unregister(1 << 20)
    assert library.retained == []


def test_the_clock_keeps_one_event_of_each_device(backend: CudaBackend, library: Library) -> None:
    for gpu in (0, 1):
        backend.lane(Engine("h2d", gpu), 1).close()
    backend.start_clock()
    assert sorted(library.events.values()) == [100, 101]
    backend.close()
    assert library.events == {}


def test_whatever_is_left_is_given_back_with_the_backend(
    backend: CudaBackend, library: Library
) -> None:
    backend.allocate(0, 10)
    backend.register(1 << 20, 100)
    backend.combined(100)
    backend.open_peer(0, 1)
    backend.close()
    assert holds(backend) == {}
    for name in ("cuMemFree_v2", "cuMemHostUnregister", "cuMemFreeHost"):
        assert library.names().count(name) == 1
    assert library.names().count("cuCtxDisablePeerAccess") == 2


def test_what_the_driver_keeps_holds_up_nothing_else(
    backend: CudaBackend, library: Library
) -> None:
    backend.allocate(0, 10)
    backend.register(1 << 20, 100)
    backend.register(1 << 21, 100)
    backend.combined(100)
    backend.open_peer(0, 1)
    backend.lane(Engine("h2d", 0), 1).close()
    library.status |= {"cuCtxDisablePeerAccess": 700, "cuMemHostUnregister": 700}
    with pytest.raises(DriverError, match="cuMemHostUnregister"):
        backend.close()
    names = library.names()
    assert names.count("cuMemHostUnregister") == names.count("cuCtxDisablePeerAccess") == 2
    assert names.count("cuMemFree_v2") == names.count("cuMemFreeHost") == 1
    assert library.events == {}
    library.status.clear()


def test_a_driver_that_counts_no_devices_is_told(library: Library) -> None:
    assert missing() is None
    library.status["cuDeviceGetCount"] = 999
    assert "shows no device: cuDeviceGetCount" in str(missing())
    library.status["cuDeviceGetCount"] = 3
    assert "forked" in str(missing())


def test_a_forked_process_leaves_the_parents_memory(
    library: Library, monkeypatch: pytest.MonkeyPatch
) -> None:
    with closing(CudaBackend()) as backend:
        bank = Bank(backend)
        memory = bank.allocate(1, 100)
        called = library.names()
        monkeypatch.setattr(os, "getpid", lambda: -1)
        del memory
        assert library.names() == called
        assert bank.live == 1


@pytest.mark.usefixtures("library")
def test_a_module_in_the_place_of_cupy_will_do(monkeypatch: pytest.MonkeyPatch) -> None:
    from importlib.util import find_spec

    monkeypatch.setattr(cuda_present, "find_spec", find_spec)
    assert "CuPy is not installed" in str(missing())  # the fixture has it taken away
    monkeypatch.setitem(sys.modules, "cupy", ModuleType("cupy"))
    assert missing() is None


@pytest.mark.parametrize("before", [0, 77])
def test_the_last_memory_closes_the_backend_and_leaves_the_callers_context(
    library: Library, before: int
) -> None:
    backend = CudaBackend()
    bank = Bank(backend)
    memory = bank.allocate(1, 100)
    backend.open_peer(0, 1)
    backend.driver.set_current(before)
    bank.retire()
    assert holds(backend) != {}
    del memory  # its finaliser closes the backend, in this thread
    assert holds(backend) == {}
    assert library.names().count("cuCtxDisablePeerAccess") == 2
    assert library.here() == before


def test_a_cupy_that_is_too_old_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    old = SimpleNamespace(__version__="13.6.0", cuda=SimpleNamespace(Stream=object))
    monkeypatch.setitem(sys.modules, "cupy", old)
    with pytest.raises(UnavailableError, match=r"CuPy 13\.6\.0 is too old") as caught:
        imported_cupy()
    assert "14.2" in str(caught.value.hint)
