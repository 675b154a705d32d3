"""How thorough a calibration is: the same cells, fewer or more of them, once or many times."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from planner.engine.calibration.fit import grid

KIB: Final = 1 << 10
MIB: Final = 1 << 20
GIB: Final = 1 << 30
FEW_CORES: Final = 4
"""Up to so many cores the best rings are small: workers times slots times a MiB or two."""


@dataclass(frozen=True, slots=True)
class Scope:
    """What is measured, and how often.

    Attributes
    ----------
    full
        Whether everything is measured, with sentinels, repetition and refinement.
    seconds, reserve
        Time in all, and what of it is kept for cells that were disturbed.
    alone, queued, peer, pageable, hot
        Bytes of the copies of each kind.
    copies, others
        (samples, samples where a cell has not settled) of copies, and of everything slower.
    slice_s
        Seconds of one sample of the copy tables: some ten chunks of each worker.
    rings_few, rings
        MiB of the rings on a computer of few cores, and on others.
    stock_few, stock
        Bytes of each buffer and of the warm file, likewise.
    cold, cold_s
        Bytes of the cold file, and seconds after which no more of it is written.
    requests, readers
        Bytes of a cold read, and numbers of threads that read together.
    writes, writers
        The same of writes.
    read_s
        Seconds of one sample of reads or writes.
    joint
        Bytes that each worker moves in a joint run, at least.
    duplex_s
        Seconds of both directions at once.
    background
        Shares of its time in which the other direction is at work.
    weights
        Seconds of each group of cells.

    """

    full: bool
    seconds: float
    reserve: float
    alone: Sequence[int]
    queued: Sequence[int]
    peer: Sequence[int]
    pageable: Sequence[int]
    hot: Sequence[int]
    copies: tuple[int, int]
    others: tuple[int, int]
    slice_s: float
    rings_few: Sequence[int]
    rings: Sequence[int]
    stock_few: int
    stock: int
    cold: int
    cold_s: float
    requests: Sequence[int]
    readers: Sequence[int]
    writes: Sequence[int]
    writers: Sequence[int]
    read_s: float
    joint: int
    duplex_s: float
    background: Sequence[float]
    weights: Mapping[str, float]

    def ring_sizes(self, cores: int, most: int) -> list[int]:
        """Bytes of the rings to measure, at most `most`."""
        wanted = self.rings_few if cores <= FEW_CORES else self.rings
        return [size * MIB for size in wanted if size * MIB <= most] or [most]


QUICK: Final = Scope(
    full=False,
    # Before it the interpreter starts and contexts are made, a second or two; people wait for
    # about a dozen without asking why.
    seconds=9.6,
    reserve=0.5,
    # 4 KiB to 256 MiB: below is all latency, above all rate.
    alone=tuple(grid(4 * KIB, 256 * MIB)),
    # Small copies tell the gap, large ones the rate of a queue.
    queued=(4 * KIB, 64 * KIB, MIB, 4 * MIB, 16 * MIB),
    peer=(4 * KIB, MIB, 16 * MIB, 256 * MIB),
    # The driver changes its method, and the source leaves the caches, between 1 and 64 MiB.
    pageable=(256 * KIB, MIB, 8 * MIB, 64 * MIB, 256 * MIB),
    # A buffer that stays in the last-level cache of any server when it is copied again and again.
    # Up to 3 MiB a core's own cache may hold most of it: from 1 to 8 MiB is no straight line.
    hot=(256 * KIB, MIB, 3 * MIB, 8 * MIB),
    copies=(5, 5),
    others=(3, 3),
    slice_s=0.02,
    rings_few=(4, 16, 64, 256),
    rings=(16, 64, 128, 256),
    # Memory is slow where cores are few. Making 512 MiB of each takes a second of the time; it is
    # more than a last-level cache holds, and 10 ms of DMA at 50 GB/s.
    stock_few=256 * MIB,
    stock=512 * MIB,
    # 60 ms at 2 GB/s for each pass.
    cold=128 * MIB,
    cold_s=1.0,
    # From one small request under way to 16 MiB of them, more than the product of rate and latency
    # of any one disk (10 GB/s times 1 ms is 10 MB).
    requests=(256 * KIB, MIB, 4 * MIB),
    readers=(1, 4),
    writes=(MIB, 4 * MIB),
    writers=(1, 4),
    # A virtual disk answers 4 MiB in about 2 ms, four of them in 8.
    read_s=0.03,
    # 25 ms of a worker at 5 GB/s; sixteen at 50 GB/s take 40 ms, of which waking them is 2 %.
    joint=128 * MIB,
    duplex_s=0.1,
    background=(1.0,),
    weights={
        "setup": 0.7,
        "gpu": 0.3,
        "copies": 0.8,
        "pageable": 0.5,
        "duplex": 0.4,
        "peers": 0.3,
        "together": 0.4,
        "tables": 2.0,
        "disk": 0.7,
        "disk_writes": 0.4,
        "joint": 2.2,
        "lead": 0.4,
    },
)
"""What `here` is measured by, and `calibrate` unless more is asked for."""

FULL: Final = Scope(
    full=True,
    # Three minutes with the start of the process, the end and the odd cell that overruns.
    seconds=165.0,
    reserve=15.0,
    alone=tuple(grid(4 * KIB, GIB)),
    queued=(4 * KIB, 16 * KIB, 64 * KIB, 256 * KIB, MIB, 4 * MIB, 16 * MIB, 64 * MIB),
    peer=tuple(grid(4 * KIB, GIB)),
    # Between 8 and 64 MiB the source leaves the caches, or the driver changes its method.
    pageable=(
        *(64 * KIB, 256 * KIB, MIB, 4 * MIB, 8 * MIB, 16 * MIB),
        *(24 * MIB, 32 * MIB, 48 * MIB, 64 * MIB, 128 * MIB, 256 * MIB, 512 * MIB, GIB),
    ),
    hot=(
        *(64 * KIB, 256 * KIB, MIB, 2 * MIB, 3 * MIB, 4 * MIB, 8 * MIB, 16 * MIB),
        *(24 * MIB, 32 * MIB, 48 * MIB, 64 * MIB, 128 * MIB, 512 * MIB),
    ),
    # The range of seven samples covers the median with 98 %, that of five with 94 %.
    copies=(7, 15),
    others=(5, 9),
    slice_s=0.1,
    rings_few=(4, 8, 16, 32, 64, 128, 256, 512),
    rings=(4, 16, 32, 64, 128, 192, 256, 512, 1024),
    stock_few=1024 * MIB,
    stock=1024 * MIB,
    cold=8 * GIB,
    cold_s=9.0,
    requests=(256 * KIB, MIB, 4 * MIB, 16 * MIB),
    readers=(1, 2, 4, 8, 16),
    writes=(256 * KIB, MIB, 4 * MIB),
    writers=(1, 4, 16),
    # Three waves of 64 MiB at 2 GB/s, and no more than a plan of some 200 MB reads at a time.
    read_s=0.1,
    # 50 ms of a worker. What a run takes beside its pace is measured by short ones.
    joint=256 * MIB,
    duplex_s=0.2,
    background=(1.0, 1 / 3),
    weights={
        "setup": 7.0,
        "gpu": 3.0,
        "copies": 12.0,
        "pageable": 8.0,
        "pageable again": 4.0,
        "duplex": 4.0,
        "unhelped": 3.0,
        "peers": 6.0,
        "together": 3.0,
        "tables": 31.0,
        "disk": 13.0,
        "disk again": 5.0,
        "disk_writes": 6.0,
        "in_place": 10.0,
        "in_place again": 7.0,
        "joint": 13.0,
        "lead": 3.0,
        "pairs": 3.0,
        # Two samples of each and making the rings ready.
        "again": 9.0,
    },
)
"""Everything, as exactly as three minutes allow."""
