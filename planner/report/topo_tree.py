"""A machine as a tree: hosts, their NUMA nodes, the devices below, each with its links."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Final

from planner.report.style import Style
from planner.report.table import Cell, Column, Row, table
from planner.report.topo_groups import Group, alone, equal, listed, starred
from planner.report.topo_words import node_words, rate, wire
from planner.results.topo import Topo, TopoLink
from planner.units import format_size

MOST: Final = 24
"""Places up to which each has a row of its own; of more, equal ones stand together."""


@dataclass(slots=True)
class Branch:
    """A row of the tree with those below it: its name, what it is, and its link upwards."""

    name: str
    about: str = ""
    links: Sequence[TopoLink] = ()
    start: str = ""
    below: list[Branch] = field(default_factory=list)


def tree_lines(topo: Topo, style: Style) -> list[str]:
    """The tree; `out` is the rate away from the place above, `back` the one towards it."""
    groups = alone(topo) if len(topo.nodes) <= MOST else equal(topo)
    rows: list[Row] = []
    for root in _roots(topo, groups):
        rows += _rows(root, "", "")
    columns = [
        Column("place"),
        Column("", give_way=2),
        Column("link", give_way=5),
        Column("wire"),
        Column("out", right=True),
        Column("back", right=True, give_way=1),
        Column("peer", give_way=3),
        Column("shares", give_way=4),
    ]
    return table(columns, rows, style, indent=2)


def _roots(topo: Topo, groups: Sequence[Group]) -> list[Branch]:
    """Hosts with what belongs to them, then what belongs to none."""
    owner = {name: k for k, group in enumerate(groups) for name in group.names}
    branches = {
        k: Branch(starred(group.names, group.count), node_words(group.first))
        for k, group in enumerate(groups)
    }
    roots = []
    numa = _numa_branches(topo) if len(topo.numa) > 1 else {}
    for k, group in enumerate(groups):
        host = group.first.host
        above = owner.get(host) if host is not None else None
        if above is None or above == k:
            roots.append(branches[k])
            continue
        branch, parent = branches[k], groups[above]
        branch.links = _joining(topo, parent.names, group.names)
        branch.start = host or ""
        branch.below += _others(topo, groups, k, above)
        place = numa.get(group.first.numa) if group.first.numa is not None else None
        (branches[above] if place is None else place).below.append(branch)
    if numa and roots:
        hosts = [b for k, b in branches.items() if groups[k].first.kind == "ram"]
        hosts[0].below += numa.values()
    return roots


def _numa_branches(topo: Topo) -> dict[int, Branch]:
    return {
        node.index: Branch(
            f"NUMA node {node.index}",
            ", ".join(
                fact
                for fact in (
                    format_size(node.memory_bytes) if node.memory_bytes else "",
                    f"{node.cores} cores",
                )
                if fact
            ),
        )
        for node in topo.numa
    }


def _joining(topo: Topo, one: Sequence[str], other: Sequence[str]) -> list[TopoLink]:
    """The links between places of two groups."""
    near, far = set(one), set(other)
    return [
        link
        for link in topo.links
        if (link.ends[0] in near and link.ends[1] in far)
        or (link.ends[1] in near and link.ends[0] in far)
    ]


def _others(topo: Topo, groups: Sequence[Group], k: int, above: int) -> Iterator[Branch]:
    """The links of a place to others than its host: one row for all that are alike."""
    own = set(groups[k].names)
    kinds: dict[str, list[tuple[TopoLink, str, str]]] = {}
    for link in topo.links:
        for start, end in {link.ends, link.ends[::-1]}:
            if start in own and end not in groups[above].names:
                kinds.setdefault(f"{wire(link)} {link.peer_access}", []).append((link, start, end))
    for found in kinds.values():
        ends = dict.fromkeys(end for _, _, end in found)
        links = list({link.name: link for link, _, _ in found}.values())
        yield Branch(f"to {listed(ends)}", "", links, found[0][1])


def _rows(branch: Branch, lead: str, inner: str) -> Iterator[Row]:
    """The rows of a branch and of those below; `lead` and `inner` stand before their names."""
    links = branch.links
    below = any(link.below_maximum for link in links)
    ports = dict.fromkeys(p for link in links for p in link.ports or () if p is not None)
    # All links of a row lead from the place above: a rate out leaves the end that is not below.
    yield [
        f"{lead}{branch.name}",
        branch.about,
        listed([link.name for link in links]),
        Cell(wire(links[0]) if links else "", "bad" if below else "plain"),
        _rate(links, branch.start, away=True),
        _rate(links, branch.start, away=False),
        links[0].peer_access or "" if links else "",
        listed(ports),
    ]
    for at, child in enumerate(branch.below):
        last = at == len(branch.below) - 1
        yield from _rows(
            child, inner + ("└─ " if last else "├─ "), inner + ("   " if last else "│  ")
        )


def _rate(links: Sequence[TopoLink], start: str, *, away: bool) -> str:
    """The rates of equal links away from the place that they start at, or towards it."""
    leaving = [link for link in links if link.ends[0] == start]
    arriving = [link for link in links if link.ends[0] != start]
    told = [rate(leaving, back=not away)] if leaving else []
    told += [rate(arriving, back=away)] if arriving else []
    return told[0] if told else ""
