"""Who carries a part's work out: each worker by itself, or one thread for all that read files."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import partial

from planner.engine.backends.base import settle_all
from planner.engine.marked import Marker, marked
from planner.engine.ops import Op
from planner.engine.part import Part
from planner.engine.readers import dispatcher
from planner.engine.strategies.base import Hands, Operation
from planner.engine.waits import Stop, Stopped
from planner.engine.worker import operations_of


def driver(
    part: Part, hands: Hands, worker: Iterator[Op], flow: str, stop: Stop, marks: Marker | None
) -> Callable[[], None]:
    """What does as a worker says; made beforehand, so that a run begins with an operation."""
    operations = operations_of(hands)
    if marks is not None:
        operations = marked(marks, operations)
    return partial(_drive, part, hands, worker, operations, flow, stop)


def _drive(
    part: Part,
    hands: Hands,
    worker: Iterator[Op],
    operations: Sequence[Operation],
    flow: str,
    stop: Stop,
) -> None:
    """Do what a worker says until it is through, or the run is called off."""
    chunk = slot = code = 0
    try:
        for code, slot, chunk in worker:
            if stop.asked:
                raise Stopped  # noqa: TRY301 - this loop is the hot path
            operations[code](slot, chunk)
    except BaseException as error:
        at = hands.at[slot] if chunk < 0 else chunk
        stopped = stop.leaving(error, part.told(flow, at, code, error))
        settle_all(hands.lanes)
        raise stopped from error


def dispatch(part: Part, numbers: Iterator[int], flow: str, stop: Stop) -> None:
    """Do the work of all of a part's workers in one thread, beside which others read."""
    work = dispatcher(part, numbers, stop)
    try:
        work.run()
    except BaseException as error:
        code, chunk = work.at
        stopped = stop.leaving(error, part.told(flow, chunk, code, error))
        settle_all(lane for hands in part.hands for lane in hands.lanes)
        raise stopped from error
