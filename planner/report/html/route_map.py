"""The route map: places and links that take part, as thick as fast and as strong as busy."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from planner.report.html.scales import number, step_of
from planner.results import Estimate, Hop, Run
from planner.units import format_rate, format_share, format_size, format_time

_COLUMNS: Final = {"disk": 0, "ram": 1, "hbm": 2, "nic": 3, "remote": 4}
_BOX: Final = (176.0, 50.0)
_STEP: Final = (322.0, 86.0)
_EDGE: Final = 26.0
_HEAD: Final = 11.0
"""Length of an arrow's head."""
_LABELS: Final = 10
"""Links up to which each has its figures beside it; with more, the table below has them."""


@dataclass(frozen=True, slots=True)
class Place:
    """A box: its upper left corner, two lines of text, and whether it is the bottleneck."""

    name: str
    about: str
    kind: str
    x: float
    y: float
    ring: bool


@dataclass(frozen=True, slots=True)
class Wire:
    """One direction of a link in use."""

    link: str
    start: str
    end: str
    strategies: str
    size: str
    busy: str
    rate: str
    share: str
    share_value: float
    step: int
    ring: bool
    width: str
    path: str
    head: str
    label: str
    label_x: str
    label_y: str


@dataclass(frozen=True, slots=True)
class RouteMap:
    """The drawing, and the same as rows of a table."""

    width: int
    height: int
    places: tuple[Place, ...]
    wires: tuple[Wire, ...]
    basis: str
    box: tuple[float, float]
    bottleneck: str


@dataclass
class _Use:
    """What crosses one direction of a link."""

    size: int = 0
    busy: float = 0.0
    strategies: dict[str, None] = field(default_factory=dict)
    resources: set[str] = field(default_factory=set)


def route_map(estimate: Estimate, run: Run | None) -> RouteMap:
    """The map of a run as it was measured, else as it was predicted."""
    uses = _uses(estimate, run)
    span = (run.makespan_s if run is not None else estimate.makespan_s) or 1.0
    # Flows that share a link at the same time are no longer at it than it is in use.
    active = {use.name: use.active_s for use in estimate.resources}
    for use in uses.values():
        known = [active.get(name) for name in use.resources]
        most = max((s for s in known if s), default=span) if run is None else span
        use.busy = min(use.busy, most, span)
    nodes = estimate.machine.get("nodes", {})
    names = list(dict.fromkeys(name for _, start, end in uses for name in (start, end)))
    spots = _spots(names, nodes)
    limit = estimate.bottleneck.resource
    fastest = max((_rate(use) for use in uses.values()), default=0.0) or 1.0
    few = len(uses) <= _LABELS
    wires = []
    for (link, start, end), use in uses.items():
        ports = estimate.machine.get("links", {}).get(link, {}).get("ports") or ()
        ring = limit in use.resources or limit.rpartition(".")[0] in [p for p in ports if p]
        rate, share = _rate(use), min(1.0, use.busy / span)
        width = 2.0 + 10.0 * rate / fastest
        path, head, (x, y) = _curve(spots[start], spots[end], width)
        label = f"{format_rate(rate)} · {format_share(share)} busy" if rate else "in place"
        wires.append(
            Wire(
                link=link or "inside",
                start=start,
                end=end,
                strategies=", ".join(use.strategies),
                size=format_size(use.size),
                busy=format_time(use.busy),
                rate=format_rate(rate) if rate else "–",
                share=format_share(share),
                share_value=share,
                step=step_of(share),
                ring=ring,
                width=number(width),
                path=path,
                head=head,
                label=label if few else "",
                label_x=number(x),
                label_y=number(y),
            )
        )
    places = tuple(_place(name, nodes.get(name, {}), spots[name], limit) for name in names)
    height = max((y for _, y in spots.values()), default=0.0) + _BOX[1] + _EDGE
    width = max((x for x, _ in spots.values()), default=0.0) + _BOX[0] + 2 * _EDGE
    basis = "measured" if run is not None else "predicted"
    return RouteMap(round(width), round(height), places, tuple(wires), basis, _BOX, limit)


def _uses(estimate: Estimate, run: Run | None) -> dict[tuple[str, str, str], _Use]:
    """Bytes and busy seconds by link and direction, in plan order."""
    found: dict[tuple[str, str, str], _Use] = defaultdict(_Use)
    measured = {flow.name: flow for flow in run.flows} if run is not None else {}
    for flow in estimate.flows:
        own = measured.get(flow.name)
        for number_, hop in enumerate(flow.hops):
            key = hop.hop.link, hop.hop.start, hop.hop.end
            use = found[key]
            known = own is not None and number_ < len(own.hops)
            busy = own.hops[number_].busy_s if own is not None and known else hop.busy_s
            use.busy += busy * flow.repeat
            use.size += _bytes(flow.size_bytes, hop.rate_bytes_per_s, hop.busy_s) * flow.repeat
            use.strategies[_strategy(hop.hop)] = None
            use.resources.add(hop.resource)
    return dict(found)


def _bytes(size: int, rate: float, busy: float) -> int:
    """Bytes that crossed a hop: less than the flow's where it goes several ways."""
    return min(size, round(rate * busy)) if busy > 0 else size


def _strategy(hop: Hop) -> str:
    return hop.strategy


def _rate(use: _Use) -> float:
    return use.size / use.busy if use.busy > 0 else 0.0


def _spots(names: Sequence[str], nodes: Mapping[str, Any]) -> dict[str, tuple[float, float]]:
    """The upper left corner of each box: kinds side by side, places of one kind below another."""
    columns: dict[int, list[str]] = defaultdict(list)
    for name in names:
        kind = str(nodes.get(name, {}).get("kind", "remote"))
        columns[_COLUMNS.get(kind, 4)].append(name)
    tallest = max(len(column) for column in columns.values()) if columns else 1
    spots = {}
    for x, column in enumerate(columns[key] for key in sorted(columns)):
        lift = (tallest - len(column)) * _STEP[1] / 2
        for y, name in enumerate(sorted(column, key=names.index)):
            spots[name] = (_EDGE + x * _STEP[0], _EDGE + lift + y * _STEP[1])
    return spots


def _curve(
    start: tuple[float, float], end: tuple[float, float], thick: float
) -> tuple[str, str, tuple[float, float]]:
    """Path and arrow of one direction, and where its label stands; the way back runs beside it."""
    (w, h), (ax, ay), (bx, by) = _BOX, start, end
    forward = bx >= ax
    shift = -9.0 if forward else 9.0
    y1, y2 = ay + h / 2 + shift, by + h / 2 + shift
    if ax == bx:  # the same column: an arc on the right, whose arrow points back to the left
        x, out = ax + w, ax + w + 46 + abs(by - ay) / 12
        return _bezier((x, y1), (out, out), (x, y2), -1.0, thick, (out + 4, (y1 + y2) / 2))
    way = 1.0 if forward else -1.0
    x1, x2 = (ax + w, bx) if forward else (ax, bx + w)
    middle = (x1 + x2) / 2
    label = middle, (y1 + y2) / 2 + (-14.0 if forward else 22.0)
    return _bezier((x1, y1), (middle, middle), (x2, y2), way, thick, label)


def _bezier(
    start: tuple[float, float],
    bends: tuple[float, float],
    end: tuple[float, float],
    way: float,
    thick: float,
    label: tuple[float, float],
) -> tuple[str, str, tuple[float, float]]:
    """A curve that leaves and arrives level, with an arrow at its end that points `way`."""
    (x1, y1), (x2, y2) = start, end
    tip, half = x2 - _HEAD * way, thick / 2 + 4
    path = (
        f"M{number(x1)} {number(y1)}C{number(bends[0])} {number(y1)} {number(bends[1])} "
        f"{number(y2)} {number(tip)} {number(y2)}"
    )
    head = f"M{number(x2)} {number(y2)}L{number(tip)} {number(y2 - half)}V{number(y2 + half)}z"
    return path, head, label


def _place(name: str, node: Mapping[str, Any], spot: tuple[float, float], limit: str) -> Place:
    kind = str(node.get("kind", "place"))
    capacity = node.get("capacity")
    about = {"disk": "disk", "ram": "host memory", "hbm": "GPU memory"}.get(kind, kind)
    if isinstance(capacity, int):
        about += f" · {format_size(capacity)}"
    return Place(name, about, kind, *spot, ring=limit.rpartition(".")[0] == name)
