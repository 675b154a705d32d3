"""From one GPU's memory to another's, or within one: by peer access, through the host, locally."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Final

from planner.machine.schema import Link
from planner.model.stage import Stage
from planner.model.strategies.base import Crossing, Shape, Strategy, nothing
from planner.model.strategies.copying import dispatcher
from planner.model.strategies.servers import dma, without_pieces
from planner.model.strategies.unmeasured import WITHOUT_PEER, unmeasured

RELAYED: Final = 7
"""Calls' worth of time that a relayed chunk takes under the locks: two copies, their events and
waits, and the bytecode between. Chunks of 256 KiB and of 1 MiB came every 33 to 35 us by one worker
and by two where a call takes 3.7 us, every 36 at the most where it takes 4.9 (which the round trips
of two slots take, too), and every 36 to 45 us where it takes 6.0 (two H200s each, measured
2026-11-30)."""


def _no_peer(crossing: Crossing) -> str | None:
    if crossing.wire.peer_access is False:
        return f"{crossing.link} does not allow peer access"
    if crossing.curve("peer") is None:
        return f"{crossing.resource} has no measured peer copies"
    return None


def _peer(crossing: Crossing, shape: Shape) -> tuple[Stage, ...]:
    """One copy engine; over PCIe, or between sockets, the path is what a reader should look at."""
    curve = crossing.curve("peer")
    if curve is None:
        return ()
    stage = dma(crossing, curve, shape)
    if stage.cause == "bandwidth" and crossing.wire.kind in ("pcie", "interconnect"):
        return (replace(stage, cause="peer_path"),)
    return (stage,)


def _not_by_driver(crossing: Crossing) -> str | None:
    if crossing.wire.peer_access:
        return f"{crossing.link} allows peer access: the driver copies straight"
    if crossing.curve("peer_off") is None:
        return unmeasured(crossing.resource, WITHOUT_PEER)
    return None


def _apart(link: Link) -> bool:
    """Whether the link joins GPUs that cannot address each other, and that was measured."""
    ways = (link.forward, link.backward)
    return not link.peer_access and any(way and "peer_off" in way.curves for way in ways)


def _by_driver(crossing: Crossing, shape: Shape) -> tuple[Stage, ...]:
    """One call; the driver goes through its own buffers in host memory, over both GPUs' links."""
    curve = crossing.curve("peer_off")
    if curve is None:
        return ()
    stage = dma(crossing, curve, shape)
    # The bytes cross those links whatever the wire between the GPUs could do.
    passed = dict(_host_links(crossing))
    return (replace(stage, charges={**stage.charges, **passed}, cause="peer_path"),)


def _host_links(crossing: Crossing) -> Iterator[tuple[str, float]]:
    """Seconds per byte of the links between the two GPUs and their hosts, by direction."""
    machine = crossing.machine
    for gpu, outward in ((crossing.start, True), (crossing.end, False)):
        host = getattr(machine.nodes[gpu], "host", None)
        for name, link in machine.links.items():
            if not isinstance(host, str) or set(link.ends) != {gpu, host}:
                continue
            direction = link.direction(gpu if outward else host)
            if direction is not None:
                way = "forward" if outward == (link.ends[0] == gpu) else "backward"
                yield f"{name}.{way}", 1 / direction.rate


def _no_relay(crossing: Crossing) -> str | None:
    if crossing.curve("pinned", "registered") is None:
        return f"{crossing.resource} has no measured pinned copies"
    return None


def _relay(crossing: Crossing, shape: Shape) -> tuple[Stage, ...]:
    """A copy engine into a ring in host memory, or out of it, where pieces lie packed.

    The copy out of the ring is queued behind the one into it and begins when that one ends: nobody
    has to see the end, as the caller of a lone copy does. A slot goes round again when the caller
    has seen its second copy's end and has queued two more copies: no other worker does so
    meanwhile, as in front of a ring that is filled. What a chunk costs its callers bounds the pace,
    whoever they are: they take turns.
    """
    curve = crossing.curve("pinned", "registered")
    if curve is None:
        return ()
    if crossing.before == "device":
        stage = dma(crossing, curve, shape)
        return (stage if shape.chunk >= crossing.size else replace(stage, lag=0.0),)
    stage = dma(without_pieces(crossing), curve, shape)
    lag = stage.lag + 2 * crossing.ram.issue
    if shape.chunk >= crossing.size:
        return (replace(stage, lag=lag),)
    served, calls = stage.seconds, RELAYED * crossing.ram.issue
    # A chunk still arrives as early; that the engine counts as busy meanwhile matters to chunks
    # below 2 MB only, which none but small flows take.
    idle = max(0.0, calls - served(shape.chunk))

    def seconds(length: int) -> float:
        return max(served(length), calls)

    charges = {**stage.charges, dispatcher(crossing): calls / shape.chunk}
    return (replace(stage, seconds=seconds, lag=max(0.0, lag - idle), charges=charges),)


def _no_local(crossing: Crossing) -> str | None:
    if crossing.gpu.local is None:
        return f"{crossing.start} has no measured local copies"
    return None


def _local(crossing: Crossing, shape: Shape) -> tuple[Stage, ...]:
    """A copy of everything takes what a lone copy takes, chunks what copies in a queue do."""
    curve = crossing.gpu.local
    if curve is None:
        return ()
    resource = f"{crossing.start}.local"
    lag = curve.latency - curve.queued_gap

    def alone(length: int) -> float:
        return max(0.0, curve.seconds(length) - lag)

    service = alone if shape.chunk >= crossing.size else curve.service
    charges = {resource: 1 / curve.rate}
    return (
        Stage(
            resource,
            "engine",
            service,
            lag=lag,
            idle=curve.idle,
            overhead=curve.overhead,
            charges=charges,
        ),
    )


PEER = Strategy(
    "peer",
    ("hbm", "hbm"),
    frozenset({"device"}),
    frozenset({"device"}),
    _no_peer,
    _peer,
    nothing,
    single=True,
)
DRIVER_STAGED = Strategy(
    "driver_staged",
    ("hbm", "hbm"),
    frozenset({"device"}),
    frozenset({"device"}),
    _not_by_driver,
    _by_driver,
    nothing,
    single=True,
    offered=_apart,
)
RELAY_OUT = Strategy(
    "host_staged",
    ("hbm", "ram"),
    frozenset({"device"}),
    frozenset({"relay"}),
    _no_relay,
    _relay,
    nothing,
)
RELAY_IN = Strategy(
    "host_staged",
    ("ram", "hbm"),
    frozenset({"relay"}),
    frozenset({"device"}),
    _no_relay,
    _relay,
    nothing,
)
LOCAL = Strategy(
    "local",
    ("hbm", "hbm"),
    frozenset({"device"}),
    frozenset({"device"}),
    _no_local,
    _local,
    nothing,
    single=True,
)
