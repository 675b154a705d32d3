"""A kernel that keeps a GPU busy for a given time: the stand-in for work of a `compute` block."""

from __future__ import annotations

from collections.abc import Callable
from time import sleep
from typing import Any, Final

_SOURCE: Final = r"""
extern "C" __global__ void spin(unsigned long long nanoseconds) {
    unsigned long long start, now;
    asm volatile("mov.u64 %0, %globaltimer;" : "=l"(start));
    do {
        asm volatile("mov.u64 %0, %globaltimer;" : "=l"(now));
    } while (now - start < nanoseconds);
}
"""
_LOOK_S: Final = 0.001
"""Seconds between two looks whether the kernel has ended: short beside any step of real work."""


def spinner(cupy: Any, check: Callable[[], None]) -> Callable[[float], None]:
    """A function that spins on every multiprocessor of the current device for so many seconds.

    The kernel is compiled here, before anything is timed.
    """
    kernel = cupy.RawKernel(_SOURCE, "spin")
    blocks = cupy.cuda.Device().attributes["MultiProcessorCount"]
    stream = cupy.cuda.Stream(non_blocking=True)
    done = cupy.cuda.Event(disable_timing=True)
    kernel((blocks,), (1,), (cupy.uint64(0),), stream=stream)
    stream.synchronize()

    def spin(seconds: float) -> None:
        kernel((blocks,), (1,), (cupy.uint64(int(seconds * 1e9)),), stream=stream)
        done.record(stream)
        while not done.done:
            check()
            sleep(_LOOK_S)

    return spin
