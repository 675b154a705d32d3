"""A kernel that keeps a GPU busy for a given time: the stand-in for work of a `compute` block."""

from __future__ import annotations

from collections.abc import Callable
from time import perf_counter, sleep
from typing import Final

from planner.engine.backends.cuda_kernels import imported_cupy
from planner.engine.waits import TICK_S

_SOURCE: Final = r"""
extern "C" __global__ void spin(unsigned long long nanoseconds) {
    unsigned long long start, now;
    asm volatile("mov.u64 %0, %globaltimer;" : "=l"(start));
    do {
        asm volatile("mov.u64 %0, %globaltimer;" : "=l"(now));
    } while (now - start < nanoseconds);
}
"""
_LAST_S: Final = 0.002
"""Seconds before the expected end from which the thread waits for the kernel itself: to sleep until
the end would add the timer's lateness to every step."""


def spinner(gpu: int, check: Callable[[], None]) -> Callable[[float], None]:
    """A function that spins on every multiprocessor of a device for so many seconds.

    The device must be current where the function is called, as it is here afterwards.

    The kernel is compiled here, before anything is timed.
    """
    cupy = imported_cupy()
    cupy.cuda.Device(gpu).use()
    kernel = cupy.RawKernel(_SOURCE, "spin")
    blocks = cupy.cuda.Device().attributes["MultiProcessorCount"]
    stream = cupy.cuda.Stream(non_blocking=True)
    done = cupy.cuda.Event(disable_timing=True)
    with stream:
        kernel((blocks,), (1,), (cupy.uint64(0),))
    stream.synchronize()

    def spin(seconds: float) -> None:
        end = perf_counter() + seconds
        with stream:
            kernel((blocks,), (1,), (cupy.uint64(int(seconds * 1e9)),))
        done.record(stream)
        while (left := end - perf_counter() - _LAST_S) > 0:
            check()
            sleep(min(left, TICK_S))
        done.synchronize()

    return spin
