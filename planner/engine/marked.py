"""Operations of a worker inside named ranges, for profilers; only where ranges were asked for."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import AbstractContextManager
from typing import Protocol

from planner.engine.ops import DMA, FOLLOW, POOL, WAIT
from planner.engine.strategies.base import Operation


class Marker(Protocol):
    """What gives ranges: `backends.cuda_marks.Marks`."""

    def around(self, name: str) -> AbstractContextManager[None]:
        """A range as long as the block."""


VERBS = {POOL: "move", DMA: "issue", FOLLOW: "issue on", WAIT: "wait for"}
"""What an operation does, by its code."""


def marked(marks: Marker, operations: Sequence[Operation]) -> list[Operation]:
    """The operations, each in a range like `move chunk 3` or `wait for slot 0`."""
    return [_in_range(marks, VERBS[code], one) for code, one in enumerate(operations)]


def _in_range(marks: Marker, name: str, operation: Operation) -> Operation:
    def run(slot: int, chunk: int) -> None:
        what = f"{name} chunk {chunk}" if chunk >= 0 else f"{name} slot {slot}"
        with marks.around(what):
            operation(slot, chunk)

    return run
