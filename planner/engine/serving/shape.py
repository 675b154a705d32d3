"""How many workers, slots and bytes a chunk: by the calibration, or by a rule where there is none.

The rule is a safe shape and no prediction: what a catalogue knows of other machines does not hold
here. Twelve workers of two 4 MiB slots on 16 cores fed a PCIe 5.0 x16 link from the page cache at
95 % of its rate (measured on an H200 guest, 2026-11-29); a ring that outgrew the CPU's cache took
a third of it away.
"""

from __future__ import annotations

import os
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final, Literal

from planner.engine.memory import PAGE, round_up
from planner.errors import InfeasibleError
from planner.machine.system import last_level_cache, read_text
from planner.units import format_size

MIB: Final = 1 << 20
CHUNK: Final = 4 * MIB
LEAST_CHUNK: Final = MIB
"""Below it the interpreter's own cost of a chunk, some 10 us, shows."""
SMALLEST: Final = 64 << 10
"""Bytes of a chunk that a small transfer is cut down to."""
DEPTH: Final = 2
MOST_WORKERS: Final = 16
"""More threads than this slow one interpreter down (24 and 32 workers: 28 to 46 GB/s of 52)."""
CACHE_SHARE: Final = 0.4
"""Share of the last-level cache up to which a ring stays in it: the knee was seen at 0.4 to 0.6."""
RAM_SHARE: Final = 0.3
"""Share of the free memory that may be pinned unless a budget is given."""
ROOM: Final = 2 * PAGE
"""Spare bytes of a slot: a read around the page cache takes whole blocks at either end."""


@dataclass(frozen=True, slots=True)
class Shape:
    """The shape of a pipeline; `origin` says who chose it.

    `setup_s` and `steady_s` are predicted for `size_bytes`; `None` where nothing was calibrated.
    """

    workers: int
    depth: int
    chunk_bytes: int
    origin: Literal["calibration", "rule", "given"] = "rule"
    size_bytes: int = 0
    setup_s: float | None = None
    steady_s: float | None = None

    @property
    def ring_bytes(self) -> int:
        """Bytes of the pinned ring, with each slot's spare room."""
        return self.workers * self.depth * round_up(self.chunk_bytes + ROOM, PAGE)

    def predicted_s(self, size: int) -> float | None:
        """Seconds that `size` bytes should take once everything is set up."""
        if self.steady_s is None or not self.size_bytes:
            return None
        return self.steady_s * size / self.size_bytes

    def cut_to(self, size: int) -> Shape:
        """The same for a transfer of so few bytes that not every slot would get a chunk."""
        fair = round_up(-(-size // (self.workers * self.depth)), PAGE)
        return replace(self, chunk_bytes=min(self.chunk_bytes, max(fair, SMALLEST)))


def rule_of_thumb(root: Path = Path("/")) -> Shape:
    """The shape for an uncalibrated machine: three quarters of the cores, a ring within cache."""
    cpus = tuple(sorted(os.sched_getaffinity(0)))
    workers = max(2, min(MOST_WORKERS, len(cpus) * 3 // 4))
    cache = last_level_cache(root, cpus[:1])
    room = int(cache.size_bytes * CACHE_SHARE) if cache is not None else 0
    chunk = CHUNK
    while chunk > LEAST_CHUNK and room and workers * DEPTH * chunk > room:
        chunk //= 2
    return Shape(workers, DEPTH, chunk)


def within(shape: Shape, budget: int) -> Shape:
    """The shape with its ring inside the budget: less depth, then smaller chunks, then fewer hands.

    Raises `InfeasibleError` where not even one slot of a page fits.
    """
    while shape.ring_bytes > budget:
        if shape.depth > 1:
            shape = replace(shape, depth=shape.depth - 1)
        elif shape.chunk_bytes > LEAST_CHUNK:
            shape = replace(shape, chunk_bytes=max(LEAST_CHUNK, shape.chunk_bytes // 2))
        elif shape.workers > 1:
            shape = replace(shape, workers=shape.workers - 1)
        elif shape.chunk_bytes > PAGE:
            shape = replace(shape, chunk_bytes=max(PAGE, shape.chunk_bytes // 2))
        else:
            raise InfeasibleError(
                f"a ring needs {format_size(shape.ring_bytes)} of pinned memory, "
                f"the budget is {format_size(budget)}",
                hint="give a larger budget",
            )
    return shape


def default_budget(root: Path = Path("/")) -> int:
    """Bytes that may be pinned: a share of what is free now, in the control group too."""
    text = read_text(root / "proc/meminfo") or ""
    free = 0
    for line in text.splitlines():
        if line.startswith("MemAvailable:"):
            free = int(line.split()[1]) * 1024
    limit, used = (read_text(root / f"sys/fs/cgroup/memory.{name}") for name in ("max", "current"))
    if limit and used and limit.isdecimal() and used.isdecimal():
        # The page cache counts as used and gives way; what is pinned is at most a share anyway.
        free = min(free, int(limit)) if free else int(limit)
    return int(free * RAM_SHARE)
