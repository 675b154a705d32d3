"""What a job that failed tells: where it happened, and nothing that would hold memory."""

from __future__ import annotations

import traceback

from planner.engine.files import hint_of
from planner.engine.serving.job import Job
from planner.engine.serving.mapped import UnmappableError
from planner.errors import ExecutionError, PlannerError


def raise_error(job: Job) -> None:
    """Raise what the job failed with, if it did."""
    error = job.stop.error
    if error is not None:
        raise _forgotten(error)
    if job.stop.asked:
        raise ExecutionError("the transfer was called off")


def told(job: Job, chunk: int, error: BaseException) -> BaseException:
    """The error with the place where it happened."""
    if isinstance(error, UnmappableError):
        return error  # nothing is wrong with the file
    if not isinstance(error, (OSError, PlannerError, RuntimeError)):
        return error
    part = job.chunks[chunk][0]
    where = getattr(part.source, "path", None) or getattr(part.target, "path", "memory")
    found = ExecutionError(
        f"{where}, bytes {part.start} to {part.start + part.size}: {error}",
        hint=hint_of(error),
    )
    found.__cause__ = error
    return found


def _forgotten(error: BaseException) -> BaseException:
    """The error without the frames' variables, which would hold memory for as long as it lives."""
    one: BaseException | None = error
    while one is not None:
        traceback.clear_frames(one.__traceback__)
        one = one.__cause__
    return error
