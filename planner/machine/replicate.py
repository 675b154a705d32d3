"""Machines of many equal parts: one description stands for all of them.

`replicate: {node: 0..63, gpu: 0..7}` makes every name with placeholders a class: the node
`node{node}.gpu{gpu}` is 512 GPUs, the link `node{node}.pcie{gpu}` their 512 wires. A model that
treats all members alike works on the classes as they are; where a plan names one of them the
machine is written out.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Mapping
from itertools import product
from typing import TYPE_CHECKING, Final

from planner.errors import InfeasibleError
from planner.wording import quoted

if TYPE_CHECKING:
    from planner.machine.schema import Link, Machine, Node

MOST_PARTS: Final = 20_000
"""Places and links up to which a machine is written out: 64 hosts of 8 GPUs that are all joined
to each other inside a host are 3,600; 350 such hosts take about a second."""

DIGITS: Final = 18
"""The longest number of a range: 10**18 is more than there is of anything."""
_RANGE: Final = re.compile(rf"\s*(\d{{1,{DIGITS}}})\s*\.\.\s*(\d{{1,{DIGITS}}})\s*", re.ASCII)
_PLACEHOLDER: Final = re.compile(r"\{(\w+)\}")


def check_range(text: str) -> str:
    """`text` if it is a range like `0..63`; raises `ValueError` that says what is wrong."""
    match = _RANGE.fullmatch(text)
    if match is None:
        raise ValueError(f"{quoted(text)} is no range; write the first and the last number: 0..7")
    if int(match[2]) < int(match[1]):
        raise ValueError(f"the range {quoted(text)} runs backwards")
    return text


def values_of(text: str) -> range:
    """The numbers of a checked range."""
    first, _, last = text.partition("..")
    return range(int(first), int(last) + 1)


def placeholders(name: str) -> tuple[str, ...]:
    """The keys in braces in a name, in order, each once."""
    return tuple(dict.fromkeys(_PLACEHOLDER.findall(name)))


def members(machine: Machine, name: str) -> int:
    """How many equal places, links or resources a name stands for; 1 for a plain one."""
    return count(machine.replicate, name)


def count(replicate: Mapping[str, str], name: str) -> int:
    """Likewise, with the ranges of `replicate`.

    >>> count({"node": "0..3", "gpu": "0..7"}, "node{node}.gpu{gpu}"), count({}, "gpu0")
    (32, 1)
    """
    if "{" not in name:
        return 1
    return math.prod(len(values_of(replicate[key])) for key in placeholders(name))


def replicate_faults(machine: Machine) -> list[str]:
    """What is wrong with the placeholders of a machine."""
    kinds = (("node", machine.nodes), ("link", machine.links), ("port", machine.ports))
    faults = [
        f'{kind} {name}: replicate has no "{key}"'
        for kind, names in kinds
        for name in names
        for key in placeholders(name)
        if key not in machine.replicate
    ]
    return faults + [
        f"link {name} ends at {end}: put {{{key}}} into its name too"
        for name, link in machine.links.items()
        for end in link.ends
        for key in placeholders(end)
        if key in machine.replicate and key not in placeholders(name)
    ]


def _fill(name: str, values: Mapping[str, int]) -> str:
    return _PLACEHOLDER.sub(lambda match: str(values[match[1]]), name)


def _instances(machine: Machine, name: str) -> Iterator[dict[str, int]]:
    keys = placeholders(name)
    for values in product(*(values_of(machine.replicate[key]) for key in keys)):
        yield dict(zip(keys, values, strict=True))


def all_names(machine: Machine) -> tuple[dict[str, None], dict[str, None]]:
    """The names of all places and of all links, written out, with the classes' own names first."""
    if not machine.replicate:
        return dict.fromkeys(machine.nodes), dict.fromkeys(machine.links)
    found = []
    for names in (machine.nodes, machine.links):
        several = [
            _fill(name, values)
            for name in names
            if "{" in name
            for values in _instances(machine, name)
        ]
        found.append(dict.fromkeys([*names, *several]))
    return found[0], found[1]


def written_out(machine: Machine) -> Machine:
    """The machine with every member of every class a place or link of its own.

    A link with the same class at both ends joins every two of its members that differ in the last
    placeholder only; `peer{gpu}` between `gpu{gpu}` becomes `peer0-1`, `peer0-2` and so on.

    Raises `InfeasibleError` for a machine of more than `MOST_PARTS` places and links.
    """
    if not machine.replicate:
        return machine
    parts = sum(members(machine, name) for name in machine.nodes)
    parts += sum(links_of(machine, name, link) for name, link in machine.links.items())
    if parts > MOST_PARTS:
        raise InfeasibleError(
            f"{machine.name} has {parts} places and links; up to {MOST_PARTS} a plan may name "
            "single ones: write the flows with for_each over all of them"
        )
    nodes = {
        _fill(name, values): _node(machine, node, name, values)
        for name, node in machine.nodes.items()
        for values in _instances(machine, name)
    }
    links = dict(
        pair for name, link in machine.links.items() for pair in _written_links(machine, name, link)
    )
    ports = {
        _fill(name, values): port
        for name, port in machine.ports.items()
        for values in _instances(machine, name)
    }
    update = {"nodes": nodes, "links": links, "ports": ports, "replicate": {}}
    return machine.model_copy(update=update)


def links_of(machine: Machine, name: str, link: Link) -> int:
    """How many links a name stands for; one that joins a class to itself joins every two."""
    count = members(machine, name)
    if not _joins_itself(link):
        return count
    return count * (len(values_of(machine.replicate[placeholders(link.ends[0])[-1]])) - 1) // 2


def _joins_itself(link: Link) -> bool:
    return link.ends[0] == link.ends[1]


def _node(machine: Machine, node: Node, name: str, values: Mapping[str, int]) -> Node:
    """One member: its host is the one with its own numbers, its device its own last number."""
    update: dict[str, object] = {}
    host = getattr(node, "host", None)
    if isinstance(host, str) and "{" in host:
        first = {key: values_of(machine.replicate[key])[0] for key in placeholders(host)}
        update["host"] = _fill(host, {**first, **values})
    if node.kind == "hbm" and values:
        update["device"] = values[placeholders(name)[-1]]
    return node.model_copy(update=update) if update else node


def _written_links(machine: Machine, name: str, link: Link) -> Iterator[tuple[str, Link]]:
    for values in _instances(machine, name):
        if not _joins_itself(link):
            yield _fill(name, values), _between(link, values, values)
            continue
        turning = placeholders(link.ends[0])[-1]
        for other in values_of(machine.replicate[turning]):
            if other > values[turning]:
                far = {**values, turning: other}
                yield f"{_fill(name, values)}-{other}", _between(link, values, far)


def _between(link: Link, near: Mapping[str, int], far: Mapping[str, int]) -> Link:
    update: dict[str, object] = {"ends": (_fill(link.ends[0], near), _fill(link.ends[1], far))}
    if link.ports is not None:
        update["ports"] = tuple(
            None if port is None else _fill(port, values)
            for port, values in zip(link.ports, (near, far), strict=True)
        )
    return link.model_copy(update=update)
