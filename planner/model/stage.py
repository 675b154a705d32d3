"""One server of a pipeline, and what a pipeline was found to take."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Literal

from planner.results import Cause


@dataclass(frozen=True, slots=True)
class Turns:
    """How the workers of a ring are in each other's way.

    `alone(length)` is a chunk's time on a worker that never waits for a turn, `turn(length)` what
    it holds the locks that all take in turn, `one_slot` the share of the pace that one slot leaves
    where copies and engine are equally fast, `late` the seconds that it stands idle in each round.
    """

    alone: Callable[[int], float]
    turn: Callable[[int], float]
    one_slot: float = 1.0
    late: float = 0.0


@dataclass(frozen=True, slots=True)
class Stage:
    """One server inside a hop.

    `seconds(length)` is the service time of one chunk: for a `pool` stage on one worker while all
    workers are at it, for an `engine` stage on the one engine when chunks queue. `lag` is the time
    from the end of an engine's service until the chunk counts as arrived (its latency without its
    gap), `idle` what the first run takes longer because its engine had nothing to do before, and
    `overhead` what every run takes beside the engine's copies. `charges` maps each shared resource
    to the seconds of it that one byte takes. A `through` stage passes bytes on as they come (a
    network adapter, a wire behind another): it begins with the stage before it and ends no sooner.
    A `whole` one is given all its bytes in one call: the engine does nothing else before that has
    ended. One that `blocks` keeps whoever calls it until its chunk has arrived. `turns` says more
    of the workers of a ring, `waking` what a run by them takes until all are at their pace, `None`
    where that was not measured with an engine. `moved` is how many bytes cross its wire for each
    of the flow: fewer where a GPU touches only a part in place. `several` is by what factor the
    workers of a `pool` copy faster where several GPUs read their rings.
    """

    resource: str
    kind: Literal["pool", "engine"]
    seconds: Callable[[int], float]
    lag: float = 0.0
    idle: float = 0.0
    overhead: float = 0.0
    charges: Mapping[str, float] = field(default_factory=dict)
    cause: Cause = "bandwidth"
    through: bool = False
    whole: bool = False
    blocks: bool = False
    turns: Turns | None = None
    moved: float = 1.0
    several: float = 1.0
    waking: float | None = None


@dataclass(frozen=True, slots=True)
class Trace:
    """What `exact` found: total time, busy time of each stage, and the time of the first arrival.

    `busy_s` is the union of a stage's service intervals; a pool stage is busy while any worker is.
    """

    total_s: float
    busy_s: tuple[float, ...]
    first_s: float


def lengths(size: int, chunk: int) -> list[int]:
    """The chunks of `size` bytes: full ones, then what is left."""
    full, rest = divmod(size, chunk)
    return [chunk] * full + ([rest] if rest else [])


class Busy:
    """Union of intervals that come in order of their start."""

    __slots__ = ("end", "total")

    def __init__(self) -> None:
        self.total = 0.0
        self.end = 0.0

    def add(self, start: float, end: float) -> None:
        """Take one more interval in; none starts before one that was added already."""
        if end > self.end:
            self.total += end - max(start, self.end)
            self.end = end


class Noted(Busy):
    """The same, with every interval kept."""

    __slots__ = ("intervals",)

    def __init__(self) -> None:
        super().__init__()
        self.intervals: list[tuple[float, float]] = []

    def add(self, start: float, end: float) -> None:
        """Take one more interval in, and keep it."""
        self.intervals.append((start, end))
        super().add(start, end)


class Costs(dict[int, float]):
    """Service times of one stage by the length of the chunk: most chunks have the same."""

    def __init__(self, seconds: Callable[[int], float]) -> None:
        super().__init__()
        self._seconds = seconds

    def __missing__(self, length: int) -> float:
        """Ask the stage, once."""
        self[length] = found = self._seconds(length)
        return found
