"""Several threads that begin at once, and end whatever becomes of the one that waits for them."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from threading import Barrier
from typing import TypeVar

Found = TypeVar("Found")


def abreast(work: Callable[[int], Found], count: int, ready: Barrier) -> list[Found]:
    """What `work(0)` … `work(count - 1)` return, each in a thread; one alone in the caller's.

    Parameters
    ----------
    work
        Waits at `ready` before its clock starts.
    count
        As many as the barrier waits for.
    ready
        Broken where not all of them come: by an interrupt, or because no more threads are to be
        had. Else those who came would wait for ever, and the process for them.

    """
    if count == 1:
        return [work(0)]
    with ThreadPoolExecutor(count) as pool:
        try:
            return list(pool.map(work, range(count)))
        except BaseException:
            ready.abort()
            raise
