"""Links: below their maximum, slower than their standard allows, GPUs that cannot reach others."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from planner.machine.discover_pairs import GpuPair
from planner.machine.nominal import nominal_rate
from planner.machine.observation import Observation
from planner.machine.schema import Link, Machine
from planner.results.doctor import Finding
from planner.review.checks.base import (
    CannotTellError,
    about_of,
    cost,
    details_of,
    directions,
    found,
    measured,
    require_gpus,
    require_measured,
)
from planner.review.topo import below_maximum, pair_of
from planner.units import format_rate, format_share

USUAL: Final = 0.85
"""Share of its standard that a link carries in large copies: 0.87 (54.8 of 63 GB/s, PCIe 5 x16) and
0.88 (396 of 450 GB/s, 18 NVLinks) on H200s, 0.80 and more on PCIe 4 (see `machine/catalog`)."""
POOR: Final = 0.65
"""Below this share a link is slower than its kind: 22 of 31.5 GB/s (0.70) is known of PCIe 4 hosts
that nothing is wrong with."""
BAD: Final = 0.4
"""Below this share a link of half the width would do better."""
UNLIKE: Final = 0.8
"""A link that carries less than this share of an equal one's is not like it."""


def pcie(seen: Observation) -> Iterator[Finding]:
    """PCIe links that run below what slot and device can do, looked at under load."""
    require_gpus(seen)
    machine = measured(seen)
    for name, link in machine.links.items() if machine is not None else ():
        if link.kind == "pcie" and below_maximum(link):
            yield _below(name, link)
    if machine is not None:
        return
    for gpu in about_of(seen).gpus:
        width, most = gpu.width, gpu.max_width
        if width is not None and most is not None and width < most:
            yield found(
                "warning",
                f"gpu{gpu.index}",
                f"its PCIe link has {width} of {most} lanes while it idles",
                why="lanes, unlike the generation, are seldom given up to save power",
                mend="planner calibrate looks under load; then look at slot, riser and firmware",
            )
    raise CannotTellError(
        "idle links lower their generation; `planner calibrate` looks at them under load"
    )


def _below(name: str, link: Link) -> Finding:
    now = nominal_rate("pcie", link.generation, link.width)
    most = nominal_rate("pcie", link.max_generation, link.max_width)
    start, end, direction = next(directions(link))
    could = direction.rate * most / now if now and most else 0.0
    return found(
        "problem",
        f"{name} ({start} → {end})",
        f"runs as PCIe {link.generation} x{link.width} under load; slot and device can do "
        f"PCIe {link.max_generation} x{link.max_width}",
        why="every copy between host and GPU crosses it",
        mend="reseat the card, look at riser, slot (shared lanes) and the firmware's link speed",
        cost=cost(f"{start} → {end}", direction.rate, could),
    )


def rate(seen: Observation) -> Iterator[Finding]:
    """Links that carry far less than their generation and width allow, or than an equal one."""
    require_gpus(seen)
    machine = require_measured(seen)
    told: set[tuple[str, str]] = set()
    held = 0
    for name, link in machine.links.items():
        nominal = _nominal(machine, link, seen)
        for start, end, direction in directions(link):
            if not nominal or not _is_measured(machine, name, start):
                continue
            held += 1
            if direction.rate < POOR * nominal:
                told.add((name, start))
                yield found(
                    "problem" if direction.rate < BAD * nominal else "warning",
                    f"{name} ({start} → {end})",
                    f"carries {format_rate(direction.rate)}, "
                    f"{format_share(direction.rate / nominal)} of the {format_rate(nominal)} of "
                    f"its standard; {format_share(USUAL)} is usual",
                    why="large copies are limited by it",
                    mend="calibrate again while nothing else runs; else look at NUMA placement, "
                    "IOMMU, power limits and what shares the link's way to the processor",
                    cost=cost(f"{start} → {end}", direction.rate, USUAL * nominal),
                )
    yield from _unlike(machine, told)
    if not held:
        raise CannotTellError("no link of a known standard was measured")


def _nominal(machine: Machine, link: Link, seen: Observation) -> float | None:
    pair = pair_of(machine, link, seen.details)
    if pair is not None and link.width is None:
        return nominal_rate("nvlink", pair.generation, pair.nvlinks or None)
    return nominal_rate(link.kind, link.generation, link.width)


def _is_measured(machine: Machine, name: str, start: str) -> bool:
    link = machine.links[name]
    direction = link.direction(start)
    source = None if direction is None else direction.source
    return machine.source_of(source, link.source).kind == "measured"


def _unlike(machine: Machine, told: set[tuple[str, str]]) -> Iterator[Finding]:
    """Directions that are slower than those of equal links, and not told of yet."""
    alike: dict[tuple[object, ...], list[tuple[float, str, str, str]]] = {}
    for name, link in machine.links.items():
        for way, (start, end, direction) in enumerate(directions(link)):
            kinds = (machine.nodes[start].kind, machine.nodes[end].kind)
            if link.kind in ("pcie", "nvlink", "c2c") and _is_measured(machine, name, start):
                key = (link.kind, link.generation, link.width, *kinds, way)
                alike.setdefault(key, []).append((direction.rate, name, start, end))
    for several in alike.values():
        best, best_name, *_ = max(several, key=lambda one: one[0])
        for value, name, start, end in several:
            if value < UNLIKE * best and (name, start) not in told:
                yield found(
                    "warning",
                    f"{name} ({start} → {end})",
                    f"carries {format_rate(value)}, its equal {best_name} {format_rate(best)}",
                    why="of equal links one is slower: work that waits for both waits for it",
                    mend="look at the slot, and at what shares its way to the processor",
                    cost=cost(f"{start} → {end}", value, best),
                )


def peer(seen: Observation) -> Iterator[Finding]:
    """GPUs joined by NVLink, or under one root, that do not reach each other's memory."""
    require_gpus(seen, 2)
    machine = measured(seen)
    told = set()
    for name, link in machine.links.items() if machine is not None else ():
        devices = _devices(machine, link)
        pair = pair_of(machine, link, seen.details) if machine is not None else None
        if devices and link.peer_access is False and _should_reach(pair):
            told.add(devices)
            yield _apart(f"{name} ({' – '.join(link.ends)})", link, pair)
    if not seen.computer:
        return
    pairs = details_of(seen).pairs
    for pair in pairs:
        devices = frozenset((pair.first, pair.second))
        if pair.peer is False and devices not in told and _should_reach(pair):
            yield _apart(f"gpu{pair.first} – gpu{pair.second}", None, pair)
    if machine is None and all(pair.peer is None for pair in pairs):
        raise CannotTellError("the driver does not say whether GPUs reach each other")


def _devices(machine: Machine | None, link: Link) -> frozenset[int]:
    """The devices of the GPUs at both ends of a link; none if it joins no GPUs."""
    ends = [machine.nodes[end] for end in link.ends] if machine is not None else []
    if any(node.kind != "hbm" for node in ends):
        return frozenset()
    return frozenset(node.device for node in ends if node.kind == "hbm")


def _should_reach(pair: GpuPair | None) -> bool:
    """Whether two GPUs lie so that they should: what nobody can tell counts."""
    return pair is None or bool(pair.nvlinks) or pair.same_root


def _apart(about: str, link: Link | None, pair: GpuPair | None) -> Finding:
    """Peer access is off between two GPUs where it should be on."""
    width = pair.nvlinks if pair is not None else link.width if link is not None else None
    generation = pair.generation if pair is not None else link.generation if link else None
    if width:
        joined = f"though {width} NVLinks join them"
    elif pair is not None:
        joined = "though they lie under one root complex"
    else:
        joined = "and nothing says whether NVLink joins them"
    refused = f" ({pair.refused})" if pair is not None and pair.refused else ""
    nominal = nominal_rate("nvlink", generation, width or None)
    forward = link.forward if link is not None else None
    off = forward.curves.get("peer_off") if forward is not None else None
    now = off.rate if off is not None else forward.rate if forward is not None else 0.0
    return found(
        "problem" if width else "warning",
        about,
        f"peer access is off{refused}, {joined}",
        why="copies between them are staged through host memory",
        mend="look at IOMMU and ACS (firmware), at the fabric manager, and at how the GPUs are "
        "passed to this guest or container",
        cost=cost("from GPU to GPU", now, USUAL * nominal) if nominal else None,
    )


def nvlink(seen: Observation) -> Iterator[Finding]:
    """GPUs of one kind of which some have fewer NVLinks up."""
    require_gpus(seen, 2)
    about, details = about_of(seen), details_of(seen)
    kinds: dict[str, list[tuple[int, int]]] = {}
    for gpu, links in zip(about.gpus, details.links, strict=False):
        if links is not None:
            kinds.setdefault(gpu.name, []).append((gpu.index, links.active))
    for several in kinds.values():
        most = max(active for _, active in several)
        for index, active in several:
            if active < most:
                yield found(
                    "problem",
                    f"gpu{index}",
                    f"{active} of its NVLinks are up, its equals have {most}",
                    why=f"it exchanges data at {format_share(active / most)} of their rate at best",
                    mend="look at `nvidia-smi nvlink -e`, the fabric manager and the bridge; "
                    "a reset or a new seat often brings a link back",
                )
