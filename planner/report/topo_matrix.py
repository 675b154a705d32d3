"""A machine as a matrix: what connects every two places directly."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from planner.report.style import Style
from planner.report.table import GAP, Cell, Column, Row, prose, table
from planner.report.topo_groups import Group, alone, equal, listed, starred
from planner.report.topo_words import BELOW, label, rate, wire
from planner.results.topo import Topo, TopoLink, TopoPort
from planner.units import format_rate, format_share

ITSELF: Final = "X"
NONE: Final = "-"
INDENT: Final = 2

Grid = list[list[tuple[str, str]]]
"""Label and rate of each cell."""


def matrix_lines(topo: Topo, style: Style) -> list[str]:
    """The matrix, and below it every kind of link.

    The rate in a cell is the one from the row's place to the column's. Where the page is too narrow
    the rates are left to the list of links, then equal places stand together, then some are left
    out, and the page says so.
    """
    lines: list[str] = []
    groups, with_rates, left = _fitting(topo, style)
    names = [starred(group.names, group.count) for group in groups]
    grid = _grid(topo, groups)
    rows: list[Row] = []
    for name, line in zip(names, grid, strict=True):
        rows.append([name, *(_toned(text) for text, _ in line)])
        if with_rates:
            rows.append(["", *(Cell(text, "dim") for _, text in line)])
    lines += table([Column(""), *map(Column, names)], rows, style, indent=INDENT)
    if left:
        told = ", ".join(starred(group.names, group.count) for group in left)
        lines += prose(f"left out: {told}; --json has every place and link", style)
    return [*lines, "", *link_lines(topo, style)]


def _toned(text: str) -> Cell:
    return Cell(text, "bad" if BELOW in text else "dim" if text in (ITSELF, NONE) else "plain")


def _fitting(topo: Topo, style: Style) -> tuple[list[Group], bool, list[Group]]:
    """The places to show, whether with rates, and those that are left out."""
    every = alone(topo)
    together = equal(topo)
    for groups in (every, together):
        for with_rates in (True, False):
            if _width(topo, groups, with_rates=with_rates) <= style.width:
                return groups, with_rates, []
    shown = list(together)
    while len(shown) > 1 and _width(topo, shown, with_rates=False) > style.width:
        shown.pop()
    return shown, False, together[len(shown) :]


def _width(topo: Topo, groups: Sequence[Group], *, with_rates: bool) -> int:
    """Columns that the matrix takes."""
    if len(groups) > 60:  # no page has so many columns: do not draw what is thrown away
        return 10_000
    names = [starred(group.names, group.count) for group in groups]
    grid = _grid(topo, groups)
    total = INDENT + max(map(len, names), default=0)
    for j, name in enumerate(names):
        cells = [len(line[j][0]) for line in grid]
        cells += [len(line[j][1]) for line in grid] if with_rates else []
        total += len(GAP) + max(len(name), *cells)
    return total


def _grid(topo: Topo, groups: Sequence[Group]) -> Grid:
    """The cells: rows and columns are the groups."""
    owner = {name: k for k, group in enumerate(groups) for name in group.names}
    links: dict[tuple[int, int], list[tuple[TopoLink, str]]] = {}
    for link in topo.links:
        # One that joins a class to itself goes the same way both ways.
        for way in link.ways[:1] if link.ends[0] == link.ends[1] else link.ways:
            if way.start in owner and way.end in owner:
                at = owner[way.start], owner[way.end]
                links.setdefault(at, []).append((link, way.start))
    numbers = range(len(groups))
    return [
        [_cell(groups[i], groups[j], links.get((i, j), []), same=i == j) for j in numbers]
        for i in numbers
    ]


def _cell(
    one: Group, other: Group, links: Sequence[tuple[TopoLink, str]], *, same: bool
) -> tuple[str, str]:
    """What leads from the places of one group to those of another."""
    if not links:
        return (ITSELF, "") if same and one.count == 1 else (NONE, "")
    kinds: dict[str, list[tuple[TopoLink, str]]] = {}
    for link, start in links:
        kinds.setdefault(label(link), []).append((link, start))
    words, rates = [], []
    for name, several in kinds.items():
        apiece = len(several) / len(one.nodes)
        reached = len({end for link, _ in several for end in link.ends} & set(other.names))
        told = name
        if len(one.nodes) == len(other.nodes) == 1 and apiece > 1:
            told = f"{len(several)}×{name}"
        elif len(other.nodes) > 1 and apiece < reached - (1 if same else 0):
            told = f"{name} to {apiece:g}"
        words.append(told)
        found = sorted({_rate_of(link, start) for link, start in several})
        rates.append(found[0] if len(found) == 1 else f"{found[0]} …")
    return " + ".join(words), " + ".join(rates)


def _rate_of(link: TopoLink, start: str) -> str:
    return rate([link], start)


def link_lines(topo: Topo, style: Style) -> list[str]:
    """One row for all links that are alike: their rates both ways, what they share."""
    classes: dict[tuple[str, ...], list[TopoLink]] = {}
    kinds = {node.name: node.kind for node in topo.nodes}
    for link in topo.links:
        ends = tuple(kinds[end] for end in link.ends)
        key = (wire(link), *ends, str(link.peer_access), link.source, str(bool(_ports(link))))
        classes.setdefault(key, []).append(link)
    rows: list[Row] = []
    for links in classes.values():
        one = links[0]
        count = sum(link.members for link in links)
        ports = dict.fromkeys(port for link in links for port in _ports(link))
        rows.append(
            [
                listed([link.name for link in links], count),
                f"{one.ends[0]} – {one.ends[1]}" if len(links) == 1 else _between(links),
                Cell(wire(one), "bad" if one.below_maximum else "plain"),
                rate(links),
                rate(links, back=True),
                _of_standard(links),
                one.peer_access or "",
                listed(ports),
                "not measured" if one.source == "none" else one.source,
            ]
        )
    columns = [
        Column("link"),
        Column("between", give_way=4),
        Column("wire"),
        Column("rate →", right=True),
        Column("rate ←", right=True, give_way=1),
        Column("of standard", right=True, give_way=5),
        Column("peer", give_way=2),
        Column("shares", give_way=3),
        Column("known", give_way=6),
    ]
    return table(columns, rows, style, indent=INDENT)


def _ports(link: TopoLink) -> list[str]:
    return [port for port in link.ports or () if port is not None]


def _between(links: Sequence[TopoLink]) -> str:
    """`host0 – gpu0 … gpu7`."""
    starts, ends = (list(dict.fromkeys(link.ends[k] for link in links)) for k in (0, 1))
    if set(starts) & set(ends):  # every two of them
        return f"among {_few(list(dict.fromkeys(starts + ends)))}"
    return f"{_few(starts)} – {_few(ends)}"


def _few(names: Sequence[str]) -> str:
    return names[0] if len(names) == 1 else f"{names[0]} … {names[-1]}"


def _of_standard(links: Sequence[TopoLink]) -> str:
    """The least share of what the standard of the wire carries."""
    shares = [
        way.rate_bytes_per_s / link.nominal_bytes_per_s
        for link in links
        if link.nominal_bytes_per_s
        for way in link.ways
        if way.rate_bytes_per_s is not None
    ]
    return format_share(min(shares)) if shares else ""


def port_lines(topo: Topo, style: Style) -> list[str]:
    """What several links share, and how much it carries; one line for all that are alike."""
    classes: dict[tuple[object, ...], list[TopoPort]] = {}
    for port in topo.ports:
        facts = port.model_dump(exclude={"name", "links"})
        classes.setdefault((*facts.values(), len(port.links)), []).append(port)
    lines = []
    for ports in classes.values():
        one = ports[0]
        names = listed([port.name for port in ports], sum(port.members for port in ports))
        links = listed(one.links) or "no link"
        alike = ", and so on" if len(ports) > 1 else ""
        text = f"{names}: {_limits(one)}, shared by {links}{alike}"
        lines += prose(text, style, hang=2)
    return lines


def _limits(port: TopoPort) -> str:
    """What a port carries both ways, and what traffic that crosses takes of it."""
    ways = (
        (port.forward_bytes_per_s, port.forward_across, "out"),
        (port.backward_bytes_per_s, port.backward_across, "back"),
    )
    told = [f"{format_rate(value)} {word}" for value, _, word in ways if value is not None]
    taken = [f"{across:.2g} of a byte {word}" for _, across, word in ways if across]
    crossing = f"; a byte the other way over another link takes {', '.join(taken)}"
    limits = f"{', '.join(told)} in all" if told else "no limit"
    return limits + (crossing if taken else "")


def peer_lines(topo: Topo, style: Style) -> list[str]:
    """Whether GPUs reach each other's memory, in few words."""
    states: dict[str, list[str]] = {}
    count: dict[str, int] = {}
    kinds = {node.name: node.kind for node in topo.nodes}
    for link in topo.links:
        if link.peer_access is not None and all(kinds[end] == "hbm" for end in link.ends):
            states.setdefault(link.peer_access, []).append("–".join(dict.fromkeys(link.ends)))
            count[link.peer_access] = count.get(link.peer_access, 0) + link.members
    for pair in topo.pairs:
        why = f" ({pair.refused})" if pair.refused else ""
        state = pair.peer_access + why
        near = f", {pair.near}" if pair.near else ""
        states.setdefault(state, []).append("–".join(pair.gpus) + near)
        count[state] = count.get(state, 0) + 1
    told = "; ".join(f"{state} {listed(names, count[state])}" for state, names in states.items())
    return prose(f"peer access between GPUs: {told}", style, hang=2) if told else []
