"""What a strategy is: one way to carry bytes across one link.

A strategy is pure. It is given a `Crossing` (where, from which kind of memory to which, how much)
and a `Shape` (chunk, depth, workers) and answers with a reason why it does not apply, with its
stages, and with what it costs before the first byte moves.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal, cast

from planner.machine.curve import Curve
from planner.machine.schema import CurveName, Direction, Hbm, Link, Machine, Ram
from planner.machine.tables import CopyTable
from planner.model.pipeline import Stage
from planner.results import SetupStep

Kind = Literal[
    "file",  # at rest on a disk
    "pageable",  # ordinary host memory
    "pinned",  # a page-locked host buffer that holds all the bytes
    "mapped",  # a file mapped into memory and registered in place
    "fill",  # a ring that the CPU fills and a copy engine empties
    "drain",  # a ring that a copy engine fills and the CPU empties
    "relay",  # a ring between two copy engines
    "device",  # a GPU's memory
]
RINGS: frozenset[Kind] = frozenset({"fill", "drain", "relay"})
"""Kinds of memory that hold only some chunks at a time and so couple the hops beside them."""


@dataclass(frozen=True, slots=True)
class Shape:
    """The numbers of a pipeline: chunk bytes, slots per worker, workers."""

    chunk: int
    depth: int = 1
    workers: int = 1

    @property
    def ring(self) -> int:
        """Bytes of the ring: workers x depth x chunk."""
        return self.chunk * self.depth * self.workers


@dataclass(frozen=True, slots=True)
class Crossing:
    """One flow on one link: from the memory kind `before` at `start` to `after` at `end`.

    `cached` is the share of the source file that is in the page cache, `hot` whether the host
    buffer was just written. `link` is empty inside one place.
    """

    machine: Machine
    link: str
    start: str
    end: str
    before: Kind
    after: Kind
    size: int
    cached: float = 1.0
    hot: bool = False

    @property
    def wire(self) -> Link:
        """The link."""
        return self.machine.links[self.link]

    @property
    def direction(self) -> Direction:
        """The link's direction; a route never uses one that is missing."""
        return cast("Direction", self.wire.direction(self.start))

    @property
    def resource(self) -> str:
        """Name of the link's direction as a shared resource, `pcie0.forward`."""
        return f"{self.link}.{'forward' if self.start == self.wire.ends[0] else 'backward'}"

    @property
    def host(self) -> str:
        """Name of the host node of this crossing."""
        for name in (self.start, self.end):
            if isinstance(self.machine.nodes[name], Ram):
                return name
        return cast("Hbm", self.machine.nodes[self.start]).host

    @property
    def ram(self) -> Ram:
        """The host node of this crossing."""
        return cast("Ram", self.machine.nodes[self.host])

    @property
    def gpu(self) -> Hbm:
        """The GPU at either end."""
        nodes = (self.machine.nodes[self.end], self.machine.nodes[self.start])
        return next(node for node in nodes if isinstance(node, Hbm))

    def curve(self, *names: CurveName) -> Curve | None:
        """The first of the named curves that the direction has."""
        curves = self.direction.curves
        return next((curves[name] for name in names if name in curves), None)

    def opposite(self) -> tuple[str, Direction | None]:
        """The other direction of the link, and its name as a resource."""
        ends = self.wire.ends
        if self.start == ends[0]:
            return f"{self.link}.backward", self.wire.backward
        return f"{self.link}.forward", self.wire.forward


@dataclass(frozen=True, slots=True)
class Strategy:
    """One way across one link.

    `takes` and `gives` are the kinds of memory at its two ends, `across` the kinds of the two
    nodes. `own_ring` strategies bring a ring of their own; `single` ones are one call for all.
    `lacks(crossing)` is the reason why it does not apply, or `None`.
    """

    name: str
    across: tuple[str, str]
    takes: frozenset[Kind]
    gives: frozenset[Kind]
    lacks: Callable[[Crossing], str | None]
    stages: Callable[[Crossing, Shape], tuple[Stage, ...]]
    setup: Callable[[Crossing, Shape], tuple[SetupStep, ...]]
    own_ring: bool = False
    single: bool = False


def nothing(_crossing: Crossing, _shape: Shape) -> tuple[SetupStep, ...]:
    """No setup."""
    return ()


def step(name: str, size: int, rate: float | None, latency: float = 0.0) -> SetupStep | None:
    """A setup step of `size` bytes at `rate`, or `None` where it costs nothing that is known."""
    if rate is None and latency == 0.0:
        return None
    return SetupStep(
        name=name, duration_s=latency + (size / rate if rate else 0.0), size_bytes=size
    )


def steps(*found: SetupStep | None) -> tuple[SetupStep, ...]:
    """The steps that cost anything."""
    return tuple(s for s in found if s is not None and s.duration_s > 0)


def dma(crossing: Crossing, curve: Curve, shape: Shape) -> Stage:
    """A copy engine's stage on the crossing's link.

    Each byte takes the engine's time of its chunk, and the opposite direction its interference. A
    single copy takes what a lone copy takes; its latency is the lag, the rest is service.
    """
    chunk = min(shape.chunk, max(1, crossing.size))
    lag = curve.latency - curve.queued_gap

    def alone(length: int) -> float:
        return max(0.0, curve.seconds(length) - lag)

    service = alone if shape.chunk >= crossing.size else curve.service
    charges = {crossing.resource: service(chunk) / chunk}
    other, opposite = crossing.opposite()
    if opposite is not None and opposite.against > 0:
        charges[other] = opposite.against / opposite.rate
    return Stage(
        crossing.resource,
        "engine",
        service,
        lag=lag,
        charges=charges,
    )


def copy_stage(
    crossing: Crossing, table: CopyTable, shape: Shape, ring: int, *, dma: bool
) -> Stage:
    """All workers copying between plain memory (or the page cache) and a ring of `ring` bytes.

    The workers share the capacity C(W, R), so each serves one chunk in W * chunk / C.
    """
    capacity = table.rate(shape.workers, ring, beside_dma=dma, depth=shape.depth)
    per_byte = shape.workers / capacity
    overhead = table.per_chunk

    def seconds(length: int) -> float:
        return overhead + length * per_byte

    resource = f"{crossing.host}.copy"
    return Stage(resource, "pool", seconds, charges={resource: 1 / capacity}, cause="host_copy")
