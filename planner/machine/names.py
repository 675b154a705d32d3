"""Whether the names in a machine exist: ends and ports of links, hosts, sources of numbers.

The check takes a `Machine` or the raw text of one, so that a file with a bad unit still hears of
its bad names in the same go.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Final, NamedTuple

COSTS: Final = (
    "register_ahead",
    "register_helped",
    "register_memory",
    "managed_touch",
    "managed_fill",
    "managed_map",
)
"""Curves of host memory that say what making bytes ready costs."""

_NO_HOSTS: Final = ("disk", "hbm", "nic", "remote")


class NameFault(NamedTuple):
    """A name that nothing answers to: where it stands, what is wrong, what it could have been."""

    path: tuple[str | int, ...]
    message: str
    given: str
    choices: tuple[str, ...]


class UnknownNamesError(ValueError):
    """Names in a machine that nothing answers to; `faults` lists them all."""

    def __init__(self, faults: list[NameFault]) -> None:
        super().__init__("; ".join(fault.message for fault in faults))
        self.faults = faults


def _get(thing: Any, name: str) -> Any:
    """The value under `name` (its word in the file) of a raw mapping or of a model."""
    if isinstance(thing, Mapping):
        return thing.get(name)
    return getattr(thing, "copy_rates" if name == "copy" else name, None)


def _items(thing: Any) -> list[tuple[str, Any]]:
    return list(thing.items()) if isinstance(thing, Mapping) else []


def _entries(thing: Any, name: str) -> Iterator[tuple[int, str]]:
    """The names in the list under `name`, each with its place there."""
    listed = _get(thing, name)
    for i, entry in enumerate(listed if isinstance(listed, (list, tuple)) else ()):
        if isinstance(entry, str):
            yield i, entry


def name_faults(machine: Any) -> list[NameFault]:
    """Every name in a machine (a model, or raw text still to be checked) that does not exist."""
    nodes = dict(_items(_get(machine, "nodes")))
    rams = tuple(name for name, node in nodes.items() if _get(node, "kind") == "ram")
    # A node whose kind is misspelled has a fault of its own: it may have meant to be a host.
    others = {name for name, node in nodes.items() if _get(node, "kind") in _NO_HOSTS}
    ports = dict(_items(_get(machine, "ports")))
    faults = []
    for name, link in _items(_get(machine, "links")):
        for i, end in _entries(link, "ends"):
            if end not in nodes:
                message = f'link {name} ends at "{end}", which is no node'
                faults.append(NameFault(("links", name, "ends", i), message, end, tuple(nodes)))
        for i, port in _entries(link, "ports"):
            if port not in ports:
                message = f'link {name} goes through the port "{port}", which is not in ports'
                faults.append(NameFault(("links", name, "ports", i), message, port, tuple(ports)))
    for name, node in nodes.items():
        host = _get(node, "host")
        if isinstance(host, str) and (host not in nodes or host in others):
            message = f'node {name} names the host "{host}", which is no ram node'
            faults.append(NameFault(("nodes", name, "host"), message, host, rams))
    sources = tuple(dict(_items(_get(machine, "sources"))))
    for path, source in _named_sources(machine):
        if source not in sources:
            message = f'"{source}" is no entry of sources'
            faults.append(NameFault((*path, "source"), message, source, sources))
    return faults


def _named_sources(machine: Any) -> Iterator[tuple[tuple[str, ...], str]]:
    """Where a source is named, and its name: nodes, links, directions, curves, tables, ports."""
    places: list[tuple[tuple[str, ...], Any]] = []
    for name, node in _items(_get(machine, "nodes")):
        at = ("nodes", name)
        places.append((at, node))
        parts = ("setup", "local", "allocate", *COSTS)
        places += [((*at, key), _get(node, key)) for key in parts]
        places += [((*at, "copy", key), table) for key, table in _items(_get(node, "copy"))]
    for name, link in _items(_get(machine, "links")):
        at = ("links", name)
        places.append((at, link))
        for way in ("forward", "backward"):
            direction = _get(link, way)
            places.append(((*at, way), direction))
            curves = _items(_get(direction, "curves"))
            places += [((*at, way, "curves", key), curve) for key, curve in curves]
    places += [(("ports", name), port) for name, port in _items(_get(machine, "ports"))]
    for path, thing in places:
        source = _get(thing, "source")
        if isinstance(source, str):
            yield path, source
