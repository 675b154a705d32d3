"""One way of a flow as its workers go it: the stages, and where a chunk rests between two of them.

Between two stages a chunk lies in a slot of host memory (a ring), in a slot of a GPU's memory on
the way to another GPU (staging), or at its place in a GPU's memory where it stays and is copied on
from (a fan-out).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Final, TypeAlias

from planner.engine.backends.base import Backend, DeviceBuffer
from planner.engine.memory import round_up
from planner.engine.places import DevicePlace, Place
from planner.engine.strategies import stages_of, stages_of_hops
from planner.engine.strategies.base import Address, Stage
from planner.machine.schema import Hbm, Machine
from planner.results import Hop

ALIGN: Final = 512
"""Bytes that staging slots are aligned to: what `cudaMalloc` aligns to at least is 256."""


@dataclass(frozen=True, slots=True)
class RingRest:
    """A slot of the ring in host memory."""


@dataclass(frozen=True, slots=True)
class SourceRest:
    """Where it was in the source: the stage before has only made it reachable."""


@dataclass(frozen=True, slots=True)
class StagingRest:
    """A slot in the memory of a GPU that is only passed: the driver's index, the node's name."""

    gpu: int
    node: str


Rest: TypeAlias = RingRest | SourceRest | StagingRest | DevicePlace
"""Where a chunk lies between two stages; a `DevicePlace` keeps it."""


@dataclass(frozen=True, slots=True)
class Route:
    """Hops that run together.

    `stages` are those of all hops in the order in which a byte meets them, `owners` the number of
    the hop that each belongs to, `rests` lie between each stage and the next. `source` is where the
    bytes are taken from if that is not the movement's own source. The workers are bound to `cores`,
    unless it is `None`.
    """

    hops: tuple[Hop, ...]
    stages: tuple[Stage, ...]
    owners: tuple[int, ...]
    rests: tuple[Rest, ...]
    source: Place | None = None
    cores: frozenset[int] | None = None

    def hop_of(self, stage: int) -> Hop:
        """The hop that a stage belongs to."""
        return self.hops[self.owners[stage]]

    @property
    def stays(self) -> bool:
        """Whether a stage leaves chunks where they are in the source."""
        return any(stage.stays for stage in self.stages)

    @property
    def has_ring(self) -> bool:
        """Whether a ring in host memory takes part."""
        return any(isinstance(rest, RingRest) for rest in self.rests)

    @property
    def staged_on(self) -> tuple[StagingRest, ...]:
        """The GPUs that are only passed."""
        return tuple(rest for rest in self.rests if isinstance(rest, StagingRest))


def route_of(machine: Machine, hops: Sequence[Hop]) -> Route:
    """The route of hops that run together; raises `UnavailableError` where one cannot be done."""
    stages: list[Stage] = []
    owners: list[int] = []
    rests: list[Rest] = []
    every = stages_of_hops(machine, hops)
    for number, hop in enumerate(hops):
        for k, stage in enumerate(every[number]):
            if stages:
                rests.append(_rest(machine, hop, stages, first=k == 0))
            stages.append(stage)
            owners.append(number)
    return Route(tuple(hops), tuple(stages), tuple(owners), tuple(rests))


def _rest(machine: Machine, hop: Hop, before: Sequence[Stage], *, first: bool) -> Rest:
    """Where a chunk lies in front of a stage of the hop, the `first` or a later one."""
    node = machine.nodes[hop.start]
    if all(stage.stays for stage in before):
        return SourceRest()
    return StagingRest(node.device, hop.start) if first and isinstance(node, Hbm) else RingRest()


def passed_on(machine: Machine, route: Route, place: DevicePlace, hop: Hop) -> Route:
    """The route with one hop more, which copies each chunk on from `place`, where it stays."""
    further = stages_of(machine, hop)
    hops = (*route.hops, hop)
    owners = (*route.owners, *([len(route.hops)] * len(further)))
    stages, rests = (*route.stages, *further), (*route.rests, place)
    return replace(route, hops=hops, stages=stages, owners=owners, rests=rests)


class Staging:
    """Workers x depth slots in the memory of a GPU that chunks only pass."""

    __slots__ = ("_backend", "_depth", "_stride", "buffer")

    def __init__(self, backend: Backend, gpu: int, slots: tuple[int, int], size: int) -> None:
        workers, depth = slots
        self._backend, self._depth = backend, depth
        self._stride = round_up(max(size, 1), ALIGN)
        self.buffer: DeviceBuffer = backend.allocate(gpu, workers * depth * self._stride)

    @property
    def size(self) -> int:
        """Bytes of all slots."""
        return self.buffer.size

    def of(self, worker: int) -> Address:
        """The addresses of a worker's slots."""
        first = self.buffer.address + worker * self._depth * self._stride
        slots = [first + slot * self._stride for slot in range(self._depth)]
        return lambda slot, _chunk: slots[slot]

    def close(self) -> None:
        """Give the memory back."""
        self._backend.release(self.buffer)
