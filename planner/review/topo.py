"""The places and links of a machine, as one can look at them: `planner topo`."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from planner._version import VERSION
from planner.engine.calibration.degraded import link_warning
from planner.machine.nominal import nominal_rate
from planner.machine.replicate import links_of, members
from planner.results import Verdict
from planner.results.topo import Peer, Topo, TopoLink, TopoNode, TopoPort, TopoWay
from planner.review.inputs import HERE, PathLike, read_plan

if TYPE_CHECKING:
    from planner.machine.discover_details import GpuDetails
    from planner.machine.discover_pairs import GpuPair
    from planner.machine.observation import Observation
    from planner.machine.schema import Direction, Link, Machine, Node
    from planner.plan.load import LoadedPlan
    from planner.plan.schema import Plan


def topo(
    plan: Plan | LoadedPlan | PathLike | None = None, *, machine: Machine | str | None = None
) -> Topo:
    """The places and links of a machine, with what is known of each; nothing is measured.

    Parameters
    ----------
    plan
        a plan or its path, whose machine is meant, as its settings change it.
    machine
        a machine, a catalogue name, a file, or `here`; the plan's own where it is `None`, and this
        computer where there is no plan either. This computer is shown as it was calibrated; where
        it was not, as the system and the driver describe it.

    Raises
    ------
    InputError
        the plan is wrong, or the machine: a `MachineError`.
    """
    overrides: dict[str, str] = {}
    folder = None
    if plan is not None:
        loaded = read_plan(plan).plan
        overrides = dict(loaded.overrides)
        folder = Path(loaded.directory) if machine is None else None
        machine = loaded.machine if machine is None else machine
    if machine is None or machine == HERE:
        return _this_computer(overrides)
    if isinstance(machine, str):
        from planner.machine.load import load_machine

        machine = load_machine(machine, directory=folder, overrides=overrides)
    return topo_of(machine)


def _this_computer(overrides: dict[str, str]) -> Topo:
    from planner.engine.observe import TOPOLOGY, observe

    return topo_here(observe(TOPOLOGY), overrides)


def topo_here(seen: Observation, overrides: dict[str, str] | None = None) -> Topo:
    """A computer as it was seen: calibrated, or found without measuring."""
    from planner.machine.override import with_overrides
    from planner.review.topo_found import found_topo, with_found

    if seen.calibration is None:
        return found_topo(seen)
    machine = with_overrides(seen.calibration.machine, overrides or {})
    return with_found(topo_of(machine, seen.details), machine, seen)


def topo_of(machine: Machine, details: GpuDetails | None = None) -> Topo:
    """A machine as one can look at it; `details` tell how its GPUs are joined, where they do."""
    links = tuple(_link(machine, name, link, details) for name, link in machine.links.items())
    told = [link_warning(name, link) for name, link in machine.links.items()]
    warnings = tuple(dict.fromkeys([*machine.warnings, *(text for text in told if text)]))
    nodes = tuple(_node(machine, name, node) for name, node in machine.nodes.items())
    return Topo(
        planner=VERSION,
        machine=machine.name,
        description=machine.description,
        emulated=machine.emulated,
        measured=any(link.source == "measured" for link in links),
        when=max((s.when for s in machine.sources.values() if s.kind == "measured"), default=None),
        hardware=machine.hardware,
        nodes=nodes,
        links=links,
        ports=tuple(
            TopoPort(
                name=name,
                members=members(machine, name),
                forward_bytes_per_s=port.forward,
                backward_bytes_per_s=port.backward,
                forward_across=port.forward_across,
                backward_across=port.backward_across,
                links=tuple(n for n, link in machine.links.items() if name in (link.ports or ())),
            )
            for name, port in machine.ports.items()
        ),
        warnings=warnings,
        verdict=verdict_of(nodes, links, warnings),
    )


def verdict_of(
    nodes: Sequence[TopoNode], links: Sequence[TopoLink], warnings: Sequence[str] = ()
) -> Verdict:
    """What there is, in a sentence; looking at a machine is always right."""
    how: dict[str, int] = {}
    for link in links:
        how[link.source] = how.get(link.source, 0) + link.members
    told = ", ".join(
        f"{count} {'not measured' if kind == 'none' else kind}" for kind, count in how.items()
    )
    sentence = f"{_counted(nodes, 'place')}, {_counted(links, 'link')}"
    sentence += f": {told}." if told else "."
    if warnings:
        sentence += " 1 warning." if len(warnings) == 1 else f" {len(warnings)} warnings."
    return Verdict(passed=True, exit_code=0, sentence=sentence)


def _counted(parts: Sequence[TopoNode] | Sequence[TopoLink], word: str) -> str:
    """`4 links`, or `576 links of 2 kinds` where names stand for several."""
    count = sum(part.members for part in parts)
    text = f"1 {word}" if count == 1 else f"{count} {word}s"
    return text if count == len(parts) else f"{text} of {len(parts)} kinds"


def _node(machine: Machine, name: str, node: Node) -> TopoNode:
    emulated = node.kind == "hbm" and node.emulated
    return TopoNode(
        name=name,
        kind=node.kind,
        members=members(machine, name),
        host=getattr(node, "host", None),
        capacity_bytes=getattr(node, "capacity", None),
        cores=node.cores if node.kind == "ram" else None,
        model=node.model if node.kind == "hbm" else None,
        device=node.device if node.kind == "hbm" else None,
        emulated=emulated,
        filesystem=node.filesystem if node.kind == "disk" else None,
        path=node.path if node.kind == "disk" else None,
        address=getattr(node, "address", None),
    )


def _link(machine: Machine, name: str, link: Link, details: GpuDetails | None) -> TopoLink:
    pair = pair_of(machine, link, details)
    kind, generation, width = link.kind, link.generation, link.width
    if pair is not None and link.kind == "nvlink" and pair.nvlinks is not None:
        # An older calibration timed two GPUs without asking what lies between them.
        if pair.nvlinks == 0:
            kind = "pcie"
        elif width is None:
            generation, width = pair.generation, pair.nvlinks
    return TopoLink(
        name=name,
        kind=kind,
        ends=link.ends,
        members=links_of(machine, name, link),
        generation=generation,
        width=width,
        max_generation=link.max_generation,
        max_width=link.max_width,
        below_maximum=below_maximum(link),
        nominal_bytes_per_s=nominal_rate(kind, generation, width),
        peer_access=_peer(machine, link, pair),
        ports=link.ports,
        ways=tuple(
            _way(start, end, direction)
            for start, end, direction in (
                (*link.ends, link.forward),
                (*link.ends[::-1], link.backward),
            )
            if direction is not None
        ),
        source=_source(machine, link),
    )


def pair_of(machine: Machine, link: Link, details: GpuDetails | None) -> GpuPair | None:
    """What the driver says of the two GPUs at the ends of a link; `None` if it joins no GPUs."""
    ends = [machine.nodes[end] for end in link.ends]
    devices = [node.device for node in ends if node.kind == "hbm" and not node.emulated]
    return details.pair(*devices) if details is not None and len(devices) == 2 else None


def below_maximum(link: Link) -> bool | None:
    """Whether a link runs below what it can do; `None` where nobody knows."""
    pairs = ((link.generation, link.max_generation), (link.width, link.max_width))
    known = [now < most for now, most in pairs if now is not None and most is not None]
    return any(known) if known else None


def _peer(machine: Machine, link: Link, pair: GpuPair | None) -> Peer | None:
    """Whether the GPUs at both ends reach each other's memory; `None` for other links."""
    if any(machine.nodes[end].kind != "hbm" for end in link.ends):
        return None
    access = link.peer_access
    if access is None and pair is not None:
        access = pair.peer
    return peer_word(access)


def peer_word(access: bool | None) -> Peer:  # noqa: FBT001 - three states of one fact
    """`on`, `off` or `unknown`."""
    return "unknown" if access is None else "on" if access else "off"


def _way(start: str, end: str, direction: Direction) -> TopoWay:
    waits = [curve.latency for curve in direction.curves.values() if curve.latency > 0]
    return TopoWay(
        start=start,
        end=end,
        rate_bytes_per_s=direction.rate,
        latency_s=min(waits, default=None),
        strategies=tuple(direction.curves),
    )


def _source(machine: Machine, link: Link) -> Literal["measured", "cited", "assumed", "none"]:
    """How the rates of a link are known: as the least certain of its directions is."""
    kinds = [
        machine.source_of(direction.source, link.source).kind
        for direction in (link.forward, link.backward)
        if direction is not None
    ]
    order = ("assumed", "cited", "measured")
    return min(kinds, key=order.index)
