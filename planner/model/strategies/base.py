"""What a strategy is: one way to carry bytes across one link.

A strategy is pure. It is given a `Crossing` (where, from which kind of memory to which, how much)
and a `Shape` (chunk, depth, workers) and answers with a reason why it does not apply, with its
stages, and with what it costs before the first byte moves.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Literal, cast

from planner.machine.curve import Curve
from planner.machine.schema import CurveName, Direction, Hbm, Link, Machine, Ram
from planner.model.stage import Stage
from planner.model.touched import Use
from planner.results import SetupStep

Kind = Literal[
    "file",  # at rest on a disk
    "pageable",  # ordinary host memory
    "pinned",  # a page-locked host buffer that holds all the bytes
    "mapped",  # host memory that a GPU addresses: a registered mapping, a user's mapped buffer
    "managed",  # memory that the driver moves between host and GPU by page
    "mapping",  # a file mapped into memory, whose pages come when they are touched
    "far",  # host memory of another socket, on its way through the link between sockets
    "fill",  # a ring that the CPU fills and a copy engine empties
    "wc",  # the same in write-combined memory, which the CPU must not read
    "drain",  # a ring that a copy engine fills and the CPU empties
    "relay",  # a ring between two engines
    "tcp",  # on its way through a network adapter, as a plain stream
    "tls",  # the same, sealed
    "rdma",  # on its way through a network adapter without a processor
    "remote",  # handed over to a place that the machine says no more of
    "device",  # a GPU's memory
]
RINGS: frozenset[Kind] = frozenset({"fill", "wc", "drain", "relay"})
"""Kinds of memory that hold only some chunks at a time and so couple the hops beside them."""
PASSING: frozenset[Kind] = frozenset({"mapping", "far", "tcp", "tls", "rdma"})
"""Kinds in which bytes do not rest at all: whatever takes them on runs together with what gave."""
COUPLED: frozenset[Kind] = RINGS | PASSING


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
    buffer was just written. `link` is empty inside one place. `pieces` are scattered pieces at the
    start as (size, how many), empty where the bytes lie in one range. `use` says how a GPU touches
    what it gets, where the plan says so; it belongs to the last crossing. `mapped_from` is the disk
    whose file a mapping shows. `fsync` waits for the device. `repeat` is how often the flow runs,
    `asked` the strategies that the plan names, or asks for by what the user's memory is. `room` are
    the bytes that the flow may pin where those are fewer than it has, else `None`; `cores` those
    that it may use. `turns` is how many turns at the locks of the process a chunk takes.
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
    pieces: tuple[tuple[int, int], ...] = ()
    use: Use | None = None
    mapped_from: str = ""
    fsync: bool = False
    repeat: int = 1
    asked: frozenset[str] = frozenset()
    room: int | None = None
    cores: int = 1
    turns: float = 1.0

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
        for name in (self.start, self.end):
            host = getattr(self.machine.nodes[name], "host", None)
            if isinstance(host, str):
                return host
        raise ValueError(f"neither {self.start} nor {self.end} belongs to a host")

    @property
    def ram(self) -> Ram:
        """The host node of this crossing."""
        return cast("Ram", self.machine.nodes[self.host])

    @property
    def gpu(self) -> Hbm:
        """The GPU at either end."""
        return cast("Hbm", self.machine.nodes[self.gpu_name])

    @property
    def gpu_name(self) -> str:
        """Name of the GPU at either end."""
        names = (self.end, self.start)
        return next(name for name in names if isinstance(self.machine.nodes[name], Hbm))

    @property
    def inward(self) -> bool:
        """Whether the bytes go into a GPU."""
        return self.after == "device"

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

    def disk(self) -> Crossing | None:
        """The crossing that reads the file behind a mapping, `None` where there is none."""
        for name, link in self.machine.links.items():
            ends = self.mapped_from, self.host
            if ends[0] in link.ends and ends[1] in link.ends and link.direction(ends[0]):
                return replace(self, link=name, start=ends[0], end=ends[1])
        return None


@dataclass(frozen=True, slots=True)
class Reading:
    """What a strategy reads from a disk before its first byte moves, as one step of its setup.

    `size` bytes over `crossing`, in `seconds` where nobody else reads; `charges` are seconds of
    each shared resource that one of them takes.
    """

    step: str
    crossing: Crossing
    size: int
    seconds: float
    charges: Mapping[str, float]


@dataclass(frozen=True, slots=True)
class Strategy:
    """One way across one link.

    `takes` and `gives` are the kinds of memory at its two ends, `across` the kinds of the two
    nodes. `own_ring` strategies bring a ring of their own; `single` ones are one call for all.
    `lacks(crossing)` is the reason why it does not apply, or `None`. `in_place` ones leave the
    bytes where they are until the GPU touches them, and those that do not `reside` leave them there
    for good. `starts` and `ends` are kinds of memory that it
    takes from, or gives to, the user alone: never a buffer on the way. `pins_all` says where it
    pins the whole flow on the host, `ahead` that one thread prepares each chunk ahead of its copy
    (and gives it back behind the copy where not all of them may be pinned),
    `later_reads` how often the GPU reads its own memory afterwards. Over a link that it is not
    `offered` for there is no point in it: it is looked at only where the plan names it. `reading`
    is what its setup reads from a disk that others may want, too. `least` are seconds that no shape
    goes below, so that a way need not be searched that cannot win. `stands_in` says of what is paid
    once which figure stands in for one that was not measured, `None` where none does.
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
    in_place: bool = False
    resides: bool = True
    starts: frozenset[Kind] = frozenset()
    ends: frozenset[Kind] = frozenset()
    pins_all: Callable[[Crossing], bool] = lambda _crossing: False
    ahead: bool = False
    later_reads: Callable[[Use], int] = lambda use: use.reads
    offered: Callable[[Link], bool] = lambda _link: True
    reading: Callable[[Crossing], Reading | None] = lambda _crossing: None
    least: Callable[[Crossing], float] = lambda _crossing: 0.0
    stands_in: Callable[[Crossing], str | None] = lambda _crossing: None


def kinds(*names: Kind) -> frozenset[Kind]:
    """A set of kinds of memory."""
    return frozenset(names)


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
