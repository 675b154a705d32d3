"""The page cache under a file: how much of it is there, and how to bring it in or out.

On a virtual machine a dropped page may still be in the host's cache, so cold there is `guest-cold`.
"""

from __future__ import annotations

import ctypes
import mmap
import os
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import Final

import numpy as np

from planner.engine.memory import PAGE, close_map
from planner.errors import ExecutionError
from planner.plan.schema import FileSource
from planner.results import CacheState

READ: Final = 8 << 20
"""Bytes of one read that warms the cache."""
WARM: Final = 0.999
"""Share from which a file counts as warm: the tail of the last page may be missing."""
COLD: Final = 0.001


@contextmanager
def _opened(path: str) -> Iterator[int]:
    """A file of the run, to be looked at between two samples.

    Raises
    ------
    ExecutionError
        If it has gone meanwhile, or was cut short.

    """
    try:
        fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
        try:
            yield fd
        finally:
            os.close(fd)
    except (OSError, ValueError) as error:  # a mapping longer than the file is the latter
        reason = getattr(error, "strerror", None) or error
        raise ExecutionError(
            f"{path} cannot be read any more: {reason}", hint="leave it as it is during the run"
        ) from error


def resident(sources: Sequence[FileSource]) -> float:
    """The share of the sources' bytes whose pages are in the page cache, by mincore(2).

    The kernel tells it to the file's owner or who may write it; to anybody else it says that all
    pages are there, so the answer counts only for files of one's own.
    """
    total = sum(source.size_bytes for source in sources)
    there = sum(_resident(source) for source in sources)
    return there / total if total else 1.0


def _resident(source: FileSource) -> int:
    """Bytes of one source that are in the page cache, to the page."""
    if source.size_bytes == 0:
        return 0
    start = source.offset - source.offset % PAGE
    length = source.offset + source.size_bytes - start
    with _opened(source.path) as fd:
        mapping = mmap.mmap(fd, length, flags=mmap.MAP_SHARED, prot=mmap.PROT_READ, offset=start)
    view = np.frombuffer(mapping, np.uint8)
    pages = -(-length // PAGE)
    flags = np.zeros(pages, np.uint8)
    libc = ctypes.CDLL(None, use_errno=True)
    failed = libc.mincore(
        ctypes.c_void_p(int(view.ctypes.data)),
        ctypes.c_size_t(length),
        ctypes.c_void_p(int(flags.ctypes.data)),
    )
    del view
    close_map(mapping)
    if failed:
        return 0
    return min(source.size_bytes, int((flags & 1).sum()) * PAGE)


def warm(sources: Sequence[FileSource], threads: int = 4) -> None:
    """Read every byte once, through the page cache."""
    parts = [
        (source.path, source.offset + at, min(READ, source.size_bytes - at))
        for source in sources
        for at in range(0, source.size_bytes, READ)
    ]

    def read(part: tuple[str, int, int]) -> None:
        path, offset, length = part
        with _opened(path) as fd:
            while length > 0:
                data = os.pread(fd, length, offset)
                if not data:
                    return
                offset, length = offset + len(data), length - len(data)

    with ThreadPoolExecutor(threads) as pool:
        list(pool.map(read, parts))


def drop(sources: Sequence[FileSource]) -> None:
    """Write back what is dirty, then let the kernel drop the files' pages."""
    for path in dict.fromkeys(source.path for source in sources):
        with _opened(path) as fd:
            os.fsync(fd)
            os.posix_fadvise(fd, 0, 0, os.POSIX_FADV_DONTNEED)


def is_guest(root: Path = Path("/")) -> bool:
    """Whether this is a virtual machine, as the processor's flags say."""
    try:
        text = (root / "proc/cpuinfo").read_text(encoding="ascii", errors="replace")
    except OSError:
        return False
    return any(line.startswith("flags") and " hypervisor" in line for line in text.splitlines())


def state_of(share: float) -> CacheState:
    """The word for a share of resident pages."""
    if share >= WARM:
        return "warm"
    if share <= COLD:
        return "guest-cold" if is_guest() else "cold"
    return "partly"


def wanted(state: str, written: str | float) -> float | None:
    """The share of a source that the page cache must hold; `None` leaves it as it is.

    Parameters
    ----------
    state
        What was predicted for, or asked for: `warm`, `cold`, or another word.
    written
        What the plan says of the flow: it may be a share.

    """
    if state in ("warm", "cold"):
        return 1.0 if state == "warm" else 0.0
    return written if isinstance(written, float) else None


def enforce(sources: Sequence[FileSource], wanted: float) -> CacheState:
    """Bring the files to a state before a sample and say what they are in.

    Parameters
    ----------
    sources
        Ranges of files.
    wanted
        1 for warm, 0 for cold; a share between drops all and reads the front again.

    """
    if wanted >= 1:
        if resident(sources) < WARM:
            warm(sources)
    elif wanted <= 0:
        drop(sources)
    else:
        drop(sources)
        warm(_front(sources, wanted))
    return state_of(resident(sources))


def _front(sources: Sequence[FileSource], share: float) -> list[FileSource]:
    """The first `share` of the bytes."""
    left = int(sum(source.size_bytes for source in sources) * share)
    found = []
    for source in sources:
        size = min(left, source.size_bytes)
        if size > 0:
            found.append(source.model_copy(update={"size_bytes": size}))
        left -= size
    return found
