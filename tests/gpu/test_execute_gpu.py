"""The engine on real GPUs: every byte arrives, and nothing stays allocated or registered."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from planner.engine.backends.cuda import CudaBackend
from planner.machine.schema import Machine
from tests.helpers.machines import MIB
from tests.helpers.schedules import KIB, PIECES, SCATTERED, WAYS, noise_file, run_way

cupy = pytest.importorskip("cupy", reason="the cuda backend needs CuPy")
pytestmark = pytest.mark.gpu

CHUNK = 256 * KIB
BETWEEN = ("peer", "relay")
"""Ways that need a second GPU."""


def _needs(way: str, devices: int) -> None:
    if way in BETWEEN and devices < 2:
        pytest.skip(f"{way} needs two GPUs, there is {devices}")
    kinds = {"disk": "disk", "host": "ram", "gpu": "hbm"}
    backend = CudaBackend()
    try:
        for text in WAYS[way]:
            start, strategy, end, *_ = text.split()
            across = kinds[start[:-1]], kinds[end[:-1]]
            reason = backend.lacks(strategy, across, [0, 1] if way in BETWEEN else [0])
            if reason is not None:
                pytest.skip(f"{strategy}: {reason}")
    finally:
        backend.close()


@pytest.mark.parametrize("size", [1, 4095, CHUNK - 1, CHUNK, CHUNK + 1, 21 * CHUNK + 17])
@pytest.mark.parametrize("way", WAYS)
def test_every_byte_arrives(way: str, size: int, machine: Machine, devices: int) -> None:
    _needs(way, devices)
    run = run_way(way, size, machine, backend="cuda", shape=(CHUNK, 2, 4), samples=2)
    assert run.flows[0].verified is True
    assert run.environment.backend == "cuda"
    assert not run.environment.emulated
    assert run.environment.gpus
    for hop, text in zip(run.flows[0].hops, WAYS[way], strict=True):
        assert (hop.busy_s > 0) == ("mmap" not in text or len(WAYS[way]) == 1)
        # The device's clock is tied to the host's within some 20 us.
        assert hop.busy_s <= run.flows[0].p95_s + 1e-4


@pytest.mark.parametrize("shape", [(4 * KIB, 2, 2), (CHUNK, 2, 4), (64 * MIB, 2, 1)])
@pytest.mark.parametrize("way", SCATTERED)
def test_every_byte_of_scattered_pieces_arrives(
    way: str, shape: tuple[int, int, int], machine: Machine, devices: int
) -> None:
    _needs(way, devices)
    size, pieces = sum(PIECES), {"count": len(PIECES), "sizes": PIECES}
    run = run_way(
        way,
        size,
        machine,
        backend="cuda",
        shape=shape,
        samples=2,
        pieces=pieces,
    )
    assert run.flows[0].verified is True


@pytest.mark.parametrize(("depth", "workers"), [(1, 1), (1, 8), (3, 2), (2, 16)])
@pytest.mark.parametrize("way", ["load", "staged in", "staged out", "save", "pinned in", "relay"])
def test_every_shape_moves_every_byte(
    way: str, depth: int, workers: int, machine: Machine, devices: int
) -> None:
    _needs(way, devices)
    run = run_way(
        way, 67 * CHUNK + 5, machine, backend="cuda", shape=(CHUNK, depth, workers), samples=2
    )
    assert run.flows[0].verified is True


@pytest.mark.parametrize("way", ["load", "load direct", "load mapped"])
def test_ranges_behind_headers_arrive(
    way: str, machine: Machine, devices: int, tmp_path: Path
) -> None:
    _needs(way, devices)
    files = [
        noise_file(tmp_path / "a", 3 * CHUNK + 1, offset=8 + 1234, seed=1),
        noise_file(tmp_path / "b", 2 * CHUNK - 7, offset=8, seed=2),
    ]
    size = sum(file.size_bytes for file in files)
    sources: list[Any] = [file.model_dump() for file in files]
    assert run_way(way, size, machine, backend="cuda", files=sources).flows[0].verified is True


def test_registered_memory_is_free_again(machine: Machine) -> None:
    """What was registered can be registered anew: nothing of it is left at its address."""
    run_way("load", 64 * MIB, machine, backend="cuda", shape=(MIB, 2, 4))
    runtime = cupy.cuda.runtime
    from planner.engine.memory import HostBuffer

    buffer = HostBuffer(64 * MIB)
    buffer.touch(4)
    runtime.hostRegister(buffer.address, buffer.size, 3)
    runtime.hostUnregister(buffer.address)
    buffer.close()


def test_peer_access_is_off_again(machine: Machine, devices: int) -> None:
    _needs("peer", devices)
    run_way("peer", 8 * MIB, machine, backend="cuda")
    runtime = cupy.cuda.runtime
    runtime.setDevice(0)
    runtime.deviceEnablePeerAccess(1)  # raises if it is on already
    runtime.deviceDisablePeerAccess(1)


def test_a_compute_block_takes_its_time() -> None:
    """20 ms of spinning take 20 ms; a factor of 1.5 leaves room for a busy computer."""
    from time import perf_counter

    from planner.engine.backends.cuda import CudaBackend

    backend = CudaBackend()
    try:
        spin = backend.compute(0, lambda: None)
        start = perf_counter()
        spin(0.02)
        assert 0.0199 <= perf_counter() - start <= 0.03
    finally:
        backend.close()


def test_a_copy_engine_reaches_a_rate_that_only_a_gpu_has(machine: Machine) -> None:
    """1 GiB from pinned memory: PCIe 3.0 x16 carries 12 GB/s; a third of it is the bound."""
    run = run_way(
        "pinned in",
        1024 * MIB,
        machine,
        backend="cuda",
        shape=(32 * MIB, 2, 2),
        samples=3,
        warmup=1,
    )
    assert run.flows[0].rate_bytes_per_s > 4e9
