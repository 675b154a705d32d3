"""What a flow asks of its ends: its share of the bytes, and the pieces that they lie in."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

from planner.engine.layout import Layout, pieces_of, scattered
from planner.model.need import Need
from planner.model.needs import Demand
from planner.plan.schema import FileSource, Flow, Plan
from planner.results import Hop


@dataclass(frozen=True)
class Task:
    """What a flow asks of its ends.

    `offset` is where its bytes begin in the flow of the plan: not 0 for the later shares of a flow
    that is split over several destinations. `kept` is how many repeats the target holds at once.
    """

    flow: Flow
    need: Need
    hops: tuple[Hop, ...]
    offset: int = 0
    kept: int = 1

    @property
    def files(self) -> tuple[FileSource, ...]:
        """The ranges of the plan's files that belong to this share."""
        return share_of(self.flow.files, self.offset, self.need.size)

    @cached_property
    def layout(self) -> Layout | None:
        """Where the pieces of the bytes lie in memory; `None` where they lie in one range.

        Those of a file do.
        """
        if self.need.first == "file":
            return None
        sizes = pieces_of(self.flow, self.offset, self.need.size)
        return scattered(sizes) if sizes else None

    @property
    def source_bytes(self) -> int:
        """Bytes of memory that the source takes, gaps between pieces included."""
        return self.layout.extent if self.layout is not None else self.need.size


def share_of(files: Sequence[FileSource], offset: int, size: int) -> tuple[FileSource, ...]:
    """The bytes `offset` to `offset + size` of the files one after another."""
    found, start = [], 0
    for source in files:
        low, high = max(offset - start, 0), min(offset + size - start, source.size_bytes)
        if low < high:
            part = {"offset": source.offset + low, "size_bytes": high - low}
            found.append(source.model_copy(update=part))
        start += source.size_bytes
    return tuple(found)


def shares(plan: Plan, listed: Sequence[Demand]) -> list[int]:
    """Where each demand's bytes begin in its flow: the shares of a split flow follow each other."""
    found: list[int] = []
    seen: dict[str, int] = {}
    at = 0
    for demand in listed:
        flow = plan.flows[demand.flow]
        turn = seen.get(demand.flow, 0)
        seen[demand.flow] = turn + 1
        if flow.copy_mode != "shard" or turn % len(flow.destinations) == 0:
            at = 0
        found.append(at)
        at += demand.need.size
    return found
