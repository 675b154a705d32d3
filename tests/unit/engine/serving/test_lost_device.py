"""A driver that refuses to take anything back, as it does once a kernel has failed."""

from __future__ import annotations

import gc
from collections.abc import Iterator
from pathlib import Path
from threading import active_count

import pytest

import planner
from planner.engine.backends.base import DeviceBuffer
from planner.engine.backends.cuda_library import DriverError
from planner.engine.backends.host import HostBackend
from planner.engine.serving import loader
from planner.errors import UnavailableError
from tests.helpers.weights import write_weights

MIB = 1 << 20


class Lost(HostBackend):
    """Emulated GPUs that, once `lost`, take nothing back; what they were asked for is counted."""

    def __init__(self, fault: Exception) -> None:
        super().__init__()
        self.fault, self.lost = fault, False
        self.kept: list[DeviceBuffer] = []
        self.registered = self.unregistered = self.closed = 0

    def register(self, address: int, size: int, *, read_only: bool = False) -> None:
        self.registered += 1
        super().register(address, size, read_only=read_only)

    def release(self, buffer: DeviceBuffer) -> None:
        if self.lost:
            self.kept.append(buffer)
            raise self.fault
        super().release(buffer)

    def unregister(self, address: int) -> None:
        self.unregistered += 1
        super().unregister(address)
        if self.lost:
            raise self.fault

    def close(self) -> None:
        self.closed += 1
        super().close()
        if self.lost:
            raise self.fault


@pytest.fixture(
    params=[
        DriverError("cuMemFree: CUDA_ERROR_ILLEGAL_ADDRESS (700)", 700),
        UnavailableError("cuda:0 gives no context"),  # which it takes to free its memory
    ]
)
def backend(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, request: pytest.FixtureRequest
) -> Iterator[Lost]:
    """The backend of every loader."""
    monkeypatch.setenv("PLANNER_CACHE_DIR", str(tmp_path / "cache"))
    found = Lost(request.param)
    monkeypatch.setattr(loader, "open_for", lambda _name, _gpu: found)
    threads = active_count()
    yield found
    gc.collect()
    assert active_count() == threads
    found.lost = False
    for buffer in found.kept:
        found.release(buffer)


def test_a_pool_ends_though_the_driver_refuses_and_nothing_is_raised_where_nobody_hears(
    backend: Lost, tmp_path: Path
) -> None:
    # Errors of threads and of finalisers would fail this test: they are warnings to pytest.
    path = tmp_path / "m.safetensors"
    write_weights(path, [("a", "U8", (9 * MIB,))])
    with planner.Loader(backend="host") as pool:
        found = pool.load(path)
        assert backend.registered > 1
        backend.lost = True
    assert (
        backend.unregistered == backend.registered
    )  # all of the ring was tried, not the first slot alone
    assert backend.closed == 0  # a tensor still lives in its memory
    del found
    gc.collect()
    assert len(backend.kept) == 1
    assert backend.closed == 1


def test_a_refusal_hides_no_other_fault(backend: Lost, tmp_path: Path) -> None:
    path = tmp_path / "m.safetensors"
    write_weights(path, [("a", "U8", (9 * MIB,))])
    with planner.Loader(backend="host") as pool:
        found = pool.load(path)
        backend.lost = True
        del found
        gc.collect()
        path.write_bytes(path.read_bytes()[: 8 * MIB])
        with pytest.raises(planner.InputError, match=r"m\.safetensors"):
            pool.load(path)
        backend.lost = False
