"""Saving with `fsync`: no byte counts before the disk has it."""

from __future__ import annotations

import os
from dataclasses import replace
from time import perf_counter

from planner.engine.files import hint_of
from planner.engine.places import Place, SinkPlace
from planner.engine.transfer import Moved
from planner.errors import ExecutionError

fsync = os.fsync


def waits_for_disk(target: Place) -> bool:
    """Whether a disk must have what came to the target."""
    return isinstance(target, SinkPlace) and target.sink.durable


def brought_to_disk(target: Place, flow: str, moved: Moved) -> Moved:
    """Wait until the disk has the file, where the plan asks for it; that time is the last stage's.

    Raises
    ------
    ExecutionError
        If the disk could not take it.

    """
    if not isinstance(target, SinkPlace) or not waits_for_disk(target):
        return moved
    start = perf_counter()
    try:
        fsync(target.sink.fd)
    except OSError as error:
        raise ExecutionError(
            f"flow {flow}: {target.sink.path} could not be brought to the disk: {error.strerror}",
            hint=hint_of(error),
        ) from error
    end = perf_counter()
    *others, last = moved.intervals
    return replace(moved, end=end, intervals=(*others, (*last, (start, end))))
