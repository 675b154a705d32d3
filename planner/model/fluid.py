"""A pipeline as a fluid {delay, work, cap, charges}: alone it takes what the pipeline takes.

`delay` holds latency, fill and drain; `cap` is the pipeline's own throughput. Resources are shares
of a server: their capacity is 1 and a charge is seconds per byte. What is charged beside the
stages' own servers: the opposite direction of a link where the machine says that it suffers
(`against`), the ports that links share, and a GPU's processors for a copy inside its memory, which
is done by them (copy engines are not: NVIDIA/nccl#2177 measures the difference).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

from planner.machine.schema import Machine, Port
from planner.model.known import trace as follow
from planner.model.movement import Movement
from planner.model.pipeline import Stage
from planner.model.strategies import Crossing, Shape
from planner.model.strategies.base import Reading
from planner.model.strategies.copying import DISPATCH

MIB = 1 << 20
ALIKE = 0.15
"""Share by which what two links of a port keep may differ if they are to weigh alike: two
measurements of the same kind of link differed by 5 and by 9 % (two H200s, 2026-11-30)."""
INSTANT = 14
"""Digits of the seconds before a pipeline flows: they are a difference, and what is lost of it by
rounding would let the later of two equal flows be the first at an engine that serves in turn. That
of many seconds loses more than these, and copies of hundreds of GB may still change places."""


@dataclass(frozen=True, slots=True)
class Fluid:
    """A pipeline as a fluid.

    Seconds it takes alone, seconds of them before it flows, its rate alone, seconds of each
    resource per byte, and the busy seconds of each of its stages. `weight` is its share of a FIFO
    server among others: the bytes that it keeps outstanding, in MiB. Its `engines` are those
    servers; `one_call` gives all of its bytes to one of them at once. `holds` is how long one chunk
    of it keeps each engine from anybody else.
    """

    total: float
    delay: float
    cap: float
    charges: Mapping[str, float]
    busy: tuple[float, ...]
    weight: float = 1.0
    holds: Mapping[str, float] = field(default_factory=dict)
    engines: tuple[str, ...] = ()
    one_call: bool = False

    def under(self, rate: float | None, size: int) -> float:
        """Seconds that it takes alone with `size` bytes under a cap of so many bytes/s."""
        if rate is None or rate >= self.cap or not self.total:
            return self.total
        return self.delay + size / rate


STILL = Fluid(0.0, 0.0, float("inf"), {}, ())
"""Nothing moves: a flow of the simulation that only waits for others."""


def waits(seconds: float) -> Fluid:
    """Nothing moves for so long."""
    return Fluid(seconds, seconds, float("inf"), {}, ())


def prepared(seconds: float, reading: Reading) -> Fluid:
    """A setup of so many seconds, in which something is read from a disk that others may want.

    The read comes last. What waits for one page after another keeps one request outstanding, so it
    weighs what a flow does that has an engine for itself.
    """
    charges = {**reading.charges, **_aside([reading.crossing], reading.charges, {})}
    cap = min([reading.size / reading.seconds, *(1 / c for c in charges.values())])
    before = max(0.0, seconds - reading.seconds)
    return Fluid(before + reading.size / cap, before, cap, charges, ())


def fluid(movement: Movement, shape: Shape, *, rough: bool = False) -> Fluid:
    """What the simulation needs to know of one repeat of a movement.

    `rough` follows only the first chunks: good to compare machines by.
    """
    trace = movement.nearly(shape) if rough else follow(movement, shape)
    if trace.total_s == 0.0:
        return Fluid(0.0, 0.0, float("inf"), {}, trace.busy_s)
    stages = movement.stages(shape)
    charges: dict[str, float] = {}
    for stage, busy in zip(stages, trace.busy_s, strict=True):
        for resource, per_byte in stage.charges.items():
            # An engine's own charge is what it really served, so a short last chunk counts too.
            own = (
                stage.kind == "engine" and resource == stage.resource and stage.cause != "host_copy"
            )
            value = busy / movement.size if own else per_byte
            charges[resource] = charges.get(resource, 0.0) + value
    one_call = _is_one_call(stages)
    # What the engine is not busy with a call is latency, in which it can serve others.
    cap = movement.size / max(trace.busy_s) if one_call else movement.throughput(shape)
    cap = max(cap, movement.size / trace.total_s)  # few chunks never fill the pipeline
    cap = min([cap, *(1 / c for c in charges.values() if c > 0)])
    delay = max(0.0, round(trace.total_s - movement.size / cap, INSTANT))
    total = trace.total_s
    aside = _aside(movement.crossings, charges, _crossed(stages))
    shared = [1 / c for c in aside.values() if c > 0]
    if shared and min(shared) < cap:  # a port slower than the link itself
        cap = min(shared)
        total = delay + movement.size / cap
    return Fluid(
        total,
        delay,
        cap,
        charges | aside,
        trace.busy_s,
        _weight(shape, charges),
        _holds(stages, shape),
        _engines(stages),
        one_call,
    )


def _is_one_call(stages: Sequence[Stage]) -> bool:
    return all(stage.whole for stage in stages) and len(_engines(stages)) == 1


def _engines(stages: Sequence[Stage]) -> tuple[str, ...]:
    """The servers at which outstanding bytes queue: the engines, where there are none the first.

    Chunks of rings also queue for the locks of the process that moves them, whichever engine they
    go to: of two flows the one with more workers, or larger chunks, gets more through.
    """
    own = [s for s in stages if not s.resource.endswith(".local")]
    engines = [s for s in own if s.kind == "engine"] or own[:1]
    locks = [name for s in own for name in s.charges if name.endswith(DISPATCH)]
    return tuple(dict.fromkeys([*(s.resource for s in engines), *locks]))


def _holds(stages: Sequence[Stage], shape: Shape) -> dict[str, float]:
    return {
        stage.resource: stage.seconds(shape.chunk) for stage in stages if stage.kind == "engine"
    }


def _weight(shape: Shape, charges: Mapping[str, float]) -> float:
    """Outstanding bytes in MiB; processors deal out their time evenly instead."""
    return 1.0 if any(name.endswith(".local") for name in charges) else shape.ring / MIB


def _crossed(stages: Sequence[Stage]) -> dict[str, float]:
    """How often a byte crosses each wire."""
    return {name: stage.moved for stage in stages for name in stage.charges}


def _aside(
    crossings: Sequence[Crossing], charges: Mapping[str, float], crossed: Mapping[str, float]
) -> dict[str, float]:
    """What a byte takes of servers that none of the stages stands for.

    `crossed` is how often it crosses each wire, once where nothing is said.
    """
    machine = crossings[0].machine
    found: dict[str, float] = {}
    for crossing in crossings:
        if not crossing.link or crossing.resource not in charges:
            continue
        moved = crossed.get(crossing.resource, 1.0)
        other, opposite = crossing.opposite()
        if opposite is not None and opposite.against > 0 and other not in charges:
            found[other] = moved * opposite.against / opposite.rate
        for name, rate in _ports(machine, crossing.link, crossing.start):
            found[name] = found.get(name, 0.0) + moved / rate
        for name, per_byte in _across(machine, crossing.link, crossing.start):
            if name not in charges:
                found[name] = found.get(name, 0.0) + moved * per_byte
    for name, per_byte in charges.items():
        if name.endswith(".local"):
            found[f"{name.removesuffix('.local')}.compute"] = per_byte
    return found


def engine_weight(machine: Machine, resource: str) -> float:
    """What all copies of one direction of a link weigh beside those of the other.

    Notes
    -----
    While both run, x = B - m x' and x' = B' - m' x, so x = (B - m B') / (1 - m m'). Weights in that
    proportion let both directions fill at one level, as two engines do: neither is held by what it
    takes from the other. The faster one counts 1. What crosses over other links of a port takes in
    the same way. Links of a port that are as fast weigh alike, whatever measuring each says of it:
    none goes before another there, and of two equal flows none was faster (two H200s, 2026-11-30).
    """
    name, _, way = resource.rpartition(".")
    mine = _room(machine, name, way) if name in machine.links else None
    if mine is None or min(mine) <= 0.0:
        return 1.0  # more than all of it taken: they take turns
    rooms = [mine, *(room for room in _beside(machine, name, way) if _alike(mine, room))]
    own, other = (sum(room[side] for room in rooms) for side in (0, 1))
    return own / max(own, other)


def _room(machine: Machine, name: str, way: str) -> tuple[float, float] | None:
    """Bytes/s that a direction of a link keeps beside all that takes from it, and the opposite.

    `None` where the link has one direction only.
    """
    wire = machine.links[name]
    if wire.forward is None or wire.backward is None:
        return None
    one, two = wire.forward, wire.backward
    ahead = one.rate - one.against * two.rate - _crossing(machine, name, wire.ends[0]) * one.rate
    back = two.rate - two.against * one.rate - _crossing(machine, name, wire.ends[1]) * two.rate
    return (ahead, back) if way == "forward" else (back, ahead)


def _beside(machine: Machine, name: str, way: str) -> Iterator[tuple[float, float]]:
    """The room of each link that shares a port with this one, in the same direction at the port."""
    at: dict[str, bool] = {}
    for near, port in enumerate(machine.links[name].ports or ()):
        for other in [] if port is None else _others(machine, port, name):
            at[other] = (machine.links[other].ports or ()).index(port) == near
    opposite = {"forward": "backward", "backward": "forward"}
    for other, same in at.items():
        room = _room(machine, other, way if same else opposite[way])
        if room is not None and min(room) > 0.0:
            yield room


def _alike(one: Sequence[float], other: Sequence[float]) -> bool:
    """Whether two links differ by no more than measuring the same wire twice does."""
    return all(abs(a - b) <= ALIKE * max(a, b) for a, b in zip(one, other, strict=True))


def _at_ports(machine: Machine, link: str, start: str) -> Iterator[tuple[str, Port, bool]]:
    """The ports of a link by name, and whether what leaves `start` goes away from the port."""
    wire = machine.links[link]
    near = 0 if start == wire.ends[0] else 1
    for end, name in enumerate(wire.ports or ()):
        if name is not None:
            yield name, machine.ports[name], end == near


def _ports(machine: Machine, link: str, start: str) -> Iterator[tuple[str, float]]:
    """The shared ports that a byte passes on its way through a link from `start`."""
    for name, port, away in _at_ports(machine, link, start):
        rate = port.forward if away else port.backward
        if rate:
            yield f"{name}.{'forward' if away else 'backward'}", rate


def _crossing(machine: Machine, link: str, start: str) -> float:
    """Share of a link's capacity from `start` on that the others of its port take, all at work."""
    taken = 0.0
    for name, port, away in _at_ports(machine, link, start):
        share = port.forward_across if away else port.backward_across
        if share:
            taken += share * len(_others(machine, name, link))
    return taken


def _across(machine: Machine, link: str, start: str) -> Iterator[tuple[str, float]]:
    """What a byte that crosses a link from `start` takes of the others that share a port with it.

    Seconds a byte of their opposite directions.
    """
    for name, port, away in _at_ports(machine, link, start):
        # Of what goes away from the port what comes to it loses, and the other way round.
        share = port.backward_across if away else port.forward_across
        for other in _others(machine, name, link) if share else ():
            its = machine.links[other]
            ahead = ((its.ports or ()).index(name) == 0) != away
            side = its.forward if ahead else its.backward
            if side is not None:
                yield f"{other}.{'forward' if ahead else 'backward'}", share / side.rate


def _others(machine: Machine, port: str, link: str) -> list[str]:
    """The links that share a port with this one."""
    return [n for n, its in machine.links.items() if n != link and port in (its.ports or ())]


def streamed(first: Fluid, rest: Sequence[Movement], shape: Shape, late: float = 0.0) -> Fluid:
    """The fluid of movements that hand over chunk by chunk instead of as a whole.

    Notes
    -----
    T = fill of every movement + size / the slowest rate. A movement behind the first takes its own
    time for one chunk longer, t(c) and its latency, whatever limits: chunks are equal. `late` are
    seconds by which one of the others is awake later than the first.
    """
    found = replace(first, total=first.total + late, delay=first.delay + late)
    for movement in rest:
        stages = movement.stages(shape)
        charges = dict(found.charges)
        for stage in stages:
            for name, per_byte in stage.charges.items():
                charges[name] = charges.get(name, 0.0) + per_byte
        charges |= _aside(movement.crossings, charges, _crossed(stages))
        chunk = min(shape.chunk, movement.size)
        fill = sum(stage.seconds(chunk) + stage.lag for stage in stages)
        cap = min(found.cap, *(chunk / stage.seconds(chunk) for stage in stages))
        cap = min([cap, *(1 / c for c in charges.values() if c > 0)])
        size = movement.size
        found = replace(
            found,
            total=found.delay + fill + size / cap,
            delay=found.delay + fill,
            cap=cap,
            charges=charges,
            holds={**found.holds, **_holds(stages, shape)},
            engines=tuple(dict.fromkeys([*found.engines, *_engines(stages)])),
            one_call=False,
        )
    return found


def uneven_end(moves: Fluid, wait: float) -> Fluid:
    """One of several ways that take chunks from one queue, the last of which ends so much later."""
    return replace(moves, total=moves.total + wait, delay=moves.delay + wait)
