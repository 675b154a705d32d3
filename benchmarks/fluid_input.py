"""Inputs of the fluid simulation: N flows over a cluster of 64 hosts with 8 GPUs each.

    python benchmarks/fluid_input.py 10000 50e-6 > case.json

writes 10,000 flows that start 50 us apart on average (all at once without the second number). The
same numbers always give the same bytes, so that figures of different days, machines and tools
compare. A case is a JSON object:

    links   [{name, capacity (bytes/s)}]
    flows   [{id, kind, src, dst, size (bytes), start (s), latency (s), weight, links: [index]}]

A flow is silent from `start` for `latency`, then takes its weighted max-min share of its links.
"""

from __future__ import annotations

import json
import random
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))  # a checkout not installed

from planner.model.simulate import FluidFlow, Resource

HOSTS, GPUS, POD, RAILS, SPINES = 64, 8, 8, 4, 4
SEED = 42

# Bytes/s of one direction, rounded from current 8-GPU servers: PCIe 5.0 x16 carries 54e9, a
# 400 Gb/s network card 48.5e9, NVLink 380e9. That they never change is what counts here.
PCIE, NETWORK, NVLINK, MEMORY, DISK_READ, DISK_WRITE = 54e9, 48.5e9, 380e9, 320e9, 26e9, 13e9

# Three of eight flows cross the network, the others stay in their host.
KINDS = ("h2d", "d2h", "disk2d", "d2disk", "nvl", "gdr", "gdr", "gdr")

Case = dict[str, Any]


def links() -> Iterator[tuple[str, float]]:
    """Names and capacities: the hosts' own, then the network between the pods."""
    for host in range(HOSTS):
        yield f"h{host}.dram", MEMORY  # one bus for both directions
        yield f"h{host}.nvme.rd", DISK_READ
        yield f"h{host}.nvme.wr", DISK_WRITE
        for switch in range(RAILS):  # two GPUs and one network card hang on each
            for way in ("up", "dn"):
                yield f"h{host}.rc{switch}.{way}", PCIE
                yield f"h{host}.nic{switch}.{way}", NETWORK
        for gpu in range(GPUS):
            for way in ("up", "dn"):
                yield f"h{host}.g{gpu}.{way}", PCIE
                yield f"h{host}.nvl{gpu}.{way}", NVLINK
    for pod in range(HOSTS // POD):
        for rail in range(RAILS):
            for spine in range(SPINES):  # half of what the cards of a rail in a pod could send
                for way in ("up", "dn"):
                    yield f"p{pod}.leaf{rail}.sp{spine}.{way}", NETWORK


def route(kind: str, source: tuple[int, int], target: tuple[int, int]) -> list[str]:
    """The links between two (host, GPU), in the order in which bytes cross them."""
    (h, g), (h2, g2) = source, target
    to_gpu = [f"h{h}.dram", f"h{h}.rc{g2 // 2}.dn", f"h{h}.g{g2}.dn"]
    from_gpu = [f"h{h}.g{g}.up", f"h{h}.rc{g // 2}.up", f"h{h}.dram"]
    if kind != "gdr":
        return {
            "h2d": to_gpu,
            "d2h": from_gpu,
            "disk2d": [f"h{h}.nvme.rd", *to_gpu],
            "d2disk": [*from_gpu, f"h{h}.nvme.wr"],
            "nvl": [f"h{h}.nvl{g}.up", f"h{h}.nvl{g2}.dn"],
        }[kind]
    rail, rail2, pod, pod2 = g // 2, g2 // 2, h // POD, h2 // POD
    fabric = []
    if (pod, rail) != (pod2, rail2):
        spine = (h * 31 + g * 17 + h2 * 13 + g2 * 7) % SPINES  # a fixed hash, as routers have
        fabric = [f"p{pod}.leaf{rail}.sp{spine}.up", f"p{pod2}.leaf{rail2}.sp{spine}.dn"]
    return [
        f"h{h}.g{g}.up",
        f"h{h}.nic{rail}.up",
        *fabric,
        f"h{h2}.nic{rail2}.dn",
        f"h{h2}.g{g2}.dn",
    ]


def places(kind: str, source: tuple[int, int], target: tuple[int, int]) -> tuple[str, str]:
    """Names of the ends, for people who read the file."""
    first, last = f"h{source[0]}.g{source[1]}", f"h{target[0]}.g{target[1]}"
    if kind in ("h2d", "disk2d"):
        first = f"h{source[0]}.mem" if kind == "h2d" else f"h{source[0]}.disk"
    if kind in ("d2h", "d2disk"):
        last = f"h{target[0]}.mem" if kind == "d2h" else f"h{target[0]}.disk"
    return first, last


def other(draw: random.Random, count: int, than: int) -> int:
    """A number below `count` that is another one."""
    while (number := draw.randrange(count)) == than:
        pass
    return number


def cluster_case(count: int, mean_gap: float = 0.0, seed: int = SEED) -> Case:
    """`count` flows of 1 MiB to 4 GiB (log-uniform), `mean_gap` seconds apart (exponential)."""
    draw = random.Random(seed)  # noqa: S311 - the same numbers every time are the point
    table = list(links())
    index = {name: number for number, (name, _) in enumerate(table)}
    flows, now = [], 0.0
    for number in range(count):
        kind = KINDS[draw.randrange(len(KINDS))]
        source = draw.randrange(HOSTS), draw.randrange(GPUS)
        target = source[0], draw.randrange(GPUS)
        if kind == "nvl" and target == source:
            target = source[0], other(draw, GPUS, source[1])
        if kind == "gdr":
            target = other(draw, HOSTS, source[0]), target[1]
        size = float(int(2 ** draw.uniform(20, 32)))
        if mean_gap:
            now += float(f"{draw.expovariate(1 / mean_gap):.9f}")
        first, last = places(kind, source, target)
        flows.append(
            {
                "id": number,
                "kind": kind,
                "src": first,
                "dst": last,
                "size": size,
                "start": round(now, 9),
                "latency": 0.0,
                "weight": 1.0,
                "links": [index[name] for name in route(kind, source, target)],
            }
        )
    return {
        "name": f"n{count}",
        "seed": seed,
        "hosts": HOSTS,
        "gpus_per_host": GPUS,
        "weighted": False,
        "units": "bytes,seconds",
        "simgrid_mode": "shift",
        "links": [{"name": name, "capacity": capacity} for name, capacity in table],
        "flows": flows,
    }


def read_case(path: Path) -> Case:
    """A case from its file."""
    case: Case = json.loads(path.read_text())
    return case


def as_input(case: Case) -> tuple[list[Resource], list[FluidFlow]]:
    """Resources and flows of a case, as `simulate` takes them."""
    resources = [Resource(link["name"], link["capacity"]) for link in case["links"]]
    flows = [
        FluidFlow(
            name=str(flow["id"]),
            work=flow["size"],
            charges=dict.fromkeys(flow["links"], 1.0),
            delay=flow["latency"],
            weight=flow["weight"],
            start=flow["start"],
        )
        for flow in case["flows"]
    ]
    return resources, flows


if __name__ == "__main__":
    gap = float(sys.argv[2]) if len(sys.argv) > 2 else 0.0
    json.dump(cluster_case(int(sys.argv[1]), gap), sys.stdout)
