"""Twenty-two more published observations, less uniform than the thirteen cases.

    python benchmarks/extra_cases.py --json benchmarks/results/extra_cases.json

Each is a small machine with the rates that its report states and one flow. Where a report states
no rate that differs from its own answer, or the model has no word for what it is about, the row
says so instead of a number.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))  # a checkout not installed

import planner
from benchmarks.published_rows import GB, MIB
from planner.errors import InfeasibleError
from planner.machine.schema import Machine
from planner.plan.schema import Plan
from planner.units import format_time

GIB = 1 << 30


@dataclass(frozen=True)
class Extra:
    """One observation: seconds predicted and observed, what limits, and what to think of it."""

    case: str
    source: str
    what: str
    observed_s: float | None
    predicted_s: float | None
    limit: str
    given: bool
    comment: str


def _local(
    *,
    disk: float | None = None,
    bus: float = 55 * GB,
    gpus: int = 1,
    limit: int = 2000 * GB,
    copies: dict[str, Any] | None = None,
    **curves: float,
) -> Machine:
    """One host with `gpus` GPUs; `direct`, `gds`, `mmap`, `pageable` are rates of curves."""
    host: dict[str, Any] = {"kind": "ram", "capacity": limit, "cores": 64}
    host |= {"copy": copies or {}, "setup": {"register": 20 * GB, "map_touch": curves.get("touch")}}
    nodes: dict[str, Any] = {"host0": host, "disk0": {"kind": "disk", "host": "host0"}}
    links: dict[str, Any] = {}
    if disk is not None:
        of_disk = {"direct": _affine(curves.get("direct", disk))}
        if "mmap" in curves:
            of_disk["mmap"] = _affine(curves["mmap"])
        way = {"rate": disk, "curves": of_disk}
        links["storage0"] = {"kind": "storage", "ends": ["disk0", "host0"], "forward": way}
        if "gds" in curves:
            way = {"rate": disk, "curves": {"gds": _affine(curves["gds"])}}
            links["gds0"] = {"kind": "storage", "ends": ["disk0", "gpu0"], "forward": way}
    of_bus = {"pinned": _affine(bus), "pageable": _affine(curves.get("pageable", 8 * GB))}
    for i in range(gpus):
        nodes[f"gpu{i}"] = {"kind": "hbm", "host": "host0", "device": i, "capacity": 1000 * GB}
        wire = {"rate": bus, "curves": of_bus}
        links[f"pcie{i}"] = {"kind": "pcie", "ends": ["host0", f"gpu{i}"], "forward": wire}
    return _machine(nodes, links)


def _affine(rate: float) -> dict[str, float]:
    return {"latency": 0.0, "rate": rate}


def _machine(nodes: dict[str, Any], links: dict[str, Any]) -> Machine:
    source = {"kind": "cited", "where": "the report", "when": "read in 2026"}
    return Machine.model_validate(
        {"name": "extra", "sources": {"report": source}, "nodes": nodes, "links": links}
    )


def _two_hosts(wire: float, direct: float, bus: float) -> Machine:
    """Two hosts with a GPU and an adapter each; `direct` is what a GPU and its adapter reach."""
    nodes: dict[str, Any] = {}
    links: dict[str, Any] = {}
    for at in ("", "node1."):
        host = f"{at}host0"
        nodes |= {host: {"kind": "ram", "capacity": 512 * GB, "cores": 32}}
        nodes |= {f"{at}gpu0": {"kind": "hbm", "host": host, "device": 0, "capacity": 64 * GB}}
        nodes |= {f"{at}nic0": {"kind": "nic", "host": host}}
        way = {"rate": bus, "curves": {"pinned": {"latency": 1e-5, "rate": bus}}}
        side = {"rate": direct, "curves": {"gpudirect": {"latency": 5e-6, "rate": direct}}}
        for name, ends, both in (
            ("pcie0", [host, f"{at}gpu0"], way),
            ("pcie1", [host, f"{at}nic0"], {"rate": bus}),
            ("pcie2", [f"{at}gpu0", f"{at}nic0"], side),
        ):
            links[f"{at}{name}"] = {"kind": "pcie", "ends": ends, "forward": both, "backward": both}
    net = {"rate": wire, "curves": {"rdma": {"latency": 5e-6, "rate": wire}}}
    links["network0"] = {"kind": "network", "ends": ["nic0", "node1.nic0"], "forward": net}
    return _machine(nodes, links)


LOAD: dict[str, Any] = {"from": "disk0", "to": "gpu0", "cache": "cold"}
SHAPE: dict[str, Any] = {"chunk": "4MiB", "workers": 16}  # any that keeps the drive busy
RING: dict[str, Any] = LOAD | SHAPE | {"route": ["host0"]}


@dataclass(frozen=True)
class Asked:
    """One prediction to make: its machine and flow, and what was observed."""

    case: str
    source: str
    what: str
    observed_s: float | None
    machine: Machine
    flow: dict[str, Any]
    comment: str
    given: bool = False


def _asked() -> Iterator[Asked]:
    sllm = "https://github.com/ServerlessLLM/ServerlessLLM (benchmarks/results/h100_2025)"
    h100 = _local(disk=29.4 * GB)
    yield Asked("X01", sllm, "65.5 GB out of a pinned pool", 1.253, h100,
                {"from": "host0", "to": "gpu0", "size": "65.5GB", "memory": "pinned"},
                "PCIe 5.0 at 55 GB/s")  # fmt: skip
    yield Asked("X01", sllm, "65.5 GB out of NVMe", 3.216, h100, RING | {"size": "65.5GB"},
                "the loader reaches 70 % of the drive; its rest is not modelled")  # fmt: skip
    yield Asked("X02", "https://github.com/ServerlessLLM/ServerlessLLM/issues/193",
                "13.3 GB out of a disk of 373 MB/s", 30.0, _local(disk=0.373 * GB),
                RING | {"size": "13.3GB"}, "the disk was faster than its own fio run")  # fmt: skip
    nvme = "https://github.com/deepspeedai/DeepSpeed/blob/master/blogs/deepnvme/06-2025/README.md"
    yield Asked("X03", nvme, "1 GB, eight drives of 6.75 GB/s", 1 / 48, _local(disk=54 * GB),
                RING | {"size": "1GB", "chunk": "1MiB"}, "eight times one drive")  # fmt: skip
    tensor = "https://github.com/scitix/InstantTensor/blob/main/docs/benchmark.md"
    yield Asked("X04", tensor, "688.6 GB to eight GPUs, 50 GB/s shared", 15.3,
                _local(disk=50 * GB, gpus=8),
                RING | {"size": "688.6GB", "to": [f"gpu{i}" for i in range(8)], "copy": "shard"},
                "every byte is read once")  # fmt: skip
    copies = {"file": {"workers": [1, 8], "rings": ["64MiB"], "rates": [[0.902 * GB], [7.2 * GB]]}}
    yield Asked("X07", "https://github.com/coreweave/tensorizer/pull/80",
                "12.2 GB, eight readers with one buffer each", 1.02,
                _local(disk=5 * GB, bus=25 * GB, copies=copies),
                LOAD | {"size": "12.219GB", "cache": "warm", "depth": 1, "workers": 8},
                "0.84 GiB/s a thread is less than the whole shows: not the same runs")  # fmt: skip
    yield Asked("X08", "https://github.com/pytorch/pytorch/issues/16901",
                "154 MB pageable at 5.1 GB/s", 0.030, _local(pageable=5.1 * GB),
                {"from": "host0", "to": "gpu0", "size": "154.14MB", "strategy": "pageable"},
                "the rate is the answer", given=True)  # fmt: skip
    for size, seconds, says in (
        ("64KiB", None, "straight, as below the published crossover at 256 KiB"),
        ("8MiB", 8 * MIB / 20.95e9, "staged, as above it"),
    ):
        yield Asked("X11", "https://github.com/openucx/ucx/pull/5742",
                    f"{size} between GPUs of two hosts, choice free", seconds,
                    _two_hosts(25 * GB, 7.78 * GB, 25 * GB),
                    {"from": "gpu0", "to": "node1.gpu0", "size": size}, says)  # fmt: skip
    yield Asked("X14", "https://github.com/rapidsai/kvikio/issues/850",
                "GDS out of four striped drives of 6.4 GB/s, 10 GB", 10 / 23,
                _local(disk=25.6 * GB, gds=25.6 * GB), LOAD | {"size": "10GB", "strategy": "gds"},
                "striping keeps 90 % of the drives")  # fmt: skip
    yield Asked("X15", "https://github.com/huggingface/transformers/pull/48227",
                "206 GiB of Lustre into memory, 32 streams", 23.0,
                _local(disk=8.5 * GIB),
                {"from": "disk0", "to": "host0", "size": "206GiB", "cache": "cold",
                 "strategy": "direct", "workers": 32, "chunk": "16MiB"},
                "one stream reaches 2 GiB/s, all together 8.5")  # fmt: skip
    yield Asked("X16", "https://github.com/vcruz305/vllm-exl3/pull/28",
                "10 GB out of a cached mapping", 10 / 0.251,
                _local(disk=5 * GB, touch=0.251 * GB, mmap=0.201 * GB, pageable=50 * GB),
                LOAD | {"size": "10GB", "cache": "warm", "strategy":
                        {"disk0 -> host0": "mmap", "host0 -> gpu0": "pageable"}},
                "the rate is the answer", given=True)  # fmt: skip
    yield Asked("X17", "https://github.com/lvyufeng/PocketLLM/pull/53",
                "236 GB out of a hard disk", 1440.0, _local(disk=0.164 * GB),
                SHAPE | {"from": "disk0", "to": "host0", "size": "236GB", "cache": "cold"},
                "the rate is the answer", given=True)  # fmt: skip


UNSAID: tuple[tuple[str, str, str, str], ...] = (
    ("X05", "https://github.com/scitix/InstantTensor/pull/7", "libaio against io_uring",
     "buffered libaio is serial in the kernel, which no curve says; no cap is given"),
    ("X06", "https://github.com/vllm-project/vllm/pull/10647", "GDS against mappings",
     "no rate of any part is given"),
    ("X09", "https://github.com/pytorch/torchtitan/pull/3519", "memory of the other socket",
     "same form as C11: the far rate is only known as the answer"),
    ("X10", "https://github.com/NVIDIA/nvbandwidth/issues/53", "both directions at once",
     "`against` is fitted to these very figures in pcie4-a100"),
    ("X12", "https://github.com/kvcache-ai/Mooncake/issues/1459", "GPUDirect at a third",
     "the cause was never found"),
    ("X13", "https://github.com/ai-dynamo/nixl/issues/791", "a local copy through an adapter",
     "simple routes never leave a host and come back: the wrong way is not a candidate"),
    ("X18", "https://github.com/sgl-project/sglang/pull/40278", "reads in place by few blocks",
     "needs the launch's bytes in flight: 64 KiB / 1.3 us = 50 GB/s a block, 48 observed"),
    ("X19", "https://github.com/cupy/cupy/issues/7742", "pinned pool rounds to powers of two",
     "rings are registered in place, no pool is used: 10 GiB are counted as 10 GiB"),
    ("X20", "https://github.com/vllm-project/vllm/issues/44430", "four ranks hold the model each",
     "no sizes are given; flows that fill a host together are refused with what would fit"),
    ("X22", "https://github.com/llm-d/llm-d-kv-cache/pull/607", "many small copies, batched",
     "no sizes are given, and batched calls have no curve"),
)  # fmt: skip


def extras() -> list[Extra]:
    """Every row, by case."""
    rows = [_predict(asked) for asked in _asked()]
    rows += [Extra(c, s, w, None, None, "", given=False, comment=n) for c, s, w, n in UNSAID]
    rows.append(_container())
    return sorted(rows, key=lambda row: row.case)


def _predict(asked: Asked) -> Extra:
    plan = Plan.model_validate({"name": asked.case, "flows": {"row": asked.flow}})
    found = planner.estimate(plan, machine=asked.machine)
    flow = found.flows[0]
    hops = " + ".join(dict.fromkeys(hop.hop.strategy for hop in flow.hops))
    limit = f"{flow.bottleneck.resource}, {flow.bottleneck.cause} ({hops})"
    steady = max(f.steady_s if len(found.flows) == 1 else f.finish_s for f in found.flows)
    return Extra(
        asked.case,
        asked.source,
        asked.what,
        asked.observed_s,
        steady,
        limit,
        given=asked.given,
        comment=asked.comment,
    )


def _container() -> Extra:
    """X21: 56 GiB cannot be pinned in a container of 8 GiB, whatever the host shows as free."""
    flow = {"from": "host0", "to": "gpu0", "size": "56GiB", "strategy": "registered"}
    plan = Plan.model_validate({"name": "X21", "flows": {"row": flow}})
    source = "https://github.com/kekzl/imp/pull/2070"
    try:
        planner.estimate(plan, machine=_local(limit=8 * GIB))
        refused = "accepted"
    except InfeasibleError as error:
        refused = "refused" if "the budget is" in str(error) else "refused for another reason"
    what = "56 GiB pinned in a container of 8 GiB"
    return Extra("X21", source, what, None, None, refused, given=False, comment="yes or no")


def markdown(rows: Sequence[Extra]) -> list[str]:
    """The rows as the table of `docs/model.md`."""
    found = [
        "| case | what | predicted | observed | error | what limits | comment |",
        "| --- | --- | --- | --- | --- | --- | --- |",
    ]
    for row in rows:
        error = ""
        if row.predicted_s is not None and row.observed_s is not None:
            error = "given" if row.given else f"{row.predicted_s / row.observed_s - 1:+.0%}"
        times = ["" if t is None else format_time(t) for t in (row.predicted_s, row.observed_s)]
        cells = (row.case, row.what, *times, error.replace("-", "−"), row.limit, row.comment)
        found.append(f"| {' | '.join(cells)} |")
    return found


def main() -> int:
    """Print the rows, and write them where that is asked for."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--json", type=Path, metavar="FILE", help="write the rows there too")
    parser.add_argument("--markdown", action="store_true", help="print the table of the docs")
    options = parser.parse_args()
    rows = extras()
    if options.markdown:
        print("\n".join(markdown(rows)))
        return 0
    for row in rows:
        times = [row.predicted_s, row.observed_s]
        shown = [f"{'' if t is None else format_time(t):>10}" for t in times]
        print(row.case, f"{row.what:52}", *shown, row.limit or row.comment)
    if options.json:
        record = {
            "command": " ".join(["python", *sys.argv]),
            "planner": planner.__version__,
            "rows": [asdict(row) for row in rows],
        }
        options.json.write_text(json.dumps(record, indent=1) + "\n", encoding="utf-8")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
