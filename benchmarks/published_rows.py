"""What the model says of each row of the published tables (`tests/data/tables`).

A row is `held out` (predicted from its neighbours on the size curve), `composed` (from the parts
that its source also gives), from an `other machine` of the same kind out of the catalogue, `kept`
(an input of the others), or `not expressible`, with the reason in its note.
"""

from __future__ import annotations

import csv
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import planner
from planner.machine.curve import Curve, Point
from planner.machine.schema import Machine
from planner.plan.schema import Plan
from planner.results import FlowEstimate

TABLES = Path(__file__).resolve().parents[1] / "tests" / "data" / "tables"
How = Literal["held out", "composed", "other machine", "kept", "not expressible"]
GB, MIB = 10**9, 1 << 20


@dataclass(frozen=True)
class Row:
    """One row of a table: published and predicted, in `unit` (`s` or `B/s`)."""

    table: str
    name: str
    unit: Literal["s", "B/s"]
    published: float | None
    predicted: float | None
    how: How
    note: str = ""

    @property
    def factor(self) -> float | None:
        """Published and predicted, the larger over the smaller; `None` unless predicted."""
        if self.published is None or self.predicted is None or self.how == "kept":
            return None
        return max(self.published / self.predicted, self.predicted / self.published)


def read(name: str) -> list[dict[str, str]]:
    """The rows of the table file whose name starts with `name`."""
    (path,) = TABLES.glob(f"{name}*.tsv")
    lines = [x for x in path.read_text(encoding="utf-8").splitlines() if not x.startswith("#")]
    return list(csv.DictReader(lines, delimiter="\t", quoting=csv.QUOTE_NONE))


def every_row() -> Iterator[Row]:
    """All rows of all tables."""
    yield from _size_curves()
    yield from _host_device()
    yield from _between_gpus()
    yield from _small_copies()
    yield from _storage()
    yield from _legs()
    yield from _chunks()


def _curve(table: str, label: str, points: list[tuple[int, float]]) -> Iterator[Row]:
    """Every second point of a size curve from the ones beside it."""
    kept = points[::2]
    latency = min(seconds for _, seconds in kept)
    size, last = kept[-1]
    curve = Curve(
        points=tuple(Point(size_bytes=s, seconds=t) for s, t in kept),
        latency=latency,
        rate=size / (last - latency),
    )
    for i, (size, seconds) in enumerate(points):
        how: How = "held out" if i % 2 else "kept"
        yield Row(table, f"{label} {size} B", "s", seconds, curve.seconds(size), how)


def _size_curves() -> Iterator[Row]:
    for direction in ("h2d_bar_write", "d2h_bar_read"):
        rows = [r for r in read("t1") if r["direction"] == direction]
        points = [(int(r["bytes"]), float(r["time_us"]) * 1e-6) for r in rows]
        yield from _curve("t1", direction, points)
    for system in ("a100", "h100"):
        for placement in ("inter-node", "intra-node(NVLink)"):
            rows = [r for r in read(f"t2_vidur_sendrecv_{system}") if r["placement"] == placement]
            points = [(int(r["bytes"]), float(r["median_ms"]) * 1e-3) for r in rows]
            yield from _curve("t2", f"{system} {placement}", points)


def _flow(machine: Machine | str, **words: Any) -> FlowEstimate:
    """The prediction of one flow that has the machine to itself."""
    plan = Plan.model_validate({"name": "row", "flows": {"row": words}})
    (flow,) = planner.estimate(plan, machine=machine).flows
    return flow


UP = {"from": "host0", "to": "gpu0", "size": "512MiB"}
DOWN = {"from": "gpu0", "to": "host0", "size": "512MiB"}
NVBANDWIDTH = {"memory": "pinned", "strategy": "pinned"}
KERNEL_READ = {"memory": "mapped", "strategy": "zero_copy"}
KERNEL_WRITE = {"memory": "pinned", "strategy": "zero_copy"}
DRIVER = {"memory": "pageable", "strategy": "pageable"}

HOST_DEVICE: dict[int, tuple[str, dict[str, Any]]] = {
    # Row of t3: the catalogue machine that is asked instead, and the flow.
    2: ("h200-sxm-1", UP | NVBANDWIDTH),
    3: ("h200-sxm-1", DOWN | NVBANDWIDTH),
    4: ("h200-sxm-1", UP | KERNEL_READ),
    5: ("h200-sxm-1", DOWN | KERNEL_WRITE),
    8: ("pcie4-a100", UP | KERNEL_READ | {"size": "10GiB"}),
    9: ("pcie4-a100", UP | KERNEL_READ | {"size": "20GiB"}),
    17: ("h200-sxm-1", UP | DRIVER | {"size": "100MB"}),
    21: ("h200-sxm-1", UP | DRIVER),
}
IN_CATALOGUE = {0, 1, 6, 7, 10, 11, 14}
"""Rows of t3 that the catalogue's A100 was put together from."""


def _host_device() -> Iterator[Row]:
    for i, row in enumerate(read("t3")):
        name = f"{row['hardware']} {row['dir']} {row['strategy']} {row['bytes']}"
        published = _middle(row["GBps"]) * GB
        if i in HOST_DEVICE:
            machine, words = HOST_DEVICE[i]
            predicted = _flow(machine, **words).rate_bytes_per_s
            yield Row("t3", name, "B/s", published, predicted, "other machine", machine)
        elif i in IN_CATALOGUE:
            yield Row("t3", name, "B/s", published, None, "kept", "an input of pcie4-a100")
        else:
            note = "a rate of one machine that nothing else is known of"
            yield Row("t3", name, "B/s", published, None, "not expressible", note)


def _middle(text: str) -> float:
    """The middle of `25.94-26.19`; a `~` in front is dropped."""
    numbers = [float(part) for part in text.lstrip("~").split("-")]
    return sum(numbers) / len(numbers)


PEER = {"from": "gpu0", "to": "gpu1", "size": "1GiB"}
BETWEEN_GPUS: dict[int, tuple[str, dict[str, Any]]] = {
    0: ("pcie4-a100", PEER | {"strategy": "peer"}),
    1: ("h200-sxm-2", PEER | {"strategy": "peer"}),
    4: ("h200-sxm-2", PEER | {"strategy": "host_staged"}),
}


def _between_gpus() -> Iterator[Row]:
    for i, row in enumerate(read("t4")):
        name, published = f"{row['hardware']} {row['path']}", float(row["GBps"]) * GB
        if i in BETWEEN_GPUS:
            machine, words = BETWEEN_GPUS[i]
            predicted = _flow(machine, **words).rate_bytes_per_s
            yield Row("t4", name, "B/s", published, predicted, "other machine", machine)
        elif i == 3:
            yield Row("t4", name, "B/s", published, None, "kept", "an input of pcie4-a100")
        else:
            note = "a rate of one machine that nothing else is known of"
            yield Row("t4", name, "B/s", published, None, "not expressible", note)


def _small_copies() -> Iterator[Row]:
    rows = read("t5")
    for label, key, start in (
        ("Comm|Scope pinned", "hardware", "Comm"),
        ("WSL2 pinned", "operation", "H2D pinned"),
        ("WSL2 pageable", "operation", "H2D pageable"),
    ):
        mine = [row for row in rows if row[key].startswith(start)]
        found = [(int(row["bytes"]), float(row["time_us"]) * 1e-6) for row in mine]
        yield from _curve("t5", label, found)
    machine = planner.load_machine("h200-sxm-1")
    rate = machine.nodes["host0"].setup.host_alloc  # type: ignore[union-attr]
    assert rate is not None
    for i in (0, 3):
        size, published = int(rows[i]["bytes"]), float(rows[i]["time_us"]) * 1e-6
        name = f"{rows[i]['hardware']} {rows[i]['operation']}"
        note = "h200-sxm-1: a virtual machine whose memory is slow to touch"
        yield Row("t5", name, "s", published, size / rate, "other machine", note)
    for i in (1, 2, 4, 5, 6, 13, 14):
        name = f"{rows[i]['hardware']} {rows[i]['operation']}"
        published = float(rows[i]["time_us"]) * 1e-6
        yield Row("t5", name, "s", published, None, "not expressible", "no size or no rate known")


def _one_disk(reading: float, writing: float, *, bus: float) -> Machine:
    """A drive of which only the times of one request of 1 MiB are known, and a GPU on `bus`."""
    ways = []
    for seconds in (reading, writing):
        curve = {"latency": seconds - MIB / (100 * GB), "rate": 100 * GB}
        ways.append({"rate": 100 * GB, "curves": {"direct": curve}})
    wire = {"rate": bus, "curves": {"pinned": {"latency": 10e-6, "rate": bus}}}
    storage = {"kind": "storage", "ends": ["disk0", "host0"]}
    pcie = {"kind": "pcie", "ends": ["host0", "gpu0"], "forward": wire, "backward": wire}
    return _machine(
        {"disk0": {"kind": "disk", "host": "host0"}, "gpu0": _gpu("host0"), "host0": _HOST},
        {"storage0": storage | {"forward": ways[0], "backward": ways[1]}, "pcie0": pcie},
    )


_HOST: dict[str, Any] = {"kind": "ram", "capacity": 64 * GB, "cores": 16}


def _gpu(host: str) -> dict[str, Any]:
    return {"kind": "hbm", "host": host, "device": 0, "capacity": 80 * GB}


def _machine(nodes: dict[str, Any], links: dict[str, Any]) -> Machine:
    source = {"kind": "cited", "where": "the table", "when": "read in 2026"}
    return Machine.model_validate(
        {"name": "row", "sources": {"table": source}, "nodes": nodes, "links": links}
    )


def _storage() -> Iterator[Row]:
    """Four threads that each wait for their own request, and for a copy beside it."""
    rows = read("t6")
    gib = 1 << 30
    # The bus is not stated: PCIe 4.0 x16 as nvbandwidth measured it.
    reading, writing = (float(rows[i]["latency_us"]) * 1e-6 for i in (0, 1))
    machine = _one_disk(reading, writing, bus=26 * GB)
    shape = {"size": "4GiB", "cache": "cold", "chunk": "1MiB", "workers": 4}
    ways: dict[int, dict[str, Any]] = {
        0: {"from": "disk0", "to": "host0", "strategy": "direct"},
        1: {"from": "host0", "to": "disk0", "strategy": "direct"},
        2: {"from": "disk0", "to": "gpu0", "strategy": "direct", "depth": 1},
        3: {"from": "gpu0", "to": "disk0", "strategy": "direct", "depth": 1},
    }
    for i, row in enumerate(rows):
        name = f"{row['hardware']} {row['strategy']}"
        if i in ways:
            predicted = _flow(machine, **ways[i], **shape).rate_bytes_per_s
            published = float(row["GiBps"]) * gib
            note = "from the latency of one request"
            yield Row("t6", name, "B/s", published, predicted, "composed", note)
        elif i == 5:
            size = float(row["GiBps"].split()[0]) * GB * 386.6e-3
            words = UP | {"memory": "managed", "strategy": "managed", "size": f"{size:.0f}B"}
            predicted = _flow("h200-sxm-1", **words).rate_bytes_per_s
            yield Row("t6", name, "B/s", 8.2 * GB, predicted, "other machine", "h200-sxm-1")
        else:
            note = "a run of two requests" if i == 4 else "the kernel alone is timed"
            yield Row("t6", name, "B/s", None, None, "not expressible", note)


def _two_hosts(legs: tuple[float, float, float]) -> Machine:
    """GPU, host, adapter, wire, adapter, host, GPU; the three legs at the given rates."""
    out, wire, into = legs
    nodes: dict[str, Any] = {}
    links: dict[str, Any] = {}
    for prefix, rate in (("", out), ("node1.", into)):
        nodes |= {f"{prefix}host0": _HOST, f"{prefix}gpu0": _gpu(f"{prefix}host0")}
        nodes[f"{prefix}nic0"] = {"kind": "nic", "host": f"{prefix}host0"}
        way = {"rate": rate, "curves": {"pinned": {"latency": 0, "rate": rate}}}
        bus = {"rate": 1000 * GB}
        links[f"{prefix}pcie0"] = {
            "kind": "pcie",
            "ends": [f"{prefix}host0", f"{prefix}gpu0"],
            "forward": way,
            "backward": way,
        }
        links[f"{prefix}pcie1"] = {
            "kind": "pcie",
            "ends": [f"{prefix}host0", f"{prefix}nic0"],
            "forward": bus,
            "backward": bus,
        }
    net = {"rate": wire, "curves": {"rdma": {"latency": 0, "rate": wire}}}
    links["network0"] = {"kind": "network", "ends": ["nic0", "node1.nic0"], "forward": net}
    return _machine(nodes, links)


def _legs() -> Iterator[Row]:
    """One payload at a time through all three legs: one slot, one worker."""
    for row in read("t7"):
        payload = int(row["payload_bytes"])
        out, wire, into = (
            float(row[key]) * GB
            for key in ("leg1_t6_to_host_GBps", "leg2_wire_GBps", "leg3_h2d_GBps")
        )
        flow = _flow(
            _two_hosts((out, wire, into)),
            **{"from": "gpu0", "to": "node1.gpu0", "size": f"{256 * payload}B"},
            strategy={
                "gpu0 -> host0": "host_staged",
                "node1.host0 -> node1.gpu0": "host_staged",
            },
            chunk=f"{payload}B",
            depth=1,
            workers=1,
        )
        published = float(row["end_to_end_GBps"]) * GB
        name = f"payload {payload} B ({flow.bottleneck.cause})"
        yield Row("t7", name, "B/s", published, flow.rate_bytes_per_s, "composed")


def _chunks() -> Iterator[Row]:
    """Queue pairs as streams: what one carries, and the wire that all share."""
    rows = read("t8")
    one, wire = 25.0 * GB, 48.0 * GB  # one pair over 1 GB; a batch of blocks on all of them
    lag = 76e-6 - 1e6 / one  # what is left of 1 MB on one pair
    net = {"rate": wire, "curves": {"tcp": {"latency": 0, "rate": one}}}
    nodes = {"host0": _HOST, "host1": _HOST}
    link = {"kind": "network", "ends": ["host0", "host1"], "forward": net, "round_trip": 2 * lag}
    machine = _machine(nodes, {"network0": link})
    for i, (size, chunk, pairs) in {
        1: ("1MB", "64KiB", 4),
        2: ("1GB", "1GB", 1),
        3: ("1GB", "64KiB", 4),
    }.items():
        flow = _flow(
            machine,
            **{"from": "host0", "to": "host1", "size": size},
            chunk=chunk,
            depth=16,
            workers=pairs,
        )
        published = float(rows[i]["GBps"]) * GB
        how: How = "kept" if i == 2 else "composed"
        predicted = flow.size_bytes / flow.steady_s
        yield Row(
            "t8", f"{rows[i]['bytes']} B, {rows[i]['mode']}", "B/s", published, predicted, how
        )
    for i in (0, 4, 5):
        name = f"{rows[i]['bytes']} B, {rows[i]['mode']}"
        note = "gives the latency" if i == 0 else "gives the wire"
        yield Row("t8", name, "B/s", float(rows[i]["GBps"]) * GB, None, "kept", note)
