"""The cold start: reads before the device is open, and a CUDA context by the driver alone."""

from __future__ import annotations

import ctypes
import os
import sys
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from threading import Event
from types import SimpleNamespace
from typing import Any, Final, cast

import pytest

import planner
from planner.engine import files
from planner.engine.backends import cuda_driver, cuda_foreign, cuda_present
from planner.engine.backends.cuda import CudaBackend
from planner.engine.backends.cuda_library import DriverError
from planner.engine.backends.host import HostBackend
from planner.engine.serving import loader, opening
from planner.errors import InputError, UnavailableError
from tests.helpers.cuda_library import PINNED, Library, installed
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


@pytest.fixture
def library() -> Iterator[Library]:
    with installed() as found:
        yield found


def test_a_device_is_opened_with_its_context_by_the_driver_alone(library: Library) -> None:
    backend = opening.open_for("cuda", 1)
    assert library.retained == [1]
    assert library.here() == 101
    backend.attach(1)
    backend.close()
    # Other libraries go on using it: the process keeps it.
    assert library.retained == [1]
    assert not any("Release" in name for name in library.names())


def test_the_driver_is_told_of_streams_before_it_starts(
    library: Library, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("CUDA_DEVICE_MAX_CONNECTIONS")
    seen: list[str | None] = []
    library.at("cuInit", lambda: seen.append(os.getenv("CUDA_DEVICE_MAX_CONNECTIONS")))
    opening.open_for("cuda", 0).close()
    assert seen == ["32"]


def test_a_device_that_is_not_there_is_told_with_the_drivers_code(library: Library) -> None:
    with pytest.raises(UnavailableError, match=r"no device cuda:7.*101") as caught:
        opening.open_for("cuda", 7)
    assert "cpu" in str(caught.value.hint)
    assert library.retained == []


def test_a_device_that_gives_no_context_is_told(library: Library) -> None:
    library.status["cuDevicePrimaryCtxRetain"] = 2
    with pytest.raises(UnavailableError, match=r"cuda:0 gives no context.*Retain.*\(2\)"):
        opening.open_for("cuda", 0)


def test_a_driver_without_devices_is_told_with_another_way(library: Library) -> None:
    library.status["cuInit"] = 100
    with pytest.raises(UnavailableError, match=r"shows no device: cuInit: .*100") as caught:
        opening.open_for("cuda", 0)
    assert "cpu" in str(caught.value.hint)


def test_a_missing_driver_is_told_with_another_way(monkeypatch: pytest.MonkeyPatch) -> None:
    def absent(_name: str) -> Any:
        raise OSError("libcuda.so.1: cannot open shared object file")

    monkeypatch.setattr(ctypes, "CDLL", absent)
    cuda_driver.driver.cache_clear()
    with pytest.raises(UnavailableError, match="libcuda") as caught:
        opening.open_for("cuda", 0)
    assert "cpu" in str(caught.value.hint)


def test_a_broken_driver_is_told_in_the_loaders_words(monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(_name: str) -> Any:
        raise OSError("libcuda.so.1: file too short")

    monkeypatch.setattr(ctypes, "CDLL", broken)
    cuda_driver.driver.cache_clear()
    with pytest.raises(UnavailableError, match=r"cannot be loaded: .*file too short"):
        opening.open_for("cuda", 0)


def test_loads_go_without_cupy_and_plans_do_not(
    library: Library, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(cuda_present, "find_spec", lambda _name: None)
    with pytest.raises(UnavailableError, match="CuPy is not installed; install the extra cuda12"):
        CudaBackend()
    assert library.retained == []
    opening.open_for("cuda", 0).close()
    assert library.retained == [0]


def test_a_cupy_that_is_broken_is_told_where_a_kernel_is_made(library: Library) -> None:
    backend = opening.open_for("cuda", 0)
    with pytest.raises(UnavailableError, match="CuPy cannot be imported"):
        backend.compile(0)
    with pytest.raises(UnavailableError, match="CuPy cannot be imported"):
        backend.compute(0, lambda: None)
    backend.close()
    assert library.retained == [0]


@pytest.mark.usefixtures("library")
def test_a_cupy_that_breaks_in_its_own_way_is_told_likewise(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "cupy.py").write_text('raise ValueError("numpy.dtype size changed")')
    monkeypatch.delitem(sys.modules, "cupy")
    monkeypatch.syspath_prepend(tmp_path)
    with closing(opening.open_for("cuda", 0)) as backend:
        with pytest.raises(UnavailableError, match=r"numpy\.dtype size changed") as caught:
            backend.compile(0)
        assert "--backend host" in str(caught.value.hint)


def test_the_callers_context_is_current_again(library: Library) -> None:
    for before in (0, 77):  # 0: a thread that has none gets none
        cuda_driver.driver().set_current(before)
        with cuda_foreign.current(1):
            assert library.here() == 101
        assert library.here() == before
    with cuda_foreign.kept_device():
        pass
    assert library.retained == [1]


def test_a_mark_lives_on_its_device_until_nobody_has_it(library: Library) -> None:
    event = cuda_foreign.mark(1, 55)
    assert library.events == {event.handle: 101}
    assert ("cuEventRecord", event.handle, 55) in library.called
    lane = SimpleNamespace(_ptr=66, engine=SimpleNamespace(gpu=1))
    cuda_foreign.follow(cast("Any", lane), event)
    assert ("cuStreamWaitEvent", 66, event.handle, 0) in library.called
    del event
    assert library.events == {}


def test_a_stream_of_no_device_of_the_transfer_is_told(library: Library) -> None:
    library.status["cuEventRecord"] = 400
    with pytest.raises(InputError, match="none of the devices"):
        cuda_foreign.mark_any([0, 1, 0], 55)
    assert library.names().count("cuEventRecord") == 2
    assert library.events == {}


def test_a_default_stream_that_waits_has_a_context(library: Library) -> None:
    seen: list[int] = []
    library.at("cuStreamWaitEvent", lambda: seen.append(library.here()))
    lane: Any = SimpleNamespace(_ptr=66, engine=SimpleNamespace(gpu=1))
    cuda_driver.driver().set_current(0)
    cuda_foreign.hand_over([lane], 0)
    assert library.here() == 0
    cuda_driver.driver().set_current(77)
    cuda_foreign.hand_over([lane], 0)
    assert library.here() == 77
    assert seen == [101, 77]


def test_pointers_that_the_driver_does_not_know_are_ordinary_memory(library: Library) -> None:
    assert not cuda_foreign.is_pinned(4096 * 4096, 1)
    assert cuda_foreign.is_pinned(PINNED, 1)
    assert not cuda_foreign.is_pinned(PINNED, 2)  # its last byte is not
    assert cuda_driver.driver().pointer(PINNED).on_device == PINNED + 1
    library.status["cuPointerGetAttributes"] = 1
    assert not cuda_foreign.is_pinned(PINNED, 1)
    assert cuda_foreign.device_of(0) == 0
    with pytest.raises(InputError, match="no GPU's memory"):
        cuda_foreign.device_of(PINNED)
    library.status["cuPointerGetAttributes"] = 4
    with pytest.raises(DriverError, match="cuPointerGetAttributes"):
        cuda_foreign.is_pinned(PINNED, 1)


def test_a_transfer_that_gets_no_context_is_told(
    library: Library, monkeypatch: pytest.MonkeyPatch
) -> None:
    class There:
        __cuda_array_interface__: Final = {
            "shape": (8,), "typestr": "|u1", "data": (PINNED, False), "version": 3
        }  # fmt: skip

    monkeypatch.setattr(cuda_foreign, "device_of", lambda _address: 1)
    library.status["cuDevicePrimaryCtxRetain"] = 2
    told = r"no work: cuDevicePrimaryCtxRetain.*\(2\)"
    with planner.Loader() as pool, pytest.raises(UnavailableError, match=told):
        pool.transfer(bytearray(8), There())


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
