"""Print how much the demo should move here: `1000MB` at most, less where the computer is small.

A quarter of the free memory and of the free disk each, so that the scratch file, its pages in the
cache and the destination (host memory, where no GPU is) fit beside whatever else runs.
"""

from __future__ import annotations

import shutil
import tempfile
from pathlib import Path

import psutil

MOST_MB = 1000  # a disk of 1 GB/s takes a second a sample; more would only make the reader wait
LEAST_MB = 16
SHARE = 4


def free_memory_bytes(group: Path = Path("/sys/fs/cgroup")) -> int:
    """Bytes that this process may still allocate: the system's, or the container's if less.

    `group` is the control group (version 2) that a container sees as its root. Cached file pages
    count as used there, but the kernel gives the inactive ones back before it refuses memory.
    """
    free: int = psutil.virtual_memory().available
    try:
        limit = int((group / "memory.max").read_text())
        used = int((group / "memory.current").read_text())
        statistics = (group / "memory.stat").read_text().split()
        cached = int(statistics[statistics.index("inactive_file") + 1])
    except (OSError, ValueError):  # no such files, or the limit is the word "max"
        return free
    return min(free, max(0, limit - used + cached))


def demo_size_mb(free_bytes: int) -> int:
    """Megabytes (10⁶) to move where so much is free, in the scarcest of memory and disks."""
    return max(LEAST_MB, min(MOST_MB, free_bytes // SHARE // 10**6))


def main() -> None:
    """Print the size as a plan spells it."""
    disks = (shutil.disk_usage(folder).free for folder in (Path.cwd(), tempfile.gettempdir()))
    print(f"{demo_size_mb(min(free_memory_bytes(), *disks))}MB")


if __name__ == "__main__":
    main()
