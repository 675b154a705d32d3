"""What moves when a GPU touches data in place: sectors of host memory, regions of managed memory.

The plan says which share of the bytes is touched, in which pattern, and how often.

- `dense`: one block, read in whole lines;
- `strided`: elements of 16 bytes (the widest load of a thread) at equal distances over everything;
- `random`: single sectors anywhere.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from math import comb
from typing import Final, Literal

Pattern = Literal["dense", "strided", "random"]

ELEMENT: Final = 16
"""Bytes of the widest load of one thread: CUDA C++ Programming Guide, "Device Memory Accesses"
(https://docs.nvidia.com/cuda/cuda-c-programming-guide/)."""
LINE: Final = 128
"""Bytes of the line in which a warp's neighbouring loads go out as one request: same guide."""
SECTOR: Final = 32
"""Bytes of a sector, the least that a GPU reads: same guide."""
HALF: Final = 0.88
"""What a pair of sectors costs of which one is wanted, where they move in pairs: 16 bytes of every
64 took 0.87 to 0.93 of what 16 of every 32 did, which is all of it (five H200 machines, measured
2026-11-29 to 2026-12-01)."""
REGION: Final = 64 << 10
"""Bytes that one fault of managed memory moves on x86: sixteen pages of 4 KiB
(https://github.com/NVIDIA/open-gpu-kernel-modules, uvm_perf_prefetch.c)."""
BLOCK: Final = 2 << 20
"""Bytes of the block whose regions the driver's tree counts together: same source."""
LEAVES: Final = BLOCK // REGION
THRESHOLD: Final = 0.51
"""A subtree is taken whole once more than 51 % of it is resident or faulted: same source,
`uvm_perf_prefetch_threshold`."""


@dataclass(frozen=True, slots=True)
class Use:
    """How a GPU uses what it gets: share touched, number of reads of each byte, pattern."""

    fraction: float = 1.0
    reads: int = 1
    pattern: Pattern = "dense"


@dataclass(frozen=True, slots=True)
class Touch:
    """One read of what is touched: bytes that really move, and requests that they take."""

    size: float
    requests: float


def in_place(size: int, use: Use, sector: int) -> Touch:
    """What one pass over host memory moves, in sectors of `sector` bytes.

    Parameters
    ----------
    size
        Bytes of the whole.
    use
        The share of it that is touched, and how.
    sector
        Bytes that a scattered read moves at the least.

    """
    if use.pattern == "dense" or use.fraction >= 1:
        touched = size * use.fraction
        return Touch(touched, touched / LINE)
    wanted = size * use.fraction
    each = ELEMENT if use.pattern == "strided" else sector
    count = wanted / each
    # Elements closer than a sector share it, and requests closer than a line go out together.
    moved = min(float(size), count * max(sector, each))
    if each < SECTOR and sector == 2 * SECTOR and size >= count * sector:
        moved *= HALF
    return Touch(moved, min(size / LINE, count))


@dataclass(frozen=True, slots=True)
class Faulted:
    """What faults bring over: blocks of 2 MiB that fault at all, and bytes that move."""

    blocks: float
    size: float


def faulted(size: int, use: Use, sector: int) -> Faulted:
    """What the first pass over managed memory brings into the GPU.

    A fault moves its region of 64 KiB; then the driver takes every subtree of the block's binary
    tree of which more than 51 % is resident or faulted. All faults of a block are taken to come in
    one batch.
    """
    blocks = size / BLOCK
    if use.pattern == "dense" or use.fraction >= 1:
        return Faulted(blocks * use.fraction, size * use.fraction)
    if use.pattern == "strided":
        stride = ELEMENT / use.fraction / REGION
        if stride <= 1:
            return Faulted(blocks, float(size))
        touched = min(LEAVES, max(1, round(LEAVES / stride)))
        regions = evenly(touched) if stride < LEAVES else 1.0
        share = min(1.0, LEAVES / stride)
        return Faulted(blocks * share, blocks * share * regions * REGION)
    # A region stays untouched if none of its sectors is hit.
    hit = 1 - (1 - use.fraction) ** (REGION / sector)
    counts = [(k, comb(LEAVES, k) * hit**k * (1 - hit) ** (LEAVES - k)) for k in range(LEAVES + 1)]
    migrated = sum(chance * regions_taken(LEAVES, k) for k, chance in counts)
    return Faulted(blocks * (1 - (1 - hit) ** LEAVES), blocks * migrated * REGION)


@cache
def regions_taken(leaves: int, touched: int) -> float:
    """Regions that move on average when `touched` of `leaves` fault, at random places.

    >>> regions_taken(32, 17), round(regions_taken(32, 16) / 16, 2)
    (32.0, 1.41)
    """
    if touched == 0:
        return 0.0
    if touched > THRESHOLD * leaves:
        return float(leaves)
    half = leaves // 2
    ways = comb(leaves, touched)
    return sum(
        comb(half, left)
        * comb(half, touched - left)
        / ways
        * (regions_taken(half, left) + regions_taken(half, touched - left))
        for left in range(max(0, touched - half), min(half, touched) + 1)
    )


@cache
def evenly(touched: int) -> float:
    """Regions that move when `touched` of the 32 fault at equal distances."""
    pattern = [False] * LEAVES
    for i in range(touched):
        pattern[i * LEAVES // touched] = True
    return float(_taken(pattern))


def _taken(pattern: list[bool]) -> int:
    touched = sum(pattern)
    if touched > THRESHOLD * len(pattern):
        return len(pattern)
    if touched == 0:
        return 0
    half = len(pattern) // 2
    return _taken(pattern[:half]) + _taken(pattern[half:])


def of_hbm(size: int, use: Use, rate: float | None) -> float:
    """Seconds in which a kernel reads what it touches from its own memory; 0 where unknown."""
    if rate is None:
        return 0.0
    return use.reads * in_place(size, use, ELEMENT * 2).size / rate
