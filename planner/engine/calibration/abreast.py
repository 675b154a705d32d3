"""Several threads that begin at once, and end whatever becomes of the one that waits for them."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor, wait
from threading import Barrier, BrokenBarrierError
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

    def one(number: int) -> Found:
        try:
            return work(number)
        except BaseException:
            ready.abort()  # whoever waits for this thread would wait for ever
            raise

    with ThreadPoolExecutor(count) as pool:
        try:
            futures = [pool.submit(one, number) for number in range(count)]
            wait(futures)
        except BaseException:
            ready.abort()
            raise
    errors = [error for future in futures if (error := future.exception()) is not None]
    if errors:  # a broken barrier only says that somebody else failed
        raise next((e for e in errors if not isinstance(e, BrokenBarrierError)), errors[0])
    return [future.result() for future in futures]
