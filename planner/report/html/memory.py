"""Memory over time: what each node holds, flow upon flow, against what it has."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Final

from planner.report.html.scales import number, short_time, ticks
from planner.results import Estimate, MemoryLayer, MemoryTrack
from planner.units import format_share, format_size

_WIDE: Final = 1000.0
_HIGH: Final = 100.0
_NEAR: Final = 0.5
"""From half full on the capacity is part of the drawing; below it would only flatten it."""
_COLOURS: Final = 6


@dataclass(frozen=True, slots=True)
class Layer:
    """The area of one flow."""

    path: str
    colour: int
    pinned: bool
    text: str


@dataclass(frozen=True, slots=True)
class MemoryChart:
    """One node, or several that hold the same."""

    node: str
    likewise: str
    peak: str
    capacity: str
    share: str
    fits: bool
    full: float
    layers: tuple[Layer, ...]
    limit_y: str | None
    ticks: tuple[tuple[str, str], ...]
    top: str


def memory_charts(tracks: Sequence[MemoryTrack], estimate: Estimate) -> tuple[MemoryChart, ...]:
    """A chart for each node; nodes that look the same are drawn once."""
    groups: dict[tuple[object, ...], list[MemoryTrack]] = {}
    for track in tracks:
        looks = tuple((o.start_s, o.end_s, o.size_bytes, o.pinned) for o in track.layers)
        key = (track.capacity_bytes, *(tuple(f"{v:.5g}" for v in layer) for layer in looks))
        groups.setdefault(key, []).append(track)
    peaks = {node.name: node.peak_bytes for node in estimate.nodes}
    span = estimate.makespan_s or 1.0
    return tuple(_chart(group, peaks, span) for group in groups.values())


def _chart(group: Sequence[MemoryTrack], peaks: dict[str, int], span: float) -> MemoryChart:
    track = group[0]
    edges = sorted({0.0, span, *(t for o in track.layers for t in (o.start_s, o.end_s))})
    edges = [t for t in edges if t <= span]
    peak = peaks.get(track.node) or max(_held(track.layers, t) for t in edges)
    capacity = track.capacity_bytes
    full = peak / capacity if capacity else 0.0
    top = float(capacity) if capacity and full >= _NEAR else peak * 1.15
    top = max(top, float(peak), 1.0)
    base = [0.0] * (len(edges) - 1)
    layers = []
    for number_, layer in enumerate(track.layers):
        layers.append(_layer(layer, edges, base, (span, top), number_ % _COLOURS))
    names = [other.node for other in group[1:]]
    return MemoryChart(
        node=track.node + (f" (each of {track.members})" if track.members > 1 else ""),
        likewise=f"likewise {', '.join(names)}" if names else "",
        peak=format_size(peak),
        capacity=format_size(capacity) if capacity else "unknown",
        share="" if not capacity else format_share(full) if full >= 0.001 else "under 0.1 %",
        fits=not capacity or peak <= capacity,
        full=min(1.0, full),
        layers=tuple(layers),
        limit_y=number(_HIGH * (1 - capacity / top)) if capacity and capacity <= top else None,
        ticks=tuple((f"{100 * t / span:.3f}%", short_time(t)) for t in ticks(span, 6)),
        top=format_size(round(top)),
    )


def _held(layers: Sequence[MemoryLayer], at: float) -> int:
    return sum(o.size_bytes for o in layers if o.start_s <= at < o.end_s)


def _layer(
    layer: MemoryLayer,
    edges: Sequence[float],
    base: list[float],
    scale: tuple[float, float],
    colour: int,
) -> Layer:
    """The area of one flow on top of those before; `base` grows by it."""
    span, top = scale
    # (start, end, low) of each stretch on which nothing below changes.
    stretches: list[tuple[float, float, float]] = []
    for i, (start, end) in enumerate(pairwise(edges)):
        if layer.start_s <= start and end <= layer.end_s and layer.size_bytes:
            low, base[i] = base[i], base[i] + layer.size_bytes
            grows = bool(stretches) and stretches[-1][1:] == (start, low)
            stretches.append((stretches.pop()[0] if grows else start, end, low))
    # A flow's ring of some MiB beside a model of some GB is still a line.
    tall = max(_HIGH * layer.size_bytes / top, 1.0)
    parts = []
    for start, end, low in stretches:
        x, width = _WIDE * start / span, _WIDE * (end - start) / span
        y = _HIGH * (1 - (low + layer.size_bytes) / top)
        parts.append(f"M{number(x)} {number(y)}h{number(width)}v{number(tall)}h-{number(width)}z")
    told = f"{layer.flow or 'source'}: {format_size(layer.size_bytes)}"
    told += ", pinned" if layer.pinned else ""
    return Layer("".join(parts), colour, layer.pinned, told)
