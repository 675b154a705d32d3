"""Runs in a thread of their own, after a pause or awake: so a plan's runs find the computer."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from time import sleep
from typing import Final

from planner.engine.backends.base import Backend

PAUSE: Final = 2e-3
"""Seconds without a copy: a link that idles sleeps after some tens of microseconds."""
LONG_PAUSE: Final = 30e-3
"""The same of a link between GPUs, which sleeps deeper the longer it idles: behind verification and
preparation, tens of milliseconds, copies of 0.2 to 17 MB took up to 350 us longer in a first run,
and behind 2 ms 15 us (two H200s, measured 2026-11-30)."""


def after_pause(
    backend: Backend,
    gpu: int,
    run: Callable[[], float],
    wake: Callable[[], None] | None = None,
    *,
    seconds: float = PAUSE,
) -> float:
    """The same as `at_once` after a pause of so many seconds in which the link was idle."""
    sleep(seconds)
    return at_once(backend, gpu, run, wake)


def at_once(
    backend: Backend,
    gpu: int,
    run: Callable[[], float],
    wake: Callable[[], None] | None = None,
) -> float:
    """What `run` answers in a new thread that has reached the GPU.

    With `wake` that has been called right before, in the same thread, as before every sample of a
    plan but its first (`engine/awake.py`).
    """

    def work() -> float:
        backend.attach(gpu)
        if wake is not None:
            wake()
        return run()

    backend.start_clock()
    with ThreadPoolExecutor(1, "calibration") as pool:
        return pool.submit(work).result()
