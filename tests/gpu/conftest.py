"""Real GPUs for the tests in this folder, and a look at what each test leaves behind."""

from __future__ import annotations

import gc
import tempfile
from collections.abc import Iterator
from threading import active_count
from time import perf_counter
from typing import Any

import pytest

from planner.engine.backends.cuda import CudaBackend
from planner.machine.schema import Machine
from tests.helpers import first_use
from tests.helpers.devices import PEERS, free_bytes, holds, missing, warm, warm_torch
from tests.helpers.machines import every_way


def pytest_runtest_protocol(item: pytest.Item, nextitem: pytest.Item | None) -> bool | None:
    """Run a test of this folder once more where memory of a device is missing after it."""
    if "_nothing_stays" not in getattr(item, "fixturenames", ()):
        return None
    first_use.run(item, nextitem)
    return True


def pytest_terminal_summary(terminalreporter: Any, config: pytest.Config) -> None:
    """What devices have kept from first uses."""
    for line in first_use.told(config):
        terminalreporter.write_line(line)


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
    _set_aside()
    return count


def _set_aside() -> None:
    """Take what is there by now out of later collections: with CuPy and torch they take 0.1 s."""
    gc.collect()
    gc.freeze()


@pytest.fixture(scope="session")
def _warm_torch(devices: int) -> None:
    """For the tests that use torch where it is: importing it takes seconds."""
    for gpu in range(devices):
        warm_torch(gpu)
    _set_aside()


@pytest.fixture(autouse=True)
def _nothing_stays(
    devices: int,
    request: pytest.FixtureRequest,
    tmp_path_factory: pytest.TempPathFactory,
    monkeypatch: pytest.MonkeyPatch,
) -> Iterator[None]:
    """No thread, no scratch file, no page-locked memory, no memory of a device is left."""
    folder = tmp_path_factory.mktemp("scratch")
    monkeypatch.setattr(tempfile, "tempdir", str(folder))
    opened: list[CudaBackend] = []
    make = CudaBackend.__init__

    def remember(backend: CudaBackend, **words: bool) -> None:
        make(backend, **words)
        opened.append(backend)

    monkeypatch.setattr(CudaBackend, "__init__", remember)
    gc.collect()
    free, threads = [free_bytes(gpu) for gpu in range(devices)], active_count()
    begun = perf_counter()
    yield
    took = perf_counter() - begun
    gc.collect()
    assert active_count() == threads
    assert list(folder.iterdir()) == []
    assert [holds(backend) for backend in opened if holds(backend)] == []
    opened.clear()
    first_use.judge(request.node, missing(free), took)


@pytest.fixture
def machine() -> Machine:
    return every_way()
