"""What real GPUs look like when a test is through, and what a process keeps on them for good.

The first use of nearly everything takes memory of a device that is never given back: the context,
kernels, the driver's own buffers for each class of copies, the libraries' own. That is no leak, so
it is taken before anything is measured; a leak grows with every test.
"""

from __future__ import annotations

import gc
import sys
from collections.abc import Callable, Sequence
from contextlib import ExitStack, closing, suppress
from time import perf_counter, sleep
from typing import Any

import numpy as np

import planner
from planner.engine.backends.base import Engine
from planner.engine.backends.cuda import CudaBackend
from planner.engine.memory import HostBuffer
from planner.engine.touch import Touch
from tests.helpers.first_use import SLACK
from tests.helpers.machines import MIB

PATIENCE_S = 5.0
"""How long memory may take to come back. The driver gives pages of managed memory back after the
call that frees them: 64 to 126 MiB were missing right after tests of 64 MiB, and there again a test
later (H200, 2026-11-29). What leaks never comes back, so the wait hides nothing."""
LOOK_S = 0.02
NUDGE = 32 * MIB
"""Too much for what the driver has at hand in pieces: asking for it makes it collect what is free,
as the next test would."""

SMALLEST = 64 << 10
"""A small load is cut into chunks of this size."""
SIZES = (1, 4095, SMALLEST - 1, SMALLEST, SMALLEST + 1, MIB, 21 * MIB + 17)
"""Copies of every class that the driver may serve in a way of its own."""
MANAGED = 64 * MIB
"""The most managed memory that a test moves."""
PEERS = 4
"""The most devices that a test copies between."""


def free_bytes(gpu: int) -> int:
    """Free memory of a device, with nothing in the pools of libraries."""
    import cupy

    torch = sys.modules.get("torch")
    if torch is not None and torch.cuda.is_initialized():
        torch.cuda.empty_cache()  # its allocator keeps what tensors have given back
    with cupy.cuda.Device(gpu):
        cupy.get_default_memory_pool().free_all_blocks()
        return int(cupy.cuda.runtime.memGetInfo()[0])


def nudge(gpu: int) -> None:
    """Let the driver finish what it put off; memory that peers reach waits for them, too."""
    import cupy

    runtime = cupy.cuda.runtime
    for each in range(runtime.getDeviceCount()):
        with cupy.cuda.Device(each):
            runtime.deviceSynchronize()
    with cupy.cuda.Device(gpu):
        runtime.free(runtime.malloc(NUDGE))


def missing(
    before: Sequence[int],
    *,
    look: Callable[[int], int] = free_bytes,
    ask: Callable[[int], None] = nudge,
    patience_s: float = PATIENCE_S,
) -> list[int]:
    """Bytes by device that were free `before` and are not, once they had the time to come back."""
    gc.collect()
    end = perf_counter() + patience_s
    while True:
        left = [had - look(gpu) for gpu, had in enumerate(before)]
        if max(left) <= SLACK or perf_counter() >= end:
            return left
        for gpu, lost in enumerate(left):
            if lost > SLACK:
                ask(gpu)
        sleep(LOOK_S)


def warm(gpu: int, peers: Sequence[int]) -> None:
    """Take what is kept for good: of kernels, managed memory, copies, peer copies, the loader."""
    with closing(CudaBackend()) as backend:
        backend.attach(gpu)
        backend.compile(gpu)
        backend.compute(gpu, lambda: None)
        _warm_managed(backend, gpu)
        _warm_copies(backend, gpu)
        for peer in peers:
            _warm_peer(backend, gpu, peer)
    _warm_loader(gpu)


def _warm_managed(backend: CudaBackend, gpu: int) -> None:
    """Every way that managed pages go: with faults, ahead of them, back, and read from the host."""
    inward, outward = ("ram", "hbm"), ("hbm", "ram")
    if backend.lacks("managed", inward, [gpu]) is not None:
        return
    whole = Touch(0, 0, 0, MANAGED, MANAGED)
    with ExitStack() as undo:
        buffer = undo.enter_context(closing(backend.managed(gpu, MANAGED)))
        lane = undo.enter_context(closing(backend.kernel_lane(gpu, 1)))
        faults = whole._replace(source=buffer.address)
        buffer.touch()
        lane.touch(0, faults)
        lane.wait(0)
        backend.bring(buffer, None)
        backend.bring(buffer, gpu)
        if backend.lacks("prefetch", outward, [gpu]) is None:
            pages = undo.enter_context(closing(backend.page_lane(gpu, 1, inward=False)))
            pages.copy(0, buffer.address, buffer.address, buffer.size)
            pages.wait(0)
        backend.bring(buffer, None)
        if backend.lacks("managed_host", inward, [gpu]) is None:
            backend.keep_on_host(buffer, gpu)
            lane.touch(0, faults)
            lane.wait(0)


def _warm_copies(backend: CudaBackend, gpu: int) -> None:
    """In, inside and out, from and to ordinary memory and memory that copy engines reach."""
    largest = max(SIZES)
    with ExitStack() as undo:
        plain, pinned = (undo.enter_context(closing(HostBuffer(largest))) for _ in range(2))
        plain.fill(1)
        pinned.fill(2)
        backend.register(pinned.address, largest)
        undo.callback(backend.unregister, pinned.address)
        here, there = (backend.allocate(gpu, largest) for _ in range(2))
        undo.callback(backend.release, here)
        undo.callback(backend.release, there)
        way_in, inside, out = (
            undo.enter_context(closing(backend.lane(Engine(kind, gpu), 1)))
            for kind in ("h2d", "local", "d2h")
        )
        for size in SIZES:
            backend.fill(here, 3)
            way_in.copy_now(here.address, plain.address, size)
            out.copy_now(plain.address, here.address, size)
            for lane, target, source in (
                (way_in, here, pinned),
                (inside, there, here),
                (out, pinned, there),
            ):
                lane.copy(0, target.address, source.address, size)
                lane.wait(0)
        assert (pinned.array == 2).all()


def _warm_peer(backend: CudaBackend, gpu: int, peer: int) -> None:
    """Copies to another device, by way of the host and straight there."""
    largest = max(SIZES)
    with ExitStack() as undo:
        here, there = backend.allocate(gpu, largest), backend.allocate(peer, largest)
        undo.callback(backend.release, here)
        undo.callback(backend.release, there)
        lane = undo.enter_context(closing(backend.lane(Engine("peer", gpu, peer), 1)))
        for straight in (False, True):
            if straight and backend.lacks("peer", ("hbm", "hbm"), [gpu, peer]) is not None:
                return
            if straight:
                backend.open_peer(gpu, peer)  # closed with the backend
            backend.attach(gpu)
            for size in SIZES:
                lane.copy(0, there.address, here.address, size)
                lane.wait(0)


def _warm_loader(gpu: int) -> None:
    """The same copies as a program asks for them, with arrays of CuPy."""
    import cupy
    import cupyx

    with cupy.cuda.Device(gpu), planner.Loader() as once:
        for size in SIZES:
            plain, pinned = np.ones(size, np.uint8), cupyx.empty_pinned(size, dtype=np.uint8)
            here, there = cupy.zeros(size, cupy.uint8), cupy.zeros(size, cupy.uint8)
            once.transfer(plain, here).result()
            once.transfer(here, there).result()
            once.transfer(there, pinned).result()
            assert pinned.all()
            here.fill(0)
            once.transfer(pinned, here).result()
            once.transfer(here, plain).result()
            assert plain.all()
    cupy.get_default_pinned_memory_pool().free_all_blocks()


def warm_torch(gpu: int) -> None:
    """Take what torch keeps: 94 MiB on an H200 (2026-11-29)."""
    with suppress(ImportError):
        import torch

        if not torch.cuda.is_available():
            return
        device = f"cuda:{gpu}"
        numbers = torch.arange(8, dtype=torch.float32).to(device)
        half = torch.zeros(8, dtype=torch.bfloat16, device=device)
        torch.equal(half, numbers.bfloat16())
        torch.cuda.synchronize(device)


def holds(backend: CudaBackend) -> dict[str, Any]:
    """What a backend has of host memory that is page-locked, and of memory of devices."""
    found: dict[str, Any] = {
        "registered": set(backend._registered),
        "write-combined": set(backend._given),
        "allocated": dict(backend._allocated),
    }
    return {name: what for name, what in found.items() if what}
