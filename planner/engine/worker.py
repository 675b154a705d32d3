"""A worker's operations: what its strategies' stages do, by the code that the generator yields."""

from __future__ import annotations

from collections.abc import Sequence

from planner.engine.backends.base import Lane
from planner.engine.ops import DMA, FOLLOW, POOL, WAIT
from planner.engine.strategies.base import (
    Address,
    Bound,
    Chunks,
    Hands,
    Operation,
    Stage,
    at_rest,
    in_ring,
)


def equip(bound: Bound, hands: Hands, stages: Sequence[Stage]) -> None:
    """Give a worker the operations of all stages, with the ring between the first and the last."""
    hands.at = [0] * bound.depth
    slots: Address | None = in_ring(bound.ring, hands) if bound.ring is not None else None
    for k, stage in enumerate(stages):
        stays = all(earlier.stays for earlier in stages[:k])
        before = at_rest(bound.source, bound.chunks) if stays else slots
        after = at_rest(bound.target, bound.chunks) if k == len(stages) - 1 else slots
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
    operations: list[Operation] = [_nothing] * 4
    if hands.pool is not None:
        operations[POOL] = hands.pool
    if hands.issue:
        operations[DMA] = hands.issue[0]
    if len(hands.issue) > 1:
        operations[FOLLOW] = _follower(hands.issue[1], hands.lanes)
    operations[WAIT] = _waiter(hands.lanes)
    return operations


def _nothing(_slot: int, _chunk: int) -> None:
    raise RuntimeError("a worker was asked for what its strategy does not do")


def _follower(issue: Operation, lanes: Sequence[Lane]) -> Operation:
    """The second copy of a slot, behind the first by an event."""
    first, second = lanes

    def run(slot: int, chunk: int) -> None:
        second.follow(slot, first)
        issue(slot, chunk)

    return run


def _waiter(lanes: Sequence[Lane]) -> Operation:
    """Wait until every lane's copy of the slot has arrived."""
    if len(lanes) == 1:
        wait = lanes[0].wait
        return lambda slot, _chunk: wait(slot)

    def run(slot: int, _chunk: int) -> None:
        for lane in lanes:
            lane.wait(slot)

    return run
