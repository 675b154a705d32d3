"""What `planner topo` emits: the places and links of a machine, and what is known of each."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from planner.results.judged import Verdict
from planner.schedule import Result

Peer = Literal["on", "off", "unknown"]


class TopoNode(Result):
    """A place; `members` is how many equal ones the name stands for.

    `host` is the memory that it belongs to, `numa` the NUMA node that it is near to. Of a host
    `capacity_bytes` is its memory, of a disk its size.
    """

    name: str
    kind: Literal["disk", "ram", "hbm", "nic", "remote"]
    members: int = 1
    host: str | None = None
    numa: int | None = None
    capacity_bytes: int | None = None
    cores: int | None = None
    model: str | None = None
    device: int | None = None
    emulated: bool = False
    filesystem: str | None = None
    path: str | None = None
    address: str | None = None


class TopoWay(Result):
    """One direction of a link: its rate, `null` where nobody measured or stated one.

    `latency_s` is that of its quickest lone copy.
    """

    start: str
    end: str
    rate_bytes_per_s: float | None = None
    latency_s: float | None = None
    strategies: tuple[str, ...] = ()


class TopoLink(Result):
    """A wire between two places.

    `nominal_bytes_per_s` is what its generation and width carry by the standard, one direction.
    `below_maximum` says that it runs below `max_generation` or `max_width`: `true` counts only
    where it was looked at under load, as idle links slow down (`null`: not known). `ports` names
    what it shares with other links at either end. `source` tells how its rates are known.
    """

    name: str
    kind: str
    ends: tuple[str, str]
    members: int = 1
    generation: int | None = None
    width: int | None = None
    max_generation: int | None = None
    max_width: int | None = None
    below_maximum: bool | None = None
    nominal_bytes_per_s: float | None = None
    peer_access: Peer | None = None
    ports: tuple[str | None, str | None] | None = None
    ways: tuple[TopoWay, ...] = ()
    source: Literal["measured", "cited", "assumed", "none"] = "none"


class TopoPort(Result):
    """What several links share: `forward` leads away from the place at that end.

    `forward_across` is how many bytes of each link's own capacity away from there one byte takes
    that moves towards it over another of the links; `backward_across` is the same the other way.
    """

    name: str
    members: int = 1
    forward_bytes_per_s: float | None = None
    backward_bytes_per_s: float | None = None
    forward_across: float = 0.0
    backward_across: float = 0.0
    links: tuple[str, ...] = ()


class TopoNuma(Result):
    """A NUMA node of this computer: its cores that may be used, and its memory."""

    index: int
    cores: int
    memory_bytes: int | None = None


class TopoPair(Result):
    """Two GPUs of this computer without a link of their own, and how they reach each other.

    `near` is the nearest thing on PCIe that they share.
    """

    gpus: tuple[str, str]
    near: str | None = None
    peer_access: Peer = "unknown"
    refused: str | None = None


class Topo(Result):
    """`planner topo`: the machine as a graph; lists keep the machine's order.

    `measured` says whether any rate was measured; `when` is the date of the newest measurement.
    `warnings` are what is wrong, `notes` what a reader should know.
    """

    format: Literal["planner.topo/1"] = "planner.topo/1"
    planner: str
    machine: str
    description: str | None = None
    emulated: bool = False
    measured: bool
    when: str | None = None
    hardware: dict[str, str] = Field(default_factory=dict)
    nodes: tuple[TopoNode, ...]
    links: tuple[TopoLink, ...]
    ports: tuple[TopoPort, ...] = ()
    numa: tuple[TopoNuma, ...] = ()
    pairs: tuple[TopoPair, ...] = ()
    warnings: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()
    verdict: Verdict
