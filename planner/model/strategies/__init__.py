"""All strategies, in the order in which ties are settled: the simpler one first.

`planner/engine/strategies` holds how those in `EXECUTABLE` are done; a test holds the two equal.
"""

from __future__ import annotations

from planner.model.strategies import (
    disk_read,
    disk_write,
    gds,
    gpu_gpu,
    in_place,
    managed,
    mapping,
    network,
    numa,
    pageable,
    pinned,
    staged,
    write_combined,
)
from planner.model.strategies.base import Crossing, Kind, Shape, Strategy
from planner.model.touched import Use

STRATEGIES: tuple[Strategy, ...] = (
    disk_read.BUFFERED_READ,
    disk_read.DIRECT_READ,
    mapping.MAP,
    gds.READ,
    disk_write.BUFFERED_WRITE,
    disk_write.DIRECT_WRITE,
    gds.WRITE,
    pinned.H2D_PINNED,
    staged.H2D,
    pinned.H2D_REGISTERED,
    pageable.H2D,
    write_combined.FROM_RING,
    write_combined.FROM_MEMORY,
    pinned.REGISTERED_CHUNKS,
    in_place.H2D,
    managed.MANAGED,
    managed.H2D_PREFETCH,
    in_place.MANAGED_HOST,
    pinned.D2H_PINNED,
    staged.D2H,
    pinned.D2H_REGISTERED,
    pageable.D2H,
    in_place.D2H,
    managed.D2H_PREFETCH,
    gpu_gpu.PEER,
    gpu_gpu.DRIVER_STAGED,
    gpu_gpu.RELAY_OUT,
    gpu_gpu.RELAY_IN,
    *network.NETWORK,
    *numa.NUMA,
)
"""Every strategy that crosses a link."""

INSIDE: tuple[Strategy, ...] = (gpu_gpu.LOCAL,)
"""Strategies that stay in one place."""

NAMES: frozenset[str] = frozenset(s.name for s in (*STRATEGIES, *INSIDE))
"""What a plan may pin."""

EXECUTABLE: frozenset[str] = frozenset(
    {
        "buffered",
        "direct",
        "mmap",
        "gds",
        "registered",
        "registered_chunks",
        "pinned",
        "staged",
        "pageable",
        "write_combined",
        "zero_copy",
        "managed",
        "prefetch",
        "managed_host",
        "peer",
        "host_staged",
        "local",
    }
)
"""What this version's engine can do; the others are predicted only."""

GATHER: frozenset[str] = frozenset(
    {
        "pinned",
        "registered",
        "staged",
        "pageable",
        "write_combined",
        "buffered",
        "peer",
        "host_staged",
    }
)
"""What this version's engine can do with bytes that lie in pieces."""

__all__ = [
    "EXECUTABLE",
    "GATHER",
    "INSIDE",
    "NAMES",
    "STRATEGIES",
    "Crossing",
    "Kind",
    "Shape",
    "Strategy",
    "Use",
]
