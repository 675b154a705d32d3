"""This computer's places and links as the system and the driver describe them, unmeasured."""

from __future__ import annotations

from itertools import combinations
from typing import TYPE_CHECKING

from planner._version import VERSION
from planner.machine.nominal import nominal_rate
from planner.results.topo import Topo, TopoLink, TopoNode, TopoNuma, TopoPair, TopoWay
from planner.review.topo import peer_word, verdict_of

if TYPE_CHECKING:
    from planner.machine.discover import Discovery
    from planner.machine.discover_details import GpuDetails
    from planner.machine.discover_gpus import Gpu
    from planner.machine.discover_nics import Adapter
    from planner.machine.observation import Observation
    from planner.machine.schema import Machine


def found_topo(seen: Observation) -> Topo:
    """A computer that was not calibrated."""
    about = seen.about
    nodes = [*_places(about, seen)] if about is not None else []
    links = _links(about, seen) if about is not None else []
    notes = [f"not looked at: {part}: {why}" for part, why in seen.unknown.items()]
    if about is not None and about.no_gpu is not None:
        notes.append(f"no GPU: {about.no_gpu}")
    facts = {"cpu": about.cpu, "kernel": about.kernel, "driver": about.driver} if about else {}
    return Topo(
        planner=VERSION,
        machine=seen.name,
        description="this computer, not calibrated: what the system and the driver say",
        measured=False,
        hardware={key: value for key, value in facts.items() if value is not None},
        nodes=tuple(nodes),
        links=tuple(links),
        numa=_numa(about),
        pairs=_pairs(about, seen.details) if about is not None else (),
        notes=tuple(notes),
        verdict=verdict_of(nodes, links),
    )


def with_found(topo: Topo, machine: Machine, seen: Observation) -> Topo:
    """A calibrated computer with what no calibration tells: NUMA nodes, GPUs without a link."""
    about = seen.about
    if about is None:
        return topo
    numa = {gpu.index: gpu.numa for gpu in about.gpus}
    names = {
        node.device: name
        for name, node in machine.nodes.items()
        if node.kind == "hbm" and not node.emulated
    }
    linked = {frozenset(link.ends) for link in topo.links}
    return topo.model_copy(
        update={
            "nodes": tuple(
                node.model_copy(update={"numa": numa.get(node.device)})
                if node.device is not None and not node.emulated
                else node
                for node in topo.nodes
            ),
            "numa": _numa(about),
            "pairs": tuple(
                pair
                for pair in _pairs(about, seen.details, names)
                if frozenset(pair.gpus) not in linked
            ),
        }
    )


def _numa(about: Discovery | None) -> tuple[TopoNuma, ...]:
    if about is None:
        return ()
    return tuple(
        TopoNuma(index=node.index, cores=len(node.cpus), memory_bytes=node.memory_bytes)
        for node in about.numa
    )


def _places(about: Discovery, seen: Observation) -> list[TopoNode]:
    disk = about.filesystem
    nodes = [
        TopoNode(
            name="disk0",
            kind="disk",
            host="host0",
            capacity_bytes=disk.total_bytes if disk else None,
            filesystem=disk.kind if disk else None,
            path=disk.mount if disk else None,
        ),
        TopoNode(
            name="host0",
            kind="ram",
            capacity_bytes=about.memory_bytes,
            cores=about.cores,
        ),
    ]
    nodes += [
        TopoNode(
            name=f"gpu{gpu.index}",
            kind="hbm",
            host="host0",
            numa=gpu.numa,
            capacity_bytes=gpu.memory_bytes,
            model=gpu.name,
            device=gpu.index,
        )
        for gpu in about.gpus
    ]
    nodes += [
        TopoNode(name=f"nic{k}", kind="nic", host="host0", numa=nic.numa, address=_named(nic))
        for k, nic in enumerate(seen.adapters or ())
    ]
    return nodes


def _named(nic: Adapter) -> str:
    return f"{nic.interface} ({nic.rdma})" if nic.rdma else nic.interface


def _links(about: Discovery, seen: Observation) -> list[TopoLink]:
    links = [_bare("storage0", "storage", ("disk0", "host0"))]
    links += [_pcie(gpu) for gpu in about.gpus]
    links += [
        _bare(f"network{k}", "network", ("host0", f"nic{k}"), nic.rate)
        for k, nic in enumerate(seen.adapters or ())
    ]
    if seen.details is None:
        return links
    numbers = {pair: k for k, pair in enumerate(combinations(range(len(about.gpus)), 2))}
    for pair in seen.details.pairs:
        if pair.nvlinks and (pair.first, pair.second) in numbers:
            ends = (f"gpu{pair.first}", f"gpu{pair.second}")
            name = f"nvlink{numbers[pair.first, pair.second]}"
            rate = nominal_rate("nvlink", pair.generation, pair.nvlinks)
            update = {
                "generation": pair.generation,
                "width": pair.nvlinks,
                "peer_access": peer_word(pair.peer),
            }
            links.append(_bare(name, "nvlink", ends, rate).model_copy(update=update))
    return links


def _bare(name: str, kind: str, ends: tuple[str, str], nominal: float | None = None) -> TopoLink:
    """A link that nobody measured, both ways."""
    ways = tuple(TopoWay(start=start, end=end) for start, end in (ends, ends[::-1]))
    return TopoLink(name=name, kind=kind, ends=ends, nominal_bytes_per_s=nominal, ways=ways)


def _pcie(gpu: Gpu) -> TopoLink:
    """A GPU's link as it is now: one that idles lowers its generation, not its width."""
    top = gpu.max_generation or gpu.generation
    at_most = (gpu.generation, gpu.width) == (gpu.max_generation, gpu.max_width)
    known = None not in (gpu.generation, gpu.width)
    return _bare(
        f"pcie{gpu.index}",
        "pcie",
        ("host0", f"gpu{gpu.index}"),
        nominal_rate("pcie", top, gpu.width),
    ).model_copy(
        update={
            "generation": gpu.generation,
            "width": gpu.width,
            "max_generation": gpu.max_generation,
            "max_width": gpu.max_width,
            "below_maximum": False if known and at_most else None,
        }
    )


def _pairs(
    about: Discovery, details: GpuDetails | None, names: dict[int, str] | None = None
) -> tuple[TopoPair, ...]:
    """Every two GPUs without NVLink between them; `names` of the nodes, by device."""
    named = names if names is not None else {gpu.index: f"gpu{gpu.index}" for gpu in about.gpus}
    found = []
    for one, other in combinations(sorted(named), 2):
        pair = details.pair(one, other) if details is not None else None
        if names is None and pair is not None and pair.nvlinks:
            continue
        found.append(
            TopoPair(
                gpus=(named[one], named[other]),
                near=pair.near if pair else None,
                peer_access=peer_word(pair.peer if pair else None),
                refused=pair.refused if pair else None,
            )
        )
    return tuple(found)
