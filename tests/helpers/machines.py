"""Small machines with round numbers, so that expectations can be worked out in a comment."""

from __future__ import annotations

from typing import Any

from planner.machine.schema import Machine

GB = 10**9
MIB = 1 << 20


def affine(rate: float, latency: float = 0.0, gap: float | None = None) -> dict[str, Any]:
    """A curve t = latency + size / rate."""
    curve: dict[str, Any] = {"latency": latency, "rate": rate}
    return curve if gap is None else {**curve, "gap": gap}


def flat_table(rate: float, cores: int = 8, *, scales: bool = False) -> dict[str, Any]:
    """A copy table that does not depend on the ring; `scales` with the workers if asked."""
    workers = [1, 2, 4, 8]
    workers = [w for w in workers if w <= cores]
    rates = [[rate * w if scales else rate] * 2 for w in workers]
    return {"workers": workers, "rings": [MIB, 1024 * MIB], "rates": rates}


def one_gpu(**changes: Any) -> Machine:
    """One disk, one host, one GPU: page cache 20 GB/s, memory 20 GB/s, PCIe 10 GB/s, disk 2 GB/s.

    Pinning costs nothing unless `setup` is given. `changes` replace keys of `host0`.
    """
    host: dict[str, Any] = {
        "kind": "ram",
        "capacity": 64 * GB,
        "cores": 8,
        "copy": {name: flat_table(20e9) for name in ("file", "memory", "save", "save_memory")},
        "setup": {"register": 1e18},
    } | changes
    dma = affine(10e9, 10e-6, 2e-6)
    pcie = {
        "rate": 10e9,
        "curves": {"pinned": dma, "registered": dma, "pageable": affine(4e9, 10e-6)},
    }
    storage = {
        "rate": 2e9,
        "curves": {"buffered": affine(2e9), "direct": affine(2e9, 100e-6)},
    }
    return Machine.model_validate(
        {
            "name": "small",
            "sources": {"test": {"kind": "assumed", "where": "a test", "when": "now"}},
            "nodes": {
                "disk0": {"kind": "disk", "host": "host0"},
                "host0": host,
                "gpu0": {
                    "kind": "hbm",
                    "host": "host0",
                    "device": 0,
                    "capacity": 32 * GB,
                    "rate": 1e12,
                    "local": affine(500e9, 5e-6),
                },
            },
            "links": {
                "storage0": {
                    "kind": "storage",
                    "ends": ["disk0", "host0"],
                    "forward": storage,
                    "backward": storage,
                },
                "pcie0": {
                    "kind": "pcie",
                    "ends": ["host0", "gpu0"],
                    "forward": pcie,
                    "backward": pcie,
                },
            },
        }
    )


def two_gpus(peer_rate: float | None = 100e9) -> Machine:
    """`one_gpu` with a second GPU beside it; NVLink between them unless `peer_rate` is None."""
    machine = one_gpu().model_dump(mode="json", by_alias=True)
    machine["nodes"]["gpu1"] = machine["nodes"]["gpu0"] | {"device": 1}
    machine["links"]["pcie1"] = machine["links"]["pcie0"] | {"ends": ["host0", "gpu1"]}
    if peer_rate is not None:
        way = {"rate": peer_rate, "curves": {"peer": affine(peer_rate, 8e-6)}}
        machine["links"]["nvlink0"] = {
            "kind": "nvlink",
            "ends": ["gpu0", "gpu1"],
            "forward": way,
            "backward": way,
        }
    return Machine.model_validate(machine)


def every_way() -> Machine:
    """`two_gpus` with all that the engine can do measured: storage beside host memory, kernels.

    In place: 8 GB/s and 20 us, 1e8 requests/s; faults 4 GB/s, prefetch 9 GB/s; GPUDirect Storage
    3 GB/s; registering 1 MiB of a file takes what 40 GB/s and 1 us make of it.
    """
    tree = two_gpus().model_dump(mode="json", by_alias=True)
    host = tree["nodes"]["host0"]
    host["setup"] |= {"register_file": 1e18, "map_touch": 1e18, "touch_fresh": 1e18}
    host["setup"] |= {"unregister": 1e18}
    host["register_ahead"] = affine(40e9, 1e-6)
    host["copy"] |= {name: flat_table(15e9) for name in ("memory_wc", "file_wc")}
    for link in ("pcie0", "pcie1"):
        for way in ("forward", "backward"):
            tree["links"][link][way]["requests"] = 1e8
            tree["links"][link][way]["curves"] |= {
                "write_combined": affine(10e9, 10e-6, 2e-6),
                "zero_copy": affine(8e9, 20e-6),
                "managed_fault": affine(4e9, 50e-6),
                "managed_prefetch": affine(9e9, 30e-6),
            }
    storage = {"rate": 3e9, "curves": {"gds": affine(3e9, 50e-6)}}
    tree["links"]["gds0"] = {
        "kind": "storage",
        "ends": ["disk0", "gpu0"],
        "forward": storage,
        "backward": storage,
    }
    return Machine.model_validate(tree)


def sleepy(tree: dict[str, Any], idle: float) -> None:
    """Let every curve of a machine, as written, take so long more after a pause."""
    for link in tree["links"].values():
        for way in ("forward", "backward"):
            for curve in (link.get(way) or {"curves": {}})["curves"].values():
                curve["idle"] = idle
    for node in tree["nodes"].values():
        if node.get("local"):
            node["local"]["idle"] = idle


def many_gpus(
    nodes: int, gpus: int, *, filer: float | None = None, peers: bool = False, cores: int = 8
) -> Machine:
    """Hosts of equal GPUs on one disk, replicated: disk 2 GB/s a host, PCIe 10 GB/s a GPU.

    `filer` is what the disk gives to all hosts together; with `peers` every GPU reaches the others
    of its host through a port of 100 GB/s.
    """
    base = one_gpu(cores=cores).model_dump(mode="json", by_alias=True)
    host, gpu, links = base["nodes"]["host0"], base["nodes"]["gpu0"], base["links"]
    mount = links["storage0"] | {"ends": ["disk0", "node{node}.host0"]}
    tree: dict[str, Any] = {
        "name": "many",
        "sources": base["sources"],
        "replicate": {"node": f"0..{nodes - 1}", "gpu": f"0..{gpus - 1}"},
        "nodes": {
            "disk0": {"kind": "disk", "host": "node{node}.host0"},
            "node{node}.host0": host,
            "node{node}.gpu{gpu}": gpu | {"host": "node{node}.host0"},
        },
        "links": {
            "node{node}.mount": mount,
            "node{node}.pcie{gpu}": links["pcie0"]
            | {"ends": ["node{node}.host0", "node{node}.gpu{gpu}"]},
        },
        "ports": {},
    }
    if filer is not None:
        tree["ports"]["filer"] = {"forward": filer}
        mount["ports"] = ["filer", None]
    if peers:
        way = {"rate": 100e9, "curves": {"peer": affine(100e9, 8e-6)}}
        tree["ports"]["node{node}.port{gpu}"] = {"forward": 100e9, "backward": 100e9}
        tree["links"]["node{node}.peer{gpu}"] = {
            "kind": "nvlink",
            "ends": ["node{node}.gpu{gpu}", "node{node}.gpu{gpu}"],
            "ports": ["node{node}.port{gpu}", "node{node}.port{gpu}"],
            "peer_access": True,
            "forward": way,
            "backward": way,
        }
    return Machine.model_validate(tree)


def linked_gpus(count: int, *, peer_rate: float = 100e9) -> Machine:
    """`one_gpu` with `count` GPUs, each with a PCIe link of its own and NVLink to all others."""
    machine = one_gpu().model_dump(mode="json", by_alias=True)
    way = {"rate": peer_rate, "curves": {"peer": affine(peer_rate, 8e-6)}}
    for k in range(1, count):
        machine["nodes"][f"gpu{k}"] = machine["nodes"]["gpu0"] | {"device": k}
        machine["links"][f"pcie{k}"] = machine["links"]["pcie0"] | {"ends": ["host0", f"gpu{k}"]}
        for other in range(k):
            ends = {"kind": "nvlink", "ends": [f"gpu{other}", f"gpu{k}"]}
            machine["links"][f"nvlink{other}{k}"] = {**ends, "forward": way, "backward": way}
    return Machine.model_validate(machine)
