"""Page faults of a file's mapping: what they take of whoever touches it, and of the disk."""

from __future__ import annotations

from planner.model.strategies.base import Crossing
from planner.model.strategies.unmeasured import MAPPED_READS, unmeasured


def fault_time(crossing: Crossing) -> float:
    """Seconds a byte of touching a file's mapping takes; 0 for other memory.

    What is cached costs minor faults, what is not comes from the disk while the thread waits.
    """
    if crossing.before != "mapping":
        return 0.0
    touch = crossing.ram.setup.map_touch
    disk = crossing.disk()
    curve = None if disk is None else disk.curve("mmap")
    warm = 1 / touch if touch else 0.0
    cold = 1 / curve.rate if curve else 0.0
    return crossing.cached * warm + (1 - crossing.cached) * max(cold, warm)


def fault_charges(crossing: Crossing) -> dict[str, float]:
    """What a byte of a file's mapping takes of its disk: the share that is not cached.

    A thread that waits for one page after another reaches less than the disk has, so several may
    together read faster than one, up to the disk's own rate.
    """
    missing = 1 - crossing.cached
    disk = crossing.disk() if crossing.before == "mapping" and missing > 0 else None
    if disk is None:
        return {}
    curve, rate = disk.curve("mmap"), disk.direction.rate
    return {disk.resource: missing / (max(rate, curve.rate) if curve else rate)}


def no_faults(crossing: Crossing) -> str | None:
    """Why nothing is known of touching a mapping that is wholly or partly cold, or `None`."""
    if crossing.cached >= 1:
        return None
    if crossing.curve("mmap") is None:
        lacks = unmeasured(crossing.link, MAPPED_READS)
        return f"the file is not wholly in the page cache, and {lacks}"
    return None
