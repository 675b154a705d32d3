"""Two computers with round numbers and a network between them."""

from __future__ import annotations

from typing import Any

from planner.machine.schema import Machine
from tests.helpers.machines import affine, one_gpu


def two_hosts(*, adapters: bool = True, wire: dict[str, Any] | None = None, **host: Any) -> Machine:
    """`one_gpu` twice, joined by a wire of 10 GB/s that carries 2 GB/s a stream.

    The adapters sit on links of 20 GB/s; RDMA reaches 9 GB/s, GPUDirect 8. Without `adapters` the
    wire joins the hosts themselves. `wire` replaces keys of the wire, `host` keys of both hosts.
    """
    machine = one_gpu(**host).model_dump(mode="json", by_alias=True)
    nodes, links = dict(machine["nodes"]), dict(machine["links"])
    for name, node in machine["nodes"].items():
        far = {"host": "node1.host0"} if "host" in node else {}
        nodes[f"node1.{name}"] = node | far
    for name, link in machine["links"].items():
        links[f"node1.{name}"] = link | {"ends": [f"node1.{end}" for end in link["ends"]]}
    way = {"rate": 10e9, "curves": {"tcp": affine(2e9), "rdma": affine(9e9)}}
    ends = ["host0", "node1.host0"]
    if adapters:
        ends = ["nic0", "node1.nic0"]
        for prefix in ("", "node1."):
            nodes[f"{prefix}nic0"] = {"kind": "nic", "host": f"{prefix}host0"}
            bus = {"rate": 20e9}
            links[f"{prefix}bus0"] = {
                "kind": "pcie",
                "ends": [f"{prefix}host0", f"{prefix}nic0"],
                "forward": bus,
                "backward": bus,
            }
            near = {"rate": 8e9, "curves": {"gpudirect": affine(8e9)}}
            links[f"{prefix}side0"] = {
                "kind": "pcie",
                "ends": [f"{prefix}gpu0", f"{prefix}nic0"],
                "forward": near,
                "backward": near,
            }
    links["net0"] = {"kind": "network", "ends": ends, "forward": way, "backward": way} | (
        wire or {}
    )
    return Machine.model_validate(machine | {"nodes": nodes, "links": links})
