"""Host memory to a GPU through a ring of write-combined memory, which the CPU only ever fills.

The ring is made by `Transfer`, which asks the backend for such memory.
"""

from __future__ import annotations

from collections.abc import Callable
from time import perf_counter
from typing import Final

from planner.engine.backends.base import Engine
from planner.engine.memory import HostBuffer, copy_memory
from planner.engine.strategies.base import Stage
from planner.engine.strategies.host_gpu import COPY, engine

SAMPLE: Final = 16 << 20
"""Bytes that are read to find out: a few milliseconds from ordinary memory."""
PARTS: Final = 8
"""Reads that these bytes make up."""
ORDINARY: Final = 1e9
"""Bytes/s above which the CPU reads through its cache: write-combined memory gives some 0.1 to 0.3
GB/s (CUDA C++ Programming Guide, "Write-Combining Memory": prohibitively slow to read)."""


def from_memory(gpu: int) -> tuple[Stage, ...]:
    """The CPU fills the ring, the copy engine empties it."""
    return COPY, engine(Engine("h2d", gpu))


def read_rate(combined: Callable[[int], HostBuffer]) -> float:
    """Bytes/s at which the CPU reads memory that `combined` makes."""
    buffer, target = combined(SAMPLE), HostBuffer(SAMPLE)
    try:
        buffer.touch()
        target.touch()
        # The quickest of a few: whoever is interrupted meanwhile reads ordinary memory slowly too.
        part = SAMPLE // PARTS
        seconds = []
        for low in range(0, SAMPLE, part):
            start = perf_counter()
            copy_memory(target.address + low, buffer.address + low, part)
            seconds.append(perf_counter() - start)
        return part / min(seconds)
    finally:
        target.close()
        buffer.close()


def remark(rate: float) -> str | None:
    """What a run should say of memory that is read so fast, or `None` if it is what it says."""
    if rate <= ORDINARY:
        return None
    return (
        f"write_combined: the CPU reads that memory at {rate / 1e9:.1f} GB/s, so it is ordinary "
        "memory here (virtual machines may ignore the request)"
    )
