"""A scatter plot as SVG: predicted against measured seconds, both axes logarithmic."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any
from xml.sax.saxutils import escape

from planner.units import format_time

WIDTH, HEIGHT = 720, 560
LEFT, TOP, RIGHT, BOTTOM = 70, 20, 190, 50
COLOURS = ("#2b6cb0", "#c05621", "#2f855a", "#b83280", "#6b46c1", "#b7791f", "#319795", "#718096")
"""Hues that differ in lightness too; they hold on white and on near-black."""
STYLE = """\
text{font:12px system-ui,sans-serif;fill:#1a202c}
.back{fill:#ffffff}.grid{stroke:#e2e8f0}.same{stroke:#1a202c}.band{fill:#a0aec0;opacity:.25}
@media(prefers-color-scheme:dark){
text{fill:#e2e8f0}.back{fill:#171923}.grid{stroke:#2d3748}.same{stroke:#e2e8f0}}"""
BAND = 1.08
"""The shaded band: within 8 % either way."""


def scatter(points: Sequence[Mapping[str, Any]]) -> str:
    """The plot of all points; first runs are hollow. The diagonal is a perfect prediction."""
    times = [p[key] for p in points for key in ("predicted_s", "measured_s") if p[key] > 0]
    low = math.floor(math.log10(min(times, default=1e-6)))
    high = max(low + 1, math.ceil(math.log10(max(times, default=1.0))))
    axes = _Axes(low, high)
    groups = _groups(points)
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {HEIGHT}" role="img">',
        "<title>Predicted against measured seconds</title>",
        f"<style>{STYLE}</style>",
        f'<rect class="back" width="{WIDTH}" height="{HEIGHT}"/>',
        *axes.grid(),
        *axes.diagonal(),
    ]
    shown = [p for p in points if p["predicted_s"] > 0 and p["measured_s"] > 0]
    parts += [axes.dot(point, COLOURS[groups[_group(point)]]) for point in shown]
    parts += _legend(groups)
    return "\n".join([*parts, "</svg>", ""])


def _group(point: Mapping[str, Any]) -> str:
    """The first word of a family: `h2d`, `d2h`, `file`, `peer` and so on."""
    return str(point["family"]).split()[0]


def _groups(points: Sequence[Mapping[str, Any]]) -> dict[str, int]:
    """The groups by number of points; what comes after the last colour shares it."""
    counts: dict[str, int] = {}
    for point in points:
        counts[_group(point)] = counts.get(_group(point), 0) + 1
    ordered = sorted(counts, key=lambda name: (-counts[name], name))
    return {name: min(k, len(COLOURS) - 1) for k, name in enumerate(ordered)}


class _Axes:
    """Both axes, from 10**low to 10**high seconds."""

    def __init__(self, low: int, high: int) -> None:
        self.low, self.high = low, high

    def x(self, seconds: float) -> float:
        """Pixels from the left."""
        share = (math.log10(seconds) - self.low) / (self.high - self.low)
        return LEFT + share * (WIDTH - LEFT - RIGHT)

    def y(self, seconds: float) -> float:
        """Pixels from the top."""
        share = (math.log10(seconds) - self.low) / (self.high - self.low)
        return HEIGHT - BOTTOM - share * (HEIGHT - TOP - BOTTOM)

    def grid(self) -> list[str]:
        """A line for each power of ten, with its time."""
        found = []
        for power in range(self.low, self.high + 1):
            x, y = self.x(10.0**power), self.y(10.0**power)
            label = escape(format_time(10.0**power))
            foot, edge = HEIGHT - BOTTOM, WIDTH - RIGHT
            found += [
                f'<line class="grid" x1="{x:.1f}" y1="{TOP}" x2="{x:.1f}" y2="{foot}"/>',
                f'<line class="grid" x1="{LEFT}" y1="{y:.1f}" x2="{edge}" y2="{y:.1f}"/>',
                f'<text x="{x:.1f}" y="{foot + 18}" text-anchor="middle">{label}</text>',
                f'<text x="{LEFT - 8}" y="{y + 4:.1f}" text-anchor="end">{label}</text>',
            ]
        middle = (LEFT + WIDTH - RIGHT) / 2
        found.append(f'<text x="{middle}" y="{HEIGHT - 10}" text-anchor="middle">predicted</text>')
        across = (TOP + HEIGHT - BOTTOM) / 2
        found.append(
            f'<text transform="translate(14 {across}) rotate(-90)" text-anchor="middle">'
            "measured</text>"
        )
        return found

    def diagonal(self) -> list[str]:
        """The line of equality, and the band around it."""
        low, high = 10.0**self.low, 10.0**self.high
        corners = [(low * BAND, low), (high, high / BAND), (high / BAND, high), (low, low * BAND)]
        shape = " ".join(f"{self.x(p):.1f},{self.y(m):.1f}" for p, m in corners)
        ends = f'x1="{self.x(low):.1f}" y1="{self.y(low):.1f}" x2="{self.x(high):.1f}"'
        return [
            f'<polygon class="band" points="{shape}"/>',
            f'<line class="same" {ends} y2="{self.y(high):.1f}"/>',
        ]

    def dot(self, point: Mapping[str, Any], colour: str) -> str:
        """A point; its words appear where a pointer rests on it."""
        fill = f'fill="none" stroke="{colour}"' if point["first_run"] else f'fill="{colour}"'
        first = ", first run" if point["first_run"] else ""
        words = escape(f"{point['plan']}: {point['error_factor']:.3f}x{first}")
        x, y = self.x(point["predicted_s"]), self.y(point["measured_s"])
        return f'<circle cx="{x:.1f}" cy="{y:.1f}" r="3" {fill}><title>{words}</title></circle>'


def _legend(groups: Mapping[str, int]) -> list[str]:
    """Colours at the right."""
    x, found = WIDTH - RIGHT + 16, []
    for row, (name, colour) in enumerate(groups.items()):
        y = TOP + 10 + 18 * row
        found.append(f'<circle cx="{x}" cy="{y}" r="4" fill="{COLOURS[colour]}"/>')
        found.append(f'<text x="{x + 10}" y="{y + 4}">{escape(name)}</text>')
    y = TOP + 10 + 18 * len(groups)
    found.append(f'<circle cx="{x}" cy="{y}" r="4" fill="none" stroke="{COLOURS[-1]}"/>')
    found.append(f'<text x="{x + 10}" y="{y + 4}">first run (hollow)</text>')
    found.append(f'<text x="{x}" y="{y + 22}">shaded: within 8 %</text>')
    return found
