"""Operations of a worker inside named ranges, for profilers; only where ranges were asked for."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import AbstractContextManager, nullcontext
from typing import Protocol

from planner.engine.ops import CLEAR, DMA, FOLLOW, POOL, WAIT
from planner.engine.strategies.base import Operation
from planner.results import Hop


class Marker(Protocol):
    """What gives ranges: `backends.cuda_marks.Marks`."""

    def around(self, name: str) -> AbstractContextManager[None]:
        """A range as long as the block."""


VERBS = {POOL: "move", WAIT: "wait for", CLEAR: "clear", DMA: "issue", FOLLOW: "issue on"}
"""What an operation does, by its code; whatever follows the first engine issues on."""


def marked(marks: Marker, operations: Sequence[Operation]) -> list[Operation]:
    """The operations, each in a range like `move chunk 3` or `wait for slot 0`."""
    return [_in_range(marks, VERBS[min(code, FOLLOW)], one) for code, one in enumerate(operations)]


def hops_range(marks: Marker | None, hops: Sequence[Hop]) -> AbstractContextManager[None]:
    """The range of the hops that run together; none where none was asked for."""
    if marks is None:
        return nullcontext()
    return marks.around(", ".join(f"{h.start} -> {h.end} {h.strategy}" for h in hops))


def _in_range(marks: Marker, name: str, operation: Operation) -> Operation:
    def run(slot: int, chunk: int) -> None:
        what = f"{name} chunk {chunk}" if chunk >= 0 else f"{name} slot {slot}"
        with marks.around(what):
            operation(slot, chunk)

    return run
