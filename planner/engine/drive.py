"""Who carries a part's work out: each worker by itself, or one thread for all that read files."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import partial

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
    except Stopped:
        _settle(hands)
        raise
    except BaseException as error:
        stop.fail(part.told(flow, hands.at[slot] if chunk < 0 else chunk, code, error))
        _settle(hands)
        raise Stopped from error


def dispatch(part: Part, numbers: Iterator[int], flow: str, stop: Stop) -> None:
    """Do the work of all of a part's workers in one thread, beside which others read."""
    work = dispatcher(part, numbers, stop)
    try:
        work.run()
    except Stopped:
        _settle(*part.hands)
        raise
    except BaseException as error:
        code, chunk = work.at
        stop.fail(part.told(flow, chunk, code, error))
        _settle(*part.hands)
        raise Stopped from error


def _settle(*workers: Hands) -> None:
    """Nothing may be in flight when the memory is given back."""
    for hands in workers:
        for lane in hands.lanes:
            lane.settle()
