"""From host to host, or GPU to GPU, through network adapters: TCP, TLS, RDMA, GPUDirect RDMA.

Adapters and wires pass bytes on as they come, so the hops of one transfer are one pipeline that
runs at the pace of its slowest stage: the adapter's own link, the streams together, the wire, the
cipher of either host. A transport keeps its name on every hop of the way.
"""

from __future__ import annotations

from planner.machine.curve import Curve
from planner.machine.schema import Ram
from planner.model.stage import Stage
from planner.model.strategies.base import (
    Crossing,
    Kind,
    Shape,
    Strategy,
    kinds,
    nothing,
    step,
    steps,
)
from planner.model.strategies.servers import wire_charges
from planner.results import Cause, SetupStep
from planner.units import format_size

_SENDS = kinds("pageable", "pinned", "mapped", "fill", "drain")
_RECEIVES = kinds("pageable", "pinned", "mapped", "fill")
_PINNED = kinds("pinned", "mapped")
"""Nobody pins a buffer on the way only to send it through a socket."""
_REGISTERED = kinds("pinned", "mapped", "fill", "relay")


def stream_rate(crossing: Crossing) -> tuple[float, Cause] | None:
    """Bytes/s of one stream and what limits it; `None` where the machine does not say.

    What was measured of one stream, and at most one window each round trip.
    """
    wire, curve = crossing.wire, crossing.curve("tcp")
    found: list[tuple[float, Cause]] = []
    if curve is not None:
        found.append((curve.rate, "host_copy"))
    if wire.window is not None and wire.round_trip is not None:
        found.append((wire.window / wire.round_trip, "latency"))
    return min(found) if found else None


def _wire(crossing: Crossing, *, through: bool, curve: Curve | None = None) -> Stage:
    """A link that passes bytes on."""
    rate, lag = crossing.direction.rate, 0.0
    service = curve.service if curve else lambda length: length / rate
    if curve is not None:
        lag = curve.latency - curve.queued_gap
    elif crossing.wire.round_trip is not None:
        lag = crossing.wire.round_trip / 2
    per_byte = 1 / (min(rate, curve.rate) if curve else rate)
    return Stage(
        crossing.resource,
        "engine",
        service,
        lag=lag,
        charges=wire_charges(crossing, per_byte),
        through=through,
    )


def _cipher(crossing: Crossing, host: str, *, through: bool) -> tuple[Stage, ...]:
    """Sealing or opening on one core for each stream."""
    node = crossing.machine.nodes[host]
    if not isinstance(node, Ram) or node.cipher is None:
        return ()
    rate, resource = node.cipher, f"{host}.cipher"
    return (
        Stage(
            resource,
            "pool",
            lambda length: length / rate,
            charges={resource: 1 / (rate * node.cores)},
            cause="cipher",
            through=through,
        ),
    )


def _streams(crossing: Crossing, *, through: bool) -> tuple[Stage, ...]:
    """All streams of the flow, one a worker, each at its own pace, then the wire."""
    found = stream_rate(crossing)
    wire = _wire(crossing, through=True)
    if found is None:
        return (_wire(crossing, through=through),)
    rate, cause = found
    pool = Stage(
        f"{crossing.link}.streams",
        "pool",
        lambda length: length / rate,
        cause=cause,
        through=through,
    )
    return pool, wire


def _no_network(crossing: Crossing) -> str | None:
    if crossing.wire.kind != "network":
        return f"{crossing.link} is no network"
    if stream_rate(crossing) is None:
        return (
            f"{crossing.link} does not say what one stream carries (curve tcp, or window and "
            "round_trip)"
        )
    return None


def _no_bus(crossing: Crossing) -> str | None:
    """A host and its adapter have no terms of their own."""
    return None if crossing.wire.kind != "network" else _no_network(crossing)


def _no_cipher(crossing: Crossing) -> str | None:
    for name in (crossing.start, crossing.end):
        node = crossing.machine.nodes[name]
        if isinstance(node, Ram) and node.cipher is None:
            return f"{name} has no measured cipher"
    return None


def _tls_bus(crossing: Crossing) -> str | None:
    return _no_cipher(crossing) or _no_bus(crossing)


def _tls_wire(crossing: Crossing) -> str | None:
    return _no_cipher(crossing) or _no_network(crossing)


def _host_to_nic(crossing: Crossing, _shape: Shape) -> tuple[Stage, ...]:
    seals = _cipher(crossing, crossing.start, through=False) if crossing.after == "tls" else ()
    return (*seals, _wire(crossing, through=bool(seals)))


def _nic_to_host(crossing: Crossing, _shape: Shape) -> tuple[Stage, ...]:
    opens = _cipher(crossing, crossing.end, through=True) if crossing.before == "tls" else ()
    return (_wire(crossing, through=True), *opens)


def _across(crossing: Crossing, _shape: Shape) -> tuple[Stage, ...]:
    return _streams(crossing, through=True)


def _from_remote(crossing: Crossing, _shape: Shape) -> tuple[Stage, ...]:
    """A place that says nothing of itself sends as fast as the streams carry."""
    return _streams(crossing, through=False)


def _plain_direct(crossing: Crossing, _shape: Shape) -> tuple[Stage, ...]:
    """Host to host where the machine names no adapters."""
    return _streams(crossing, through=False)


def _sealed_direct(crossing: Crossing, _shape: Shape) -> tuple[Stage, ...]:
    seals = _cipher(crossing, crossing.start, through=False)
    opens = _cipher(crossing, crossing.end, through=True)
    return (*seals, *_streams(crossing, through=bool(seals)), *opens)


def _connect(crossing: Crossing, _shape: Shape) -> tuple[SetupStep, ...]:
    """One round trip for TCP, another for TLS 1.3 (RFC 8446, section 2)."""
    trips = 2 if "tls" in (crossing.before, crossing.after) else 1
    return steps(step("connect", 0, None, trips * (crossing.wire.round_trip or 0.0)))


def _connect_sealed(crossing: Crossing, _shape: Shape) -> tuple[SetupStep, ...]:
    return steps(step("connect", 0, None, 2 * (crossing.wire.round_trip or 0.0)))


def _sockets(name: str, kind: Kind) -> tuple[Strategy, ...]:
    """The hops of a transport over sockets: host, adapter, wire, adapter, host."""
    sealed = name == "tls"
    bus, wire = (_tls_bus, _tls_wire) if sealed else (_no_bus, _no_network)
    direct = _sealed_direct if sealed else _plain_direct
    connect = _connect_sealed if sealed else _connect
    passing, remote = kinds(kind), kinds("remote")
    return (
        Strategy(name, ("ram", "nic"), _SENDS, passing, bus, _host_to_nic, nothing, starts=_PINNED),
        Strategy(name, ("nic", "nic"), passing, passing, wire, _across, connect),
        Strategy(
            name,
            ("nic", "ram"),
            passing,
            _RECEIVES,
            bus,
            _nic_to_host,
            nothing,
            ends=kinds("mapped"),
        ),
        Strategy(name, ("nic", "remote"), passing, remote, wire, _across, connect),
        Strategy(name, ("remote", "nic"), remote, passing, wire, _from_remote, connect),
        Strategy(
            name,
            ("ram", "ram"),
            _SENDS,
            _RECEIVES,
            wire,
            direct,
            connect,
            starts=_PINNED,
            ends=kinds("mapped"),
        ),
        Strategy(name, ("ram", "remote"), _SENDS, remote, wire, direct, connect, starts=_PINNED),
        Strategy(
            name,
            ("remote", "ram"),
            remote,
            _RECEIVES,
            wire,
            direct,
            connect,
            ends=kinds("mapped"),
        ),
    )


def _no_rdma(crossing: Crossing) -> str | None:
    if crossing.wire.kind != "network":
        return f"{crossing.link} is no network"
    if crossing.curve("rdma") is None:
        return f"{crossing.link} has no measured RDMA (curve rdma)"
    return None


def _no_memory(crossing: Crossing) -> str | None:
    """RDMA pins through the limit that CUDA does not heed."""
    whole = any(kind in ("pinned", "mapped") for kind in (crossing.before, crossing.after))
    limit = crossing.ram.memlock
    if whole and limit is not None and crossing.size > limit:
        return (
            f"RDMA would register {format_size(crossing.size)} on {crossing.host}, "
            f"memlock allows {format_size(limit)}"
        )
    return None


def _rdma_wire(crossing: Crossing, _shape: Shape) -> tuple[Stage, ...]:
    return (_wire(crossing, through=True, curve=crossing.curve("rdma")),)


def _rdma_out(crossing: Crossing, _shape: Shape) -> tuple[Stage, ...]:
    return (_wire(crossing, through=False),)


def _rdma_in(crossing: Crossing, _shape: Shape) -> tuple[Stage, ...]:
    return (_wire(crossing, through=True),)


def _register(crossing: Crossing, _shape: Shape) -> tuple[SetupStep, ...]:
    """A whole buffer is registered with the adapter too; a ring's own registration covers that."""
    if "pinned" not in (crossing.before, crossing.after):
        return ()
    setup = crossing.ram.setup
    return steps(
        step("register for RDMA", crossing.size, setup.register_rate, setup.register_latency)
    )


def _no_gpudirect(crossing: Crossing) -> str | None:
    if crossing.curve("gpudirect") is None:
        return f"{crossing.link} has no GPUDirect RDMA (curve gpudirect)"
    return None


def _gpu_out(crossing: Crossing, _shape: Shape) -> tuple[Stage, ...]:
    return (_wire(crossing, through=False, curve=crossing.curve("gpudirect")),)


def _gpu_in(crossing: Crossing, _shape: Shape) -> tuple[Stage, ...]:
    return (_wire(crossing, through=True, curve=crossing.curve("gpudirect")),)


_RDMA, _DEVICE = kinds("rdma"), kinds("device")

NETWORK: tuple[Strategy, ...] = (
    *_sockets("tcp", "tcp"),
    *_sockets("tls", "tls"),
    Strategy("rdma", ("ram", "nic"), _REGISTERED, _RDMA, _no_memory, _rdma_out, _register),
    Strategy("rdma", ("nic", "nic"), _RDMA, _RDMA, _no_rdma, _rdma_wire, nothing),
    Strategy(
        "rdma",
        ("nic", "ram"),
        _RDMA,
        kinds("pinned", "mapped", "relay"),
        _no_memory,
        _rdma_in,
        _register,
        ends=kinds("mapped"),
    ),
    Strategy("gpudirect_rdma", ("hbm", "nic"), _DEVICE, _RDMA, _no_gpudirect, _gpu_out, nothing),
    Strategy("gpudirect_rdma", ("nic", "hbm"), _RDMA, _DEVICE, _no_gpudirect, _gpu_in, nothing),
)
