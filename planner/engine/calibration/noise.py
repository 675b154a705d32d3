"""Whether something else used the computer while a sample was taken.

Signs, all read from the kernel without disturbing the sample itself: time that the
hypervisor took away (`steal`), processor time of other processes, and time that this process's
own threads stood ready without a processor (what involuntary switches cost). Where more threads
are at work than there are cores the last says nothing, since they stand in each other's way. A
sample of memory that is there already is also disturbed by page faults and by reads of a disk.
"""

from __future__ import annotations

import os
import resource
import time
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Final, Protocol

SHARE: Final = 0.03
"""A copy whose threads had a processor less than 97 % of the time is no sample of the memory."""
TICKS: Final = 2
"""Ticks of /proc/stat (10 ms each) that rounding alone can make out of nothing."""

FAULTS: Final = 64
"""Page faults that a sample may have for itself: the interpreter's memory grows by some pages."""


@dataclass(slots=True)
class Watch:
    """What was seen during one sample; `disturbed` is settled when the sample ends."""

    disturbed: bool = False


class Watcher(Protocol):
    """Watches one sample during which so many threads of this process are at work."""

    def __call__(
        self, threads: int = 1, *, resident: bool = False
    ) -> AbstractContextManager[Watch]:
        """The watch of one sample; `resident` ones touch no new memory and no disk."""


@dataclass(frozen=True, slots=True)
class _Reading:
    wall: float
    own: float
    busy: float
    steal: float
    waiting: float
    faults: int = 0
    waits: int = 0


def _tick() -> float:
    return 1.0 / os.sysconf("SC_CLK_TCK")


def _all_processors() -> tuple[float, float]:
    """Seconds that all processors together were busy and that the hypervisor took."""
    try:
        line = Path("/proc/stat").read_text(encoding="ascii").split("\n", 1)[0]
    except OSError:
        return 0.0, 0.0
    fields = [int(field) for field in line.split()[1:]]
    user, nice, system, _, _, irq, softirq, steal = (*fields, *[0] * 8)[:8]
    tick = _tick()
    return (user + nice + system + irq + softirq) * tick, steal * tick


def _waiting() -> float:
    """Seconds that the threads of this process stood ready without a processor."""
    total = 0
    try:
        with os.scandir("/proc/self/task") as tasks:
            for task in tasks:
                total += _waited(task.path)
    except OSError:
        return 0.0
    return total * 1e-9


def _waited(task: str) -> int:
    """Nanoseconds that one thread waited for a processor; 0 if it has just ended."""
    try:
        # Fields: nanoseconds on a processor, nanoseconds waiting for one, turns.
        return int(Path(task, "schedstat").read_text(encoding="ascii").split()[1])
    except (OSError, IndexError, ValueError):
        return 0


def _read() -> _Reading:
    busy, steal = _all_processors()
    waiting = _waiting()
    usage = resource.getrusage(resource.RUSAGE_SELF)
    # Read last, so that the reading itself is not in the time of the sample that begins.
    return _Reading(
        time.perf_counter(),
        time.process_time(),
        busy,
        steal,
        waiting,
        usage.ru_minflt + usage.ru_majflt,
        usage.ru_majflt,
    )


def verdict(
    before: _Reading, after: _Reading, threads: int, cores: int, *, resident: bool = False
) -> bool:
    """Whether the sample between two readings was disturbed."""
    if resident and (
        after.waits > before.waits or after.faults - before.faults > FAULTS * max(1, threads)
    ):
        return True
    wall = after.wall - before.wall
    allowed = SHARE * wall * cores + TICKS * _tick()
    if after.steal - before.steal > allowed:
        return True
    foreign = (after.busy - before.busy) - (after.own - before.own)
    if foreign > allowed:
        return True
    waited = after.waiting - before.waiting
    return threads < cores and waited > SHARE * wall * max(1, threads) + 1e-3


@contextmanager
def watch(threads: int = 1, *, resident: bool = False) -> Iterator[Watch]:
    """Watch one sample during which `threads` threads of this process are at work.

    With `resident` the sample touches no new memory and reads from no disk.
    """
    seen = Watch()
    before = _read()
    yield seen
    seen.disturbed = verdict(before, _read(), threads, os.cpu_count() or 1, resident=resident)
