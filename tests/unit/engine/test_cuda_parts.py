"""Parts of the cuda backend that need no GPU: what they ask of the driver, what they conclude."""

from __future__ import annotations

import sys
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest

from planner.engine.backends import cuda_storage
from planner.engine.backends.cuda_managed import CudaManaged, Host
from planner.engine.backends.cuda_peer import Peers
from planner.engine.memory import HostBuffer


class RuntimeFaultError(RuntimeError):
    """What CuPy raises: the driver's number is its `status`."""

    def __init__(self, status: int) -> None:
        super().__init__(f"error {status}")
        self.status = status


class Driver:
    """A runtime that keeps a book of peer access, and logs what moves managed memory."""

    CUDARuntimeError = RuntimeFaultError

    def __init__(self, *, reach: bool = True, concurrent: int = 1) -> None:
        self.reach, self.concurrent = reach, concurrent
        self.on: set[tuple[int, int]] = set()
        self.gpu = 0
        self.calls: list[tuple[Any, ...]] = []

    def deviceCanAccessPeer(self, _gpu: int, _peer: int) -> bool:  # noqa: N802 - CuPy's name
        return self.reach

    def deviceEnablePeerAccess(self, peer: int) -> None:  # noqa: N802
        if (self.gpu, peer) in self.on:
            raise RuntimeFaultError(704)
        self.on.add((self.gpu, peer))

    def deviceDisablePeerAccess(self, peer: int) -> None:  # noqa: N802
        if (self.gpu, peer) not in self.on:
            raise RuntimeFaultError(705)
        self.on.remove((self.gpu, peer))

    def deviceGetAttribute(self, _name: int, _gpu: int) -> int:  # noqa: N802
        return self.concurrent

    def memPrefetchAsync(self, *words: int) -> None:  # noqa: N802
        self.calls.append(("prefetch", *words))

    def memAdvise(self, *words: int) -> None:  # noqa: N802
        self.calls.append(("advise", *words))

    def streamSynchronize(self, _stream: int) -> None:  # noqa: N802
        self.calls.append(("wait",))


class Owner:
    """A backend of such a driver, with CuPy for a version of CUDA."""

    def __init__(self, driver: Driver, version: int = 12090) -> None:
        self.driver = driver
        built = SimpleNamespace(get_build_version=lambda: version)
        self.cupy: Any = SimpleNamespace(cuda=SimpleNamespace(runtime=driver, driver=built))

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


def test_the_host_is_minus_one_before_cuda_13() -> None:
    driver = Driver()
    managed, buffer = CudaManaged(Owner(driver)), HostBuffer(100)
    assert managed.missing(0, to_host=True) is None
    managed.bring(buffer, 2)
    managed.bring(buffer, None)
    managed.keep_on_host(buffer, 1)
    at = buffer.address
    assert driver.calls == [
        ("prefetch", at, 100, 2, 0),
        ("wait",),
        ("prefetch", at, 100, -1, 0),
        ("wait",),
        ("advise", at, 100, 3, -1),  # cudaMemAdviseSetPreferredLocation
        ("advise", at, 100, 5, 1),  # cudaMemAdviseSetAccessedBy
    ]
    buffer.close()


def test_cuda_13_needs_bindings_of_its_own_version(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "cuda", None)
    driver = Driver()
    managed, buffer = CudaManaged(Owner(driver, 13000)), HostBuffer(100)
    assert managed.missing(0, to_host=False) is None
    assert "install the extra bindings13" in str(managed.missing(0, to_host=True))
    # Without a name for the host the CPU's own page faults bring the memory back.
    managed.bring(buffer, None)
    assert driver.calls == [("wait",)]
    buffer.close()
    older = ModuleType("cuda.bindings")
    older.__dict__.update(__version__="12.9.1", runtime=ModuleType("cuda.bindings.runtime"))
    package = ModuleType("cuda")
    package.__dict__["bindings"] = older
    monkeypatch.setitem(sys.modules, "cuda", package)
    monkeypatch.setitem(sys.modules, "cuda.bindings", older)
    assert str(Host(Owner(driver, 13000).cupy).missing).endswith("cuda-bindings 13, not 12.9.1")


def test_devices_that_cannot_share_managed_memory_are_told() -> None:
    managed = CudaManaged(Owner(Driver(concurrent=0)))
    assert "at the same time" in str(managed.missing(0, to_host=False))


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
