"""Parts of the cuda backend that need no GPU: what they ask of the driver, what they conclude."""

from __future__ import annotations

import sys
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest

from planner.engine.backends import cuda_storage
from planner.engine.backends.base import DeviceBuffer
from planner.engine.backends.cuda_library import DriverError
from planner.engine.backends.cuda_managed import CudaManaged
from planner.engine.backends.cuda_peer import Peers
from planner.engine.memory import HostBuffer


class Driver:
    """A driver that keeps a book of peer access, and logs what moves managed memory."""

    def __init__(self, *, reach: bool = True, concurrent: int = 1) -> None:
        self.reach, self.concurrent = reach, concurrent
        self.on: set[tuple[int, int]] = set()
        self.gpu = 0
        self.calls: list[tuple[Any, ...]] = []

    def reaches(self, _gpu: int, _peer: int) -> bool:
        return self.reach

    def enable_peer(self, peer: int) -> None:
        if (self.gpu, peer) in self.on:
            raise DriverError("cuCtxEnablePeerAccess", 704)
        self.on.add((self.gpu, peer))

    def disable_peer(self, peer: int) -> None:
        if (self.gpu, peer) not in self.on:
            raise DriverError("cuCtxDisablePeerAccess", 705)
        self.on.remove((self.gpu, peer))

    def attribute(self, _which: int, _gpu: int) -> int:
        return self.concurrent

    def prefetch(self, *words: int) -> None:
        self.calls.append(("prefetch", *words))

    def advise(self, *words: int) -> None:
        self.calls.append(("advise", *words))

    def wait_stream(self, _stream: int) -> None:
        self.calls.append(("wait", self.gpu))


class Owner:
    """A backend of such a driver."""

    def __init__(self, driver: Driver) -> None:
        self.driver: Any = driver

    def attach(self, gpu: int) -> None:
        self.driver.gpu = gpu

    def when(self, gpu: int, event: int) -> float:
        raise NotImplementedError


def test_peer_access_is_opened_both_ways_and_closed_again() -> None:
    driver = Driver()
    peers = Peers(Owner(driver))
    assert not peers.is_open(0, 1)
    peers.open(0, 1)
    assert driver.on == {(0, 1), (1, 0)}
    peers.open(0, 1)  # a second flow: nothing to do, and nothing more to undo
    assert peers.is_open(1, 0)
    peers.close()
    assert driver.on == set()


def test_peer_access_that_was_on_before_stays_on() -> None:
    driver = Driver()
    driver.on = {(0, 1)}
    peers = Peers(Owner(driver))
    assert peers.is_open(0, 1)
    assert driver.on == {(0, 1)}
    peers.open(0, 1)
    peers.close()
    assert driver.on == {(0, 1)}


def test_somebody_else_may_have_closed_it_meanwhile() -> None:
    driver = Driver()
    peers = Peers(Owner(driver))
    peers.open(0, 1)
    driver.on.clear()
    peers.close()
    assert driver.on == set()


def test_gpus_that_cannot_reach_each_other_are_named() -> None:
    peers = Peers(Owner(Driver(reach=False)))
    assert peers.missing([0]) is None
    assert peers.missing([0, 1]) == "device 0 has no peer access to device 1"
    assert not peers.is_open(0, 1)


def test_managed_memory_goes_to_devices_and_to_the_host() -> None:
    driver = Driver()
    managed, buffer = CudaManaged(Owner(driver)), HostBuffer(100)
    at = buffer.address
    managed.add(DeviceBuffer(3, at, 100))
    assert at in managed
    assert managed.missing(0) is None
    managed.bring(buffer, 2)
    managed.bring(buffer, None)
    managed.keep_on_host(buffer, 1)
    assert driver.calls == [
        ("prefetch", at, 100, 2, 0),
        ("wait", 2),
        ("prefetch", at, 100, -1, 0),  # the host is minus one
        ("wait", 3),  # in the stream of the device that the memory was allocated on
        ("advise", at, 100, 3, -1),  # CU_MEM_ADVISE_SET_PREFERRED_LOCATION
        ("advise", at, 100, 5, 1),  # CU_MEM_ADVISE_SET_ACCESSED_BY
    ]
    managed.forget(DeviceBuffer(3, at, 100))
    assert at not in managed
    buffer.close()


def test_devices_that_cannot_share_managed_memory_are_told() -> None:
    managed = CudaManaged(Owner(Driver(concurrent=0)))
    assert "at the same time" in str(managed.missing(0))


def _kvikio(monkeypatch: pytest.MonkeyPatch, mode: object, *, real: bool) -> None:
    """A KvikIO that is in a mode, above a cuFile that is real or not."""
    defaults, driver = ModuleType("kvikio.defaults"), ModuleType("kvikio.cufile_driver")
    defaults.__dict__["get"] = {"compat_mode": mode}.get
    driver.__dict__["get"] = {"is_gds_available": real}.get
    package = ModuleType("kvikio")
    package.__dict__.update(defaults=defaults, cufile_driver=driver)
    for name, module in (("", package), (".defaults", defaults), (".cufile_driver", driver)):
        monkeypatch.setitem(sys.modules, f"kvikio{name}", module)


def test_storage_is_waived_with_what_is_missing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(cuda_storage, "DRIVER", tmp_path / "none")
    assert "module nvidia-fs" in str(cuda_storage.no_storage())
    monkeypatch.setattr(cuda_storage, "DRIVER", tmp_path)
    monkeypatch.setitem(sys.modules, "kvikio", None)
    assert "KvikIO is not installed" in str(cuda_storage.no_storage())
    _kvikio(monkeypatch, SimpleNamespace(name="ON"), real=True)
    assert "compatibility mode" in str(cuda_storage.no_storage())
    _kvikio(monkeypatch, SimpleNamespace(name="AUTO"), real=False)
    assert "compatibility mode" in str(cuda_storage.no_storage())
    _kvikio(monkeypatch, SimpleNamespace(name="AUTO"), real=True)
    assert cuda_storage.no_storage() is None


def test_lent_memory_is_used_like_any_other_and_given_back_once() -> None:
    from planner.engine.memory import LentBuffer, Ring

    owner = HostBuffer(3 * 4096)
    given: list[int] = []
    ring = Ring(
        3, 1, 4096, lambda size: LentBuffer(owner.address, size, lambda: given.append(size))
    )
    ring.touch(2)
    ring.views(1)[0][:4] = b"abcd"
    assert bytes(owner.view[4096:4100]) == b"abcd"
    ring.buffer.fill(7)
    assert set(owner.array.tolist()) == {7}
    assert bytes(ring.buffer.around(8190, 2)) == b"\x07\x07"
    ring.close()
    ring.close()
    assert given == [3 * 4096]
    owner.close()
