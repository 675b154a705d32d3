"""What links and places are called on the pages of a machine."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from planner.results.topo import TopoLink, TopoNode
from planner.units import format_rate, format_size

_SHORT: Final = {
    "storage": "storage",
    "pcie": "PCIe",
    "c2c": "C2C",
    "nvlink": "NVLink",
    "interconnect": "bus",
    "network": "network",
}
BELOW: Final = "!!"
"""Stands at every link that runs below what it can do."""


def label(link: TopoLink) -> str:
    """A link in one short word, like those of `nvidia-smi topo`: `NV18`, `PCIe5x16`."""
    name = _SHORT.get(link.kind, link.kind)
    if link.kind == "nvlink" and link.width is not None:
        name = f"NV{link.width}"
    if link.kind == "pcie" and link.generation is not None and link.width is not None:
        name = f"PCIe{link.generation}x{link.width}"
    return name + (BELOW if link.below_maximum else "")


def wire(link: TopoLink) -> str:
    """A link in words: `PCIe 5 x16`, `NVLink 4 x18`, with its maximum if it runs below."""
    text = _SHORT.get(link.kind, link.kind)
    if link.generation is not None:
        text += f" {link.generation}"
    if link.width is not None:
        text += f" x{link.width}"
    most = (link.max_generation, link.max_width)
    if link.below_maximum:
        text += f" {BELOW} of {most[0] or '?'} x{most[1] or '?'}"
    elif link.below_maximum is None and None not in most and most != (link.generation, link.width):
        text += f" (idle; up to {most[0]} x{most[1]})"
    return text


def rate(links: Sequence[TopoLink], start: str | None = None, *, back: bool = False) -> str:
    """The rates of one direction of equal links: one, or the least and the largest.

    The direction is the one that leaves `start`, else the first end; with `back` the other.
    Unmeasured links tell what their standard allows.
    """
    found = []
    for link in links:
        ends = link.ends[::-1] if back else link.ends
        leaving = start if start is not None and not back else ends[0]
        found += [way.rate_bytes_per_s for way in link.ways if way.start == leaving][:1]
    known = sorted(value for value in found if value is not None)
    if known:
        low, high = format_rate(known[0]), format_rate(known[-1])
        number, unit = low.split(" ")
        same = high.endswith(" " + unit)
        return low if low == high else f"{number if same else low} – {high}"
    if not found:
        return ""
    nominal = {link.nominal_bytes_per_s for link in links} - {None}
    return f"≤ {format_rate(max(n for n in nominal if n))}" if nominal else "?"


def node_words(node: TopoNode) -> str:
    """A place: what it is, how large, how many."""
    size = format_size(node.capacity_bytes) if node.capacity_bytes else ""
    facts: list[str]
    match node.kind:
        case "ram":
            facts = [size, f"{node.cores} cores" if node.cores else ""]
        case "hbm":
            facts = ["emulated in RAM" if node.emulated else node.model or "GPU", size]
        case "disk":
            facts = ["disk", size, node.filesystem or "", node.path or ""]
        case "nic":
            facts = ["network adapter", node.address or ""]
        case _:
            facts = ["elsewhere", node.address or ""]
    return ", ".join(fact for fact in facts if fact)
