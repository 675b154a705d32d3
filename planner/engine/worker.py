"""A worker's operations: what its strategies' stages do, by the code that the generator yields."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

from planner.engine.backends.base import Lane
from planner.engine.ops import CLEAR, DMA, POOL, WAIT
from planner.engine.strategies.base import (
    Address,
    Bound,
    Chunks,
    Hands,
    Operation,
    Stage,
    at_rest,
)


def equip(bound: Bound, hands: Hands, stages: Sequence[Stage], between: Sequence[Address]) -> None:
    """Give a worker the operations of all stages.

    Parameters
    ----------
    bound, hands
        The movement's ends, and the worker's part in it.
    stages
        In the order in which a byte meets them.
    between
        Where a chunk lies between each stage and the next.

    """
    hands.at = [0] * bound.depth
    ends = (at_rest(bound.source, bound.chunks), *between, at_rest(bound.target, bound.chunks))
    for stage, (before, after) in zip(stages, pairwise(ends), strict=True):
        stage.equip(bound, hands, before, after)
    if hands.issue:
        hands.issue[0] = _noted(hands, hands.issue[0], bound.chunks, counts=hands.pool is None)


def _noted(hands: Hands, issue: Operation, chunks: Chunks, *, counts: bool) -> Operation:
    """The operation, which also notes what is in the slot and, unless a pool does, its bytes."""
    at, sizes = hands.at, chunks.sizes

    def run(slot: int, chunk: int) -> None:
        issue(slot, chunk)
        at[slot] = chunk
        if counts:
            hands.moved += sizes[chunk]

    return run


def reset(hands: Hands) -> None:
    """Forget what an earlier run logged."""
    hands.moved = 0
    hands.log.clear()
    for begin in hands.begin:
        begin()
    for lane in hands.lanes:
        lane.log.clear()


def operations_of(hands: Hands) -> list[Operation]:
    """The worker's operations by code."""
    operations: list[Operation] = [_nothing] * DMA
    if hands.pool is not None:
        operations[POOL] = hands.pool
    lanes = [lane for lane in hands.lanes if lane not in hands.blocking]
    operations[WAIT] = _waiter(lanes[:1])
    operations[CLEAR] = _waiter(lanes[1:])
    for k, issue in enumerate(hands.issue):
        operations.append(_follower(issue, lanes[k], lanes[k - 1]) if k else issue)
    return operations


def _nothing(_slot: int, _chunk: int) -> None:
    raise RuntimeError("a worker was asked for what its strategy does not do")


def _follower(issue: Operation, lane: Lane, before: Lane) -> Operation:
    """A further copy of a slot, behind the one before by an event."""

    def run(slot: int, chunk: int) -> None:
        lane.follow(slot, before)
        issue(slot, chunk)

    return run


def _waiter(lanes: Sequence[Lane]) -> Operation:
    """Wait until each lane's copy of the slot has arrived."""
    if len(lanes) == 1:
        wait = lanes[0].wait
        return lambda slot, _chunk: wait(slot)

    def run(slot: int, _chunk: int) -> None:
        for lane in lanes:
            lane.wait(slot)

    return run
