"""A machine as a page of text: what it has, how fast its links are, and how that is known."""

from __future__ import annotations

from planner.machine.schema import Direction, Hbm, Machine, Ram
from planner.report.style import Style
from planner.report.table import Column, Row, prose, table
from planner.units import format_rate, format_share, format_size, format_time


def machine_text(machine: Machine, style: Style, *, saved: str | None = None) -> str:
    """The page of a machine: its nodes, both directions of its links, its sources."""
    kind = "   emulated: HBM stands in RAM" if machine.emulated else ""
    lines = [style.paint(style.spell(machine.name), "strong") + style.spell(kind), ""]
    for warning in machine.warnings:
        lines += [style.paint(line, "bad") for line in prose(f"WARNING: {warning}", style, hang=2)]
        lines.append("")
    lines += _node_lines(machine, style)
    lines += ["", *_link_lines(machine, style)]
    copies = _copy_rows(machine)
    if copies:
        columns = [Column("copies"), Column("stage"), Column("best rate", right=True)]
        lines += ["", *table(columns, copies, style, indent=2)]
    lines.append("")
    for name, source in machine.sources.items():
        spread = f", spread {format_share(source.spread)}" if source.spread is not None else ""
        disturbed = f", {source.disturbed} cells disturbed" if source.disturbed else ""
        text = f"{name}: {source.kind} {source.when} on {source.where}{spread}{disturbed}"
        lines += prose(text, style, hang=2)
    if saved:
        lines += ["", style.spell(f"saved {saved}")]
    return "\n".join(lines) + "\n"


def _node_lines(machine: Machine, style: Style) -> list[str]:
    rows: list[Row] = []
    for name, node in machine.nodes.items():
        capacity = getattr(node, "capacity", None)
        about = ""
        if isinstance(node, Ram):
            about = f"{node.cores} cores"
        elif isinstance(node, Hbm):
            about = "emulated in RAM" if node.emulated else node.model or ""
        rows.append([name, node.kind, format_size(capacity) if capacity else "", about])
    columns = [Column("node"), Column("kind"), Column("capacity", right=True), Column("")]
    return table(columns, rows, style, indent=2)


def _link_lines(machine: Machine, style: Style) -> list[str]:
    """One line a direction."""
    rows: list[Row] = []
    for name, link in machine.links.items():
        for start, end in (link.ends, link.ends[::-1]):
            direction = link.direction(start)
            if direction is not None:
                rate, ways = format_rate(direction.rate), ", ".join(direction.curves)
                way = f"{start} → {end}"
                rows.append([name, way, link.kind, rate, _latency(direction), ways])
    columns = [
        Column("link"),
        Column("direction"),
        Column("kind", give_way=1),
        Column("rate", right=True),
        Column("latency", right=True),
        Column("measured ways", give_way=2),
    ]
    return table(columns, rows, style, indent=2)


def _latency(direction: Direction) -> str:
    """The shortest latency of its curves: what the quickest lone copy waits."""
    waits = [curve.latency for curve in direction.curves.values()]
    return format_time(min(waits)) if waits else ""


def _copy_rows(machine: Machine) -> list[Row]:
    """The best rate of each copy stage of each memory."""
    return [
        [name, stage, format_rate(max(cell or 0.0 for row in copies.rates for cell in row))]
        for name, node in machine.nodes.items()
        if isinstance(node, Ram)
        for stage, copies in node.copy_rates.items()
    ]
