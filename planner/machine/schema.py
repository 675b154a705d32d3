"""The machine file: places where bytes rest, links between them, and what was measured of each.

Every number belongs to a `Provenance` of `sources`: the `source` key nearest to it names it (of
the curve or table, else of the direction, else of the link or node); where none of these names
one, it is the machine's first source.
"""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import (
    AfterValidator,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    model_validator,
)

from planner.machine.curve import Curve
from planner.machine.names import UnknownNamesError, name_faults
from planner.machine.replicate import check_range, replicate_faults
from planner.machine.tables import CopyTable
from planner.quantities import Bytes, BytesPerSecond, Seconds

CopyName = Literal["file", "memory", "save", "save_memory", "file_wc", "memory_wc"]
"""A copy stage: page cache → ring, pageable memory → ring, ring → page cache, ring → memory; with
`_wc` into a ring of write-combined memory."""
LinkKind = Literal["storage", "pcie", "c2c", "nvlink", "interconnect", "network"]
CurveName = Literal[
    "pinned",
    "write_combined",
    "registered",
    "pageable",
    "pageable_hot",
    "zero_copy",
    "managed_fault",
    "managed_scattered",
    "managed_prefetch",
    "peer",
    "peer_off",
    "buffered",
    "direct",
    "mmap",
    "gds",
    "tcp",
    "rdma",
    "gpudirect",
]


def _above_zero(rate: float) -> float:
    if rate <= 0:
        raise ValueError("a rate is above 0; leave the key out where it is not known")
    return rate


Rate = Annotated[BytesPerSecond, AfterValidator(_above_zero)]
"""What something costs by the byte: at 0 nothing would ever be ready."""


class _Strict(BaseModel):
    model_config = ConfigDict(
        frozen=True, extra="forbid", allow_inf_nan=False, populate_by_name=True
    )


class Provenance(_Strict):
    """Where numbers come from, so that a reader can judge them.

    `kind` is `measured` (by this tool or a named probe), `cited` (published by somebody) or
    `assumed`. `spread` is the typical relative half interquartile range; `None` says that no
    spread was kept. `disturbed` counts the cells that stayed disturbed after being redone.
    """

    kind: Literal["measured", "cited", "assumed"]
    where: str
    when: str
    by: str | None = None
    samples: int | None = Field(default=None, ge=1)
    spread: float | None = Field(default=None, ge=0)
    disturbed: int = Field(default=0, ge=0)
    note: str | None = None


class Setup(_Strict):
    """What memory costs before the first byte moves; rates are bytes/s of memory made ready.

    `touch_fresh` and `touch_recycled` are the first touch by all workers together of memory that
    the guest has never used, and of memory that it has used before; `touch_worker` is what one
    worker alone touches of a ring, which is all of the pace where few of them make one. `register`
    pins touched memory in place, `register_ring` does so with a ring, which lies in huge pages
    where there are any, `unregister` undoes it, `unregister_file` for pieces of a file's mapping.
    `host_alloc` allocates, touches and pins in one driver call. A call of these takes
    `register_latency`, `unregister_latency` or `host_alloc_latency` beside its bytes. `map_latency`
    is mapping a file, `map_touch` the touch of a cached file's mapping (minor page faults), which
    threads take in turn. A flow's workers take `start` for the first, `worker` for each other one
    and `lane` for each stream with its events, and `ready` is what the program does between these
    steps before the first byte (`ready_ring` where workers fill or empty a ring); `workers` is all
    of it for a pool with a ring, where only the whole is known. `wake` is what each worker after
    the first adds to every run until all are at it, where its copy table has no `lead`.
    """

    touch_fresh: Rate | None = None
    touch_recycled: Rate | None = None
    touch_worker: Rate | None = None
    register_rate: Annotated[Rate | None, Field(alias="register")] = None
    register_ring: Rate | None = None
    register_latency: Seconds = 0.0
    unregister: Rate | None = None
    unregister_latency: Seconds = 0.0
    unregister_file: Rate | None = None
    register_file: Rate | None = None
    host_alloc: Rate | None = None
    host_alloc_latency: Seconds = 0.0
    map_latency: Seconds = 0.0
    map_touch: Rate | None = None
    workers: Seconds = 0.0
    start: Seconds = 0.0
    worker: Seconds = 0.0
    lane: Seconds = 0.0
    ready: Seconds = 0.0
    ready_ring: Seconds | None = None
    wake: Seconds = 0.0
    spread: float | None = Field(default=None, ge=0)
    source: str | None = None


class Disk(_Strict):
    """A file system: `path` is the folder for scratch files, `host` the node that mounts it."""

    kind: Literal["disk"]
    host: str
    path: str | None = None
    capacity: Bytes | None = None
    filesystem: str | None = None
    cost: float | None = Field(default=None, ge=0)
    source: str | None = None


class Ram(_Strict):
    """Host memory of one NUMA node, with the cores beside it.

    `limit` is what may be used (cgroup, or the largest MemTotal seen), `cache` the last-level
    cache. `copy_rates` holds the copy capacity C(workers, ring) of each kind of copy stage.
    `register_ahead` is the curve of registering one chunk of a cached file's mapping while others
    are copied, `register_helped` the same where a second thread has brought the mapping's pages in,
    `register_memory` that of memory which was touched before. `managed_touch` is making managed
    memory and touching it, `managed_fill` copying ordinary memory into it, `managed_map` mapping
    touched managed memory for a GPU that is to read it on the host. `issue` is what one call of the
    driver costs its caller, `turn` what a chunk holds the interpreter's lock where no copy
    engine is at work, hand-over from worker to worker included, and `lead` what each worker after
    the first then adds to a run until all are at it (`wake` of the setup unless known).
    `write_combined` tells whether the CPU's stores to write-combined memory really pass by its
    cache. `memlock` bounds what RDMA may register (not what CUDA may). `cipher` is what one core
    seals or opens with TLS.
    """

    kind: Literal["ram"]
    capacity: Bytes
    limit: Bytes | None = None
    pinned_limit: Bytes | None = None
    cores: int = Field(ge=1)
    cache: Bytes | None = None
    copy_rates: Annotated[dict[CopyName, CopyTable], Field(alias="copy")] = {}
    setup: Setup = Setup()
    register_ahead: Curve | None = None
    register_helped: Curve | None = None
    register_memory: Curve | None = None
    managed_touch: Curve | None = None
    managed_fill: Curve | None = None
    managed_map: Curve | None = None
    issue: Seconds = Field(default=0.0, ge=0)
    turn: Seconds | None = None
    lead: Seconds | None = None
    write_combined: bool | None = None
    memlock: Bytes | None = None
    cipher: Rate | None = None
    cost: float | None = Field(default=None, ge=0)
    source: str | None = None


class Hbm(_Strict):
    """A GPU's memory: `host` is the node whose memory is nearest, `device` the driver's index.

    `local` is the curve of a copy inside the memory, `rate` what a kernel can read from it,
    `sector` the bytes that one scattered read of host memory moves at the least.
    `context` is the start of the driver's context, `allocate` the time of a device allocation.
    """

    kind: Literal["hbm"]
    host: str
    device: int = Field(ge=0)
    capacity: Bytes
    model: str | None = None
    uuid: str | None = None
    emulated: bool = False
    rate: Rate | None = None
    sector: Bytes = Field(default=32, gt=0)
    local: Curve | None = None
    context: Seconds = 0.0
    allocate: Curve | None = None
    copy_engines: int | None = Field(default=None, ge=1)
    cost: float | None = Field(default=None, ge=0)
    source: str | None = None


class Nic(_Strict):
    """A network adapter of host `host`."""

    kind: Literal["nic"]
    host: str
    address: str | None = None
    cost: float | None = Field(default=None, ge=0)
    source: str | None = None


class Remote(_Strict):
    """A place on another computer that this machine file says nothing more of."""

    kind: Literal["remote"]
    address: str | None = None
    source: str | None = None


Node = Annotated[Disk | Ram | Hbm | Nic | Remote, Field(discriminator="kind")]


class Direction(_Strict):
    """One direction of a link.

    `rate` is its capacity, what one large queued copy reaches. `curves` are single copies by the
    way they are done. `against` is the interference multiplicity: how many bytes of this
    direction's capacity one byte of the *opposite* direction takes (0 = full duplex). `requests`
    caps requests per second (a disk's IOPS, a GPU's reads of host memory in place).
    """

    rate: BytesPerSecond = Field(gt=0)
    curves: dict[CurveName, Curve] = {}
    against: float = Field(default=0.0, ge=0)
    requests: float | None = Field(default=None, gt=0)
    source: str | None = None


class Port(_Strict):
    """What several links share at one end: a switch port, an uplink, a filer's total.

    `forward` is the rate away from the place at that end, `backward` the rate towards it; one that
    is missing limits nothing. `forward_across` is how many bytes of each link's own capacity away
    from there one byte takes that moves towards it over another of the links: host memory that is
    written is read more slowly. `backward_across` is the same the other way.
    """

    forward: BytesPerSecond | None = Field(default=None, gt=0)
    backward: BytesPerSecond | None = Field(default=None, gt=0)
    forward_across: float = Field(default=0.0, ge=0)
    backward_across: float = Field(default=0.0, ge=0)
    source: str | None = None


class Link(_Strict):
    """A wire between two places; `forward` goes from `ends[0]` to `ends[1]`.

    `ports` names what it shares with other links at either end, null for nothing. The same
    replicated place at both ends joins every two of its members. On a network one TCP stream
    carries at most `window` bytes each `round_trip`.
    """

    kind: LinkKind
    ends: tuple[str, str]
    forward: Direction | None = None
    backward: Direction | None = None
    generation: int | None = Field(default=None, ge=1)
    width: int | None = Field(default=None, ge=1)
    max_generation: int | None = Field(default=None, ge=1)
    max_width: int | None = Field(default=None, ge=1)
    peer_access: bool | None = None
    ports: tuple[str | None, str | None] | None = None
    round_trip: Seconds | None = Field(default=None, gt=0)
    window: Bytes | None = Field(default=None, gt=0)
    source: str | None = None

    @model_validator(mode="after")
    def _has_a_direction(self) -> Link:
        if self.forward is None and self.backward is None:
            raise ValueError("a link has a forward or a backward direction, or both")
        if self.ends[0] == self.ends[1] and "{" not in self.ends[0]:
            raise ValueError("a link joins two different places")
        return self

    def direction(self, start: str) -> Direction | None:
        """The direction that leaves `start`, or `None` if the link does not go that way."""
        return self.forward if start == self.ends[0] else self.backward


def _version(value: Any) -> Any:
    """A version as written in a file is text."""
    return int(value) if isinstance(value, str) and value.isdecimal() else value


class Machine(_Strict):
    """A whole machine: what `planner` knows of the hardware before it predicts anything.

    `warnings` say what is wrong with the hardware: a link that runs below what it can do.
    """

    version: Annotated[Literal[1], BeforeValidator(_version)] = 1
    name: str = Field(min_length=1)
    description: str | None = None
    emulated: bool = False
    hardware: dict[str, str] = {}
    sources: dict[str, Provenance] = Field(min_length=1)
    nodes: dict[str, Node] = Field(min_length=1)
    links: dict[str, Link] = {}
    ports: dict[str, Port] = {}
    replicate: dict[str, Annotated[str, AfterValidator(check_range)]] = {}
    warnings: tuple[str, ...] = ()

    @model_validator(mode="after")
    def _names_exist(self) -> Machine:
        faults = name_faults(self)
        if faults:
            raise UnknownNamesError(faults)
        if wrong := replicate_faults(self):
            raise ValueError("; ".join(wrong))
        return self

    def source_of(self, *nearest: str | None) -> Provenance:
        """The provenance that the first given name names, else the machine's first source."""
        named = next((name for name in nearest if name is not None), None)
        return self.sources[next(iter(self.sources)) if named is None else named]
