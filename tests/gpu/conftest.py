"""Real GPUs for the tests in this folder, and a look at what each test leaves behind."""

from __future__ import annotations

import gc
import tempfile
from collections.abc import Iterator
from threading import active_count
from typing import Any

import pytest

from planner.engine.backends.cuda import CudaBackend
from planner.machine.schema import Machine
from tests.helpers.devices import PEERS, SLACK, free_bytes, holds, missing, warm, warm_torch
from tests.helpers.machines import every_way


@pytest.fixture(scope="session")
def devices() -> int:
    """How many GPUs there are; skips where the driver shows none."""
    cupy: Any = pytest.importorskip("cupy", reason="the cuda backend needs CuPy")
    runtime = cupy.cuda.runtime
    try:
        count = int(runtime.getDeviceCount())
    except runtime.CUDARuntimeError as error:
        pytest.skip(f"the driver shows no device: {error}")
    if not count:
        pytest.skip("the driver shows no device")
    near = range(min(count, PEERS))
    for gpu in range(count):
        warm(gpu, [peer for peer in near if peer != gpu and gpu in near])
    runtime.setDevice(0)
    return count


@pytest.fixture(scope="session")
def _warm_torch(devices: int) -> None:
    """For the tests that use torch where it is: importing it takes seconds."""
    for gpu in range(devices):
        warm_torch(gpu)


@pytest.fixture(autouse=True)
def _nothing_stays(
    devices: int, tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch
) -> Iterator[None]:
    """No thread, no scratch file, no page-locked memory, no memory of a device is left."""
    folder = tmp_path_factory.mktemp("scratch")
    monkeypatch.setattr(tempfile, "tempdir", str(folder))
    opened: list[CudaBackend] = []
    make = CudaBackend.__init__

    def remember(backend: CudaBackend) -> None:
        make(backend)
        opened.append(backend)

    monkeypatch.setattr(CudaBackend, "__init__", remember)
    gc.collect()
    free, threads = [free_bytes(gpu) for gpu in range(devices)], active_count()
    yield
    gc.collect()
    assert active_count() == threads
    assert list(folder.iterdir()) == []
    assert [holds(backend) for backend in opened if holds(backend)] == []
    opened.clear()
    left = missing(free)
    assert max(left) <= SLACK, f"bytes still allocated by device: {left}"


@pytest.fixture
def machine() -> Machine:
    return every_way()
