"""What every hop does when: slices of service on the plan's clock, predicted or measured."""

from __future__ import annotations

from typing import Literal

from planner.schedule import Result


class TimelineRow(Result):
    """What one hop of a flow, its setup or a compute block does, as slices in order of start.

    The columns are equally long. A slice stands for `chunks` services between `start_s` and
    `end_s`; in `busy_s` of these seconds `lane` really serves `size_bytes` of the flow (of each of
    its members). The busy times of a hop's slices sum to its busy time, all repeats together.
    """

    lane: str
    kind: Literal["hop", "setup", "compute"]
    flow: str
    hop: int | None = None
    members: int = 1
    start_s: tuple[float, ...]
    end_s: tuple[float, ...]
    busy_s: tuple[float, ...]
    size_bytes: tuple[int, ...]
    chunks: tuple[int, ...]


class Timeline(Result):
    """All rows, on a clock that begins with the plan.

    `played` follows every chunk through the schedule, `outline` knows only when each flow begins
    and ends, `measured` is what was clocked.
    """

    origin: Literal["played", "outline", "measured"]
    span_s: float
    rows: tuple[TimelineRow, ...]


class MemoryLayer(Result):
    """Bytes that one flow holds at a node from one instant to another."""

    flow: str
    start_s: float
    end_s: float
    size_bytes: int
    pinned: bool = False


class MemoryTrack(Result):
    """What a node (each of `members`) holds over time; the layers add up to its use."""

    node: str
    members: int = 1
    capacity_bytes: int | None = None
    layers: tuple[MemoryLayer, ...]
