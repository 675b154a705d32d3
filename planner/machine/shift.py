"""The same machine on a bad and on a good day: every time at its upper or its lower quartile.

What was measured with a spread is shifted by it; what has none stays as it is, so an interval made
of the two machines covers only what was known to vary. What a lone copy takes beside its bytes
varies by itself, where a curve says so (`lone_spread`).
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Literal

from planner.machine.curve import Curve
from planner.machine.names import COSTS
from planner.machine.schema import Direction, Hbm, Link, Machine, Node, Ram, Setup
from planner.machine.tables import CopyTable

Side = Literal["low", "high"]

_WIDEST = 0.9
"""A spread of 1 would put the fast side at no time at all; nothing is taken faster than tenfold."""


def knows_spread(machine: Machine) -> bool:
    """Whether anything in the machine was measured with a spread."""
    parts = list(_parts(machine))
    lone = (part.lone_spread for part in parts if isinstance(part, Curve))
    own = (part.spread for part in parts)
    return any((*own, *lone, *(source.spread for source in machine.sources.values())))


def _parts(machine: Machine) -> Iterable[Curve | CopyTable | Setup]:
    for node in machine.nodes.values():
        if isinstance(node, Ram):
            yield from node.copy_rates.values()
            yield node.setup
            costs: list[Curve | None] = [getattr(node, name) for name in COSTS]
            yield from (curve for curve in costs if curve is not None)
        elif isinstance(node, Hbm):
            yield from (curve for curve in (node.local, node.allocate) if curve is not None)
    for link in machine.links.values():
        for direction in (link.forward, link.backward):
            if direction is not None:
                yield from direction.curves.values()


def shifted(machine: Machine, side: Side) -> Machine:
    """The machine with all its rates at the lower (`low`) or upper (`high`) quartile.

    Times are multiplied by 1 + spread on the low side and by 1 - spread on the high side, with the
    spread of the curve, table or setup itself, else that of its source; latency, idle and overhead
    of a curve with its `lone_spread`, where it has one.
    """
    shift = _Shift(machine, side)
    nodes = {name: shift.node(node) for name, node in machine.nodes.items()}
    links = {name: shift.link(link) for name, link in machine.links.items()}
    return machine.model_copy(update={"nodes": nodes, "links": links})


class _Shift:
    """Factors of time by source, and the parts of a machine with them applied."""

    def __init__(self, machine: Machine, side: Side) -> None:
        self.machine = machine
        self.side = side

    def factor(self, spread: float | None, *nearest: str | None) -> float:
        """What times are multiplied by; 1 where no spread is known."""
        known = self.machine.source_of(*nearest).spread if spread is None else spread
        share = known or 0.0
        return 1.0 + share if self.side == "low" else 1.0 - min(share, _WIDEST)

    def table(self, table: CopyTable, *outer: str | None) -> CopyTable:
        factor = self.factor(table.spread, table.source, *outer)
        return table if factor == 1.0 else table.slower(factor)

    def curve(self, curve: Curve, *outer: str | None) -> Curve:
        factor = self.factor(curve.spread, curve.source, *outer)
        lone = factor if curve.lone_spread is None else self.factor(curve.lone_spread)
        return curve if factor == lone == 1.0 else curve.slower(factor, lone)

    def node(self, node: Node) -> Node:
        if isinstance(node, Ram):
            tables = {k: self.table(t, node.source) for k, t in node.copy_rates.items()}
            costs: dict[str, Curve | None] = {name: getattr(node, name) for name in COSTS}
            priced = {
                name: self.curve(curve, node.source)
                for name, curve in costs.items()
                if curve is not None
            }
            factor = self.factor(None, node.source)
            update = {
                "copy_rates": tables,
                "setup": self.setup(node.setup, node.source),
                **priced,
                "issue": node.issue * factor,
                "turn": None if node.turn is None else node.turn * factor,
                "lead": None if node.lead is None else node.lead * factor,
                "cipher": None if node.cipher is None else node.cipher / factor,
            }
            return node.model_copy(update=update)
        if isinstance(node, Hbm):
            factor = self.factor(None, node.source)
            curves = {
                name: curve if curve is None else self.curve(curve, node.source)
                for name, curve in (("local", node.local), ("allocate", node.allocate))
            }
            rate = None if node.rate is None else node.rate / factor
            times = {"rate": rate, "context": node.context * factor}
            return node.model_copy(update={**curves, **times})
        return node

    def setup(self, setup: Setup, outer: str | None) -> Setup:
        factor = self.factor(setup.spread, setup.source, outer)
        rates = (
            "touch_fresh",
            "touch_recycled",
            "touch_worker",
            "register_rate",
            "register_ring",
            "unregister",
            "unregister_file",
            "register_file",
            "host_alloc",
            "map_touch",
        )
        known = {name: getattr(setup, name) for name in rates if getattr(setup, name) is not None}
        update = {name: rate / factor for name, rate in known.items()}
        update |= {
            name: getattr(setup, name) * factor
            for name in (
                *("register_latency", "unregister_latency", "host_alloc_latency", "map_latency"),
                *("workers", "start", "worker", "lane", "ready", "wake"),
            )
        }
        if setup.ready_ring is not None:
            update["ready_ring"] = setup.ready_ring * factor
        return setup.model_copy(update=update)

    def link(self, link: Link) -> Link:
        update = {
            way: self.direction(direction, link.source)
            for way, direction in (("forward", link.forward), ("backward", link.backward))
            if direction is not None
        }
        return link.model_copy(update=update)

    def direction(self, direction: Direction, outer: str | None) -> Direction:
        """The capacity varies like the fastest curve, which is what it was taken from."""
        sources = direction.source, outer
        curves = {name: self.curve(curve, *sources) for name, curve in direction.curves.items()}
        fastest = max(direction.curves.values(), key=lambda curve: curve.rate, default=None)
        factor = (
            self.factor(None, *sources)
            if fastest is None
            else self.factor(fastest.spread, fastest.source, *sources)
        )
        update = {"rate": direction.rate / factor, "curves": curves}
        if direction.requests is not None:
            update["requests"] = direction.requests / factor
        return direction.model_copy(update=update)
