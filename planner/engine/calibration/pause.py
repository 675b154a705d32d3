"""A run after a pause, in a thread of its own: so the runs of a plan find the computer."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from time import sleep
from typing import Final

from planner.engine.backends.base import Backend

PAUSE: Final = 2e-3
"""Seconds without a copy: a link that idles sleeps after some tens of microseconds."""


def after_pause(backend: Backend, gpu: int, run: Callable[[], float]) -> float:
    """What `run` answers in a new thread that has reached the GPU, whose link was idle before."""

    def work() -> float:
        backend.attach(gpu)
        return run()

    sleep(PAUSE)
    backend.start_clock()
    with ThreadPoolExecutor(1, "calibration") as pool:
        return pool.submit(work).result()
