"""The page of `planner topo`: a machine's places and links, as a matrix or as a tree."""

from __future__ import annotations

from typing import Literal

from planner.report.style import Style
from planner.report.table import prose
from planner.report.topo_matrix import matrix_lines, peer_lines, port_lines
from planner.report.topo_tree import tree_lines
from planner.results.topo import Topo

View = Literal["matrix", "tree"]


def topo_text(topo: Topo, style: Style, *, view: View = "matrix", saved: str | None = None) -> str:
    """The whole page."""
    about = f"   {topo.description}" if topo.description else ""
    first, *more = prose(topo.machine + about, style, indent=0, hang=2)
    lines = [style.paint(topo.machine, "strong") + first.removeprefix(topo.machine), *more]
    lines += prose(_known(topo), style)
    for warning in topo.warnings:
        lines += [style.paint(line, "bad") for line in prose(f"!! {warning}", style, hang=3)]
    for note in topo.notes:
        lines += prose(note, style, hang=2)
    lines += ["", *(matrix_lines(topo, style) if view == "matrix" else tree_lines(topo, style))]
    ports, peers = port_lines(topo, style), peer_lines(topo, style)
    if ports or peers:
        lines += ["", *ports, *peers]
    closing = topo.verdict.sentence + (f"   saved {saved}" if saved else "")
    lines += ["", style.spell(closing)]
    return "\n".join(lines) + "\n"


def _known(topo: Topo) -> str:
    """How the numbers are known, above all others."""
    if topo.emulated:
        return "emulated: GPU memory stands in RAM, and its rates say nothing about a GPU"
    if topo.measured:
        return f"measured {topo.when}; rates are those of one large copy"
    if any(link.source != "none" for link in topo.links):
        return "nothing was measured: rates are cited or assumed, as the machine file says"
    return (
        "nothing was measured: `planner calibrate` does that; ≤ is what the standard of a wire "
        "carries"
    )
