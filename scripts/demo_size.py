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


def free_memory_bytes() -> int:
    """Bytes that this process may still allocate: the system's, or the container's if less."""
    free: int = psutil.virtual_memory().available
    group = Path("/sys/fs/cgroup")  # cgroup v2; a container sees its own limit at the root
    try:
        limit = int((group / "memory.max").read_text())
        used = int((group / "memory.current").read_text())
    except (OSError, ValueError):  # no such files, or the limit is the word "max"
        return free
    return min(free, max(0, limit - used))


def demo_size_mb() -> int:
    """Megabytes (10⁶) that fit the memory, this folder's disk and that of temporary files."""
    disks = (shutil.disk_usage(folder).free for folder in (Path.cwd(), tempfile.gettempdir()))
    free = min(free_memory_bytes(), *disks)
    return max(LEAST_MB, min(MOST_MB, free // SHARE // 10**6))


if __name__ == "__main__":
    print(f"{demo_size_mb()}MB")
