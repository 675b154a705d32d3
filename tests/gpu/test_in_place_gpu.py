"""Reads in place, managed memory and registration chunk by chunk on a real GPU."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from time import perf_counter, sleep
from typing import Any

import numpy as np
import pytest

from planner.engine.backends.base import Engine
from planner.engine.backends.cuda import CudaBackend
from planner.engine.backends.host_touch import carry_out
from planner.engine.memory import HostBuffer
from planner.engine.strategies.write_combined import ORDINARY, read_rate, remark
from planner.engine.touch import Touch
from planner.errors import InfeasibleError, UnavailableError
from tests.helpers.devices import holds
from tests.helpers.machines import MIB, every_way
from tests.helpers.schedules import noise_file, run_way

cupy = pytest.importorskip("cupy", reason="the cuda backend needs CuPy")
pytestmark = pytest.mark.gpu

LIMIT_S = 10.0
"""A kernel that holds a stream gives up after so long: a test fails, it does not hang."""
HOLD = r"""
extern "C" __global__ void hold(volatile unsigned* flag, unsigned long long nanoseconds) {
    unsigned long long start, now;
    asm volatile("mov.u64 %0, %globaltimer;" : "=l"(start));
    do {
        asm volatile("mov.u64 %0, %globaltimer;" : "=l"(now));
    } while (!*flag && now - start < nanoseconds);
}
"""


@pytest.fixture
def backend() -> Iterator[CudaBackend]:
    """A backend that holds nothing when a test is through, even before it is closed."""
    found = CudaBackend()
    try:
        yield found
        assert holds(found) == {}
    finally:
        found.close()


@contextmanager
def held(backend: CudaBackend) -> Iterator[Any]:
    """A stream that stands still until the end of the block; yields its event.

    Whatever synchronises the device inside of the block waits until the kernel gives up.
    """
    flag = HostBuffer(4)
    flag.touch()
    backend.register(flag.address, 4)
    stream = cupy.cuda.Stream(non_blocking=True)
    done = cupy.cuda.Event(disable_timing=True)
    kernel = cupy.RawKernel(HOLD, "hold")
    try:
        with stream:
            kernel((1,), (1,), (cupy.uint64(flag.address), cupy.uint64(int(LIMIT_S * 1e9))))
        done.record(stream)
        yield done
    finally:
        flag.array[0] = 1
        stream.synchronize()
        backend.unregister(flag.address)
        flag.close()


def lacks(backend: CudaBackend, strategy: str, across: tuple[str, str] = ("ram", "hbm")) -> None:
    reason = backend.lacks(strategy, across, [0])
    if reason is not None:
        pytest.skip(f"{strategy}: {reason}")


def use(pattern: str, fraction: float, reads: int = 1) -> dict[str, Any]:
    return {"pattern": pattern, "fraction": fraction, "reads": reads}


@pytest.mark.parametrize("size", [1, 15, 4095, 4097, 3 * MIB + 17, 64 * MIB])
@pytest.mark.parametrize(
    ("pattern", "fraction"), [("dense", 0.3), ("strided", 0.2), ("random", 0.1), ("random", 0.9)]
)
@pytest.mark.parametrize(
    ("way", "strategy"),
    [
        ("zero-copy in", "zero_copy"),
        ("zero-copy pinned in", "zero_copy"),
        ("faults in", "managed"),
        ("managed faults in", "managed"),
        ("on host in", "managed_host"),
        ("managed prefetch in", "prefetch"),
    ],
)
def test_every_touched_byte_is_the_source_s(
    way: str, strategy: str, pattern: str, fraction: float, size: int, backend: CudaBackend
) -> None:
    lacks(backend, strategy)
    told = use(pattern, fraction, 3)
    run = run_way(way, size, every_way(), backend=backend, samples=2, use=told)
    assert run.flows[0].verified is True
    assert run.flows[0].hops[0].busy_s > 0


@pytest.mark.parametrize("shift", [0, 1, 8, 15])
@pytest.mark.parametrize(
    "what",
    [
        Touch(0, 0, 0, 100_003, 100_003),
        Touch(0, 0, 16, 777, 6000),
        Touch(0, 0, 32, 1000, 3001, scattered=True),
        Touch(0, 0, 48, 1000, 2000, scattered=True),
        Touch(0, 0, 20, 1, 4000, scattered=True),
    ],
)
def test_kernels_touch_what_their_emulation_touches(
    what: Touch, shift: int, backend: CudaBackend
) -> None:
    source, wanted, found = (
        HostBuffer(what.reach + 16),
        HostBuffer(what.size),
        HostBuffer(what.size),
    )
    source.array[:] = np.random.Generator(np.random.SFC64(1)).integers(
        0, 256, source.size, np.uint8
    )
    carry_out(
        what._replace(source=source.address + shift, target=wanted.address), lambda _address: None
    )
    backend.attach(0)
    backend.register(source.address, source.size)
    kept = backend.allocate(0, what.size + 16)
    lane = backend.kernel_lane(0, 1)
    for offset in (0, 7):  # the kept bytes need not be aligned either
        target = kept.address + offset
        lane.touch(0, what._replace(source=source.address + shift, target=target), 2)
        lane.wait(0)
        backend.read(kept, offset, found.address, what.size)
        assert np.array_equal(found.array, wanted.array)
    lane.close()
    backend.release(kept)
    backend.unregister(source.address)
    for buffer in (source, wanted, found):
        buffer.close()


def test_kernels_in_place_go_on_beside_a_stream_that_stands(backend: CudaBackend) -> None:
    lacks(backend, "zero_copy")
    backend.attach(0)
    source = HostBuffer(MIB)
    source.fill(3)
    backend.register(source.address, MIB)
    kept = backend.allocate(0, MIB)
    lane = backend.kernel_lane(0, 1)
    with held(backend) as done:
        lane.touch(0, Touch(kept.address, source.address, 0, MIB, MIB))
        lane.wait(0)
        assert not done.done, "the kernel waited for the other stream"
    lane.close()
    backend.release(kept)
    backend.unregister(source.address)
    source.close()


def test_managed_pages_move_beside_a_stream_that_stands(backend: CudaBackend) -> None:
    lacks(backend, "prefetch")
    backend.attach(0)
    buffer = backend.managed(0, 8 * MIB)
    buffer.fill(5)
    lane = backend.page_lane(0, 1, inward=True)
    with held(backend) as done:
        lane.copy(0, buffer.address, buffer.address, buffer.size)
        lane.wait(0)
        assert not done.done, "the prefetch waited for the other stream"
    lane.close()
    buffer.close()


def test_the_next_chunk_is_registered_while_a_copy_is_under_way(backend: CudaBackend) -> None:
    """The copy of the first chunk stands behind a held stream; the second is registered anyway."""
    backend.attach(0)
    source = HostBuffer(2 * MIB)
    source.fill(9)
    target = backend.allocate(0, 2 * MIB)
    lane = backend.lane(Engine("h2d", 0), 2)
    backend.register(source.address, MIB)
    with held(backend) as done:
        cupy.cuda.runtime.streamWaitEvent(lane._ptr, done.ptr)
        lane.copy(0, target.address, source.address, MIB)
        start = perf_counter()
        backend.register(source.address + MIB, MIB)
        took = perf_counter() - start
        lane.copy(1, target.address + MIB, source.address + MIB, MIB)
        sleep(0.01)
        assert not done.done
        assert took < LIMIT_S / 10, "registering waited for the copy"
    lane.wait(0)
    lane.wait(1)
    found = HostBuffer(2 * MIB)
    backend.read(target, 0, found.address, found.size)
    assert (found.array == 9).all()
    lane.close()
    for address in (source.address, source.address + MIB):
        backend.unregister(address)
    backend.release(target)
    source.close()
    found.close()


@pytest.mark.parametrize("workers", [1, 3])
@pytest.mark.parametrize("budget", [None, 4 * MIB])
def test_files_are_registered_as_they_are_copied(
    workers: int, budget: int | None, backend: CudaBackend, tmp_path: Path
) -> None:
    lacks(backend, "mmap", ("disk", "ram"))
    files = [
        noise_file(tmp_path / "a", 9 * MIB + 1, offset=8 + 1234, seed=1),
        noise_file(tmp_path / "b", 4 * MIB + 16, offset=4095, seed=2),
    ]
    size = sum(file.size_bytes for file in files)
    more: dict[str, Any] = {"files": [file.model_dump() for file in files]}
    if budget is not None:
        more["budget"] = {"pinned": budget}
    shape = (MIB // 2, 2, workers)
    run = run_way("load chunks", size, every_way(), shape=shape, backend=backend, samples=3, **more)
    assert run.flows[0].verified is True
    assert backend._registered == set()
    if budget is not None:
        assert run.flows[0].pinned_bytes <= budget
    else:
        assert run.flows[0].pinned_bytes >= size


def test_repeats_of_managed_memory_fault_anew(backend: CudaBackend) -> None:
    """64 MiB by faults at 10 GB/s take 7 ms; what is there already is read at HBM's rate, 0.1 ms.

    A quarter of the former is the bound.
    """
    lacks(backend, "managed")
    run = run_way("managed faults in", 64 * MIB, every_way(), backend=backend, repeat=4, samples=2)
    assert run.flows[0].verified is True
    assert run.flows[0].steady_s > 64 * MIB / 40e9


def test_more_than_half_of_the_free_memory_is_refused(backend: CudaBackend) -> None:
    free = backend.free_memory(0)
    assert free is not None
    with pytest.raises(InfeasibleError, match="more than half of what gpu0 has free"):
        backend.managed(0, free // 2 + MIB)


def test_write_combined_memory_is_said_to_be_what_it_is(backend: CudaBackend) -> None:
    rate = read_rate(backend.combined)
    assert (remark(rate) is not None) == (rate > ORDINARY)
    run = run_way("combined in", 5 * MIB + 1, every_way(), shape=(MIB, 2, 2), backend=backend)
    assert run.flows[0].verified is True


def test_peer_access_of_others_is_seen_and_left(backend: CudaBackend) -> None:
    runtime = cupy.cuda.runtime
    if runtime.getDeviceCount() < 2 or not runtime.deviceCanAccessPeer(0, 1):
        pytest.skip("there are no two GPUs that reach each other")
    assert not backend.peer_is_open(0, 1)
    runtime.setDevice(0)
    runtime.deviceEnablePeerAccess(1)
    try:
        assert backend.peer_is_open(0, 1)
        with pytest.raises(UnavailableError, match="have peer access to each other already"):
            run_way("relay", MIB, every_way(), backend=backend)
        backend.open_peer(0, 1)
        backend._peers.close()
        assert backend.peer_is_open(0, 1)
    finally:
        runtime.setDevice(0)
        runtime.deviceDisablePeerAccess(1)
    assert not backend.peer_is_open(0, 1)


def test_peer_access_that_a_run_opened_is_closed_with_it(backend: CudaBackend) -> None:
    runtime = cupy.cuda.runtime
    if runtime.getDeviceCount() < 2 or not runtime.deviceCanAccessPeer(0, 1):
        pytest.skip("there are no two GPUs that reach each other")
    assert run_way("peer", MIB, every_way(), backend=backend).flows[0].verified is True
    assert not backend.peer_is_open(0, 1)
    assert run_way("relay", MIB, every_way(), backend=backend).flows[0].verified is True


def test_storage_is_refused_where_it_would_not_be_real(backend: CudaBackend) -> None:
    reason = backend.lacks("gds", ("disk", "hbm"), [0])
    if reason is None:
        pytest.skip("GPUDirect Storage is real here: the tests of every way move bytes by it")
    with pytest.raises(UnavailableError, match="flow f: gds: "):
        run_way("load gds", MIB, every_way(), backend=backend)
