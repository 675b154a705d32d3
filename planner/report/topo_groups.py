"""Places that are equal in all that a page shows: what stands for many on a large machine.

Two places are equal if they are of one kind and size and have equal links to equal places. Colours
are refined until no more places differ (as in tests of whether two graphs are the same).
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from planner.results.topo import Topo, TopoLink, TopoNode

LISTED = 3
"""Up to so many names are listed; more are told by the first and the last."""


@dataclass(frozen=True, slots=True)
class Group:
    """Equal places, in the machine's order."""

    nodes: tuple[TopoNode, ...]

    @property
    def names(self) -> tuple[str, ...]:
        """Their names."""
        return tuple(node.name for node in self.nodes)

    @property
    def first(self) -> TopoNode:
        """The one that stands for all."""
        return self.nodes[0]

    @property
    def count(self) -> int:
        """How many places it stands for."""
        return sum(node.members for node in self.nodes)


def alone(topo: Topo) -> list[Group]:
    """Every place by itself."""
    return [Group((node,)) for node in topo.nodes]


def equal(topo: Topo) -> list[Group]:
    """Equal places together, in the order of their first ones."""
    colours: dict[str, Any] = {node.name: _look(node) for node in topo.nodes}
    colours = _numbered(colours)
    touching: dict[str, list[tuple[TopoLink, int]]] = {name: [] for name in colours}
    for link in topo.links:
        for at, end in enumerate(link.ends):
            touching[end].append((link, at))
    hosts = {node.name: node.host for node in topo.nodes}
    while True:
        refined = _numbered(
            {
                name: (
                    colour,
                    colours.get(hosts[name] or ""),
                    tuple(
                        sorted(
                            (_wire(link, at), colours[link.ends[1 - at]])
                            for link, at in touching[name]
                        )
                    ),
                )
                for name, colour in colours.items()
            }
        )
        if len(set(refined.values())) == len(set(colours.values())):
            break
        colours = refined
    found: dict[Any, list[TopoNode]] = {}
    for node in topo.nodes:
        found.setdefault(colours[node.name], []).append(node)
    return [Group(tuple(nodes)) for nodes in found.values()]


def _numbered(colours: dict[str, Any]) -> dict[str, int]:
    """The colours as small numbers."""
    numbers: dict[Any, int] = {}
    return {name: numbers.setdefault(colour, len(numbers)) for name, colour in colours.items()}


def _look(node: TopoNode) -> tuple[Any, ...]:
    return (node.kind, node.members, node.capacity_bytes, node.cores, node.model, node.emulated)


def _wire(link: TopoLink, at: int) -> str:
    """What counts of a link for the place at one end: its kind and width.

    Not its rates, which no two measurements share, nor which end it is if it leads both ways.
    """
    side = 0 if len(link.ways) == 2 else at
    facts = side, (link.kind, link.generation, link.width, link.below_maximum, link.peer_access)
    return str((*facts, link.source == "none"))


def listed(names: Iterable[str], count: int | None = None) -> str:
    """Names in few words; `count` is how many they are, where some stand for several.

    >>> listed(["gpu0", "gpu1"]), listed(f"gpu{k}" for k in range(8))
    ('gpu0, gpu1', 'gpu0 … gpu7 (8)')
    """
    several = list(names)
    number = len(several) if count is None else count
    told = ", ".join(several)
    if len(several) > LISTED:
        told = f"{several[0]} … {several[-1]}"
    return f"{told} ({number})" if number > len(several) or len(several) > LISTED else told


def starred(names: Iterable[str], count: int | None = None) -> str:
    """Names of one pattern as short as can be, with a star for numbers that differ.

    >>> starred(["node0.gpu0", "node0.gpu1", "node1.gpu0"]), starred(["gpu0"]), starred(["a", "b"])
    ('node*.gpu* (3)', 'gpu0', 'a, b')
    """
    several = list(names)
    number = len(several) if count is None else count
    parts = [re.split(r"(\d+)", name) for name in several]
    if len(several) == 1 or {len(part) for part in parts} != {len(parts[0])}:
        return listed(several, count)
    columns = [set(column) for column in zip(*parts, strict=True)]
    if any(len(column) > 1 and not all(map(str.isdecimal, column)) for column in columns):
        return listed(several, count)
    told = "".join(next(iter(column)) if len(column) == 1 else "*" for column in columns)
    return f"{told} ({number})"
