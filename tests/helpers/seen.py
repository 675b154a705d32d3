"""A computer as it was seen: two GPUs with NVLink, all well, unless a test says otherwise."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

from planner.machine.discover import Discovery
from planner.machine.discover_details import GpuDetails
from planner.machine.discover_gpus import Gpu
from planner.machine.discover_health import Health
from planner.machine.discover_pairs import GpuPair, NvLinks
from planner.machine.load import load_machine
from planner.machine.observation import (
    Calibration,
    Cuda,
    Observation,
    Scratch,
    Storage,
    Strain,
)
from planner.machine.schema import Machine
from planner.machine.system import Cache, FileSystem, NumaNode

DATA = Path(__file__).resolve().parents[1] / "data" / "machines"
GB = 10**9
GIB = 1 << 30
NOW = 1_795_953_600.0
"""Noon of 2026-11-29 (UTC), seconds since 1970."""
DAY = 86400.0


def gpu(index: int, **changes: Any) -> Gpu:
    """One H200 that idles: its link shows generation 1."""
    base = Gpu(
        index,
        "NVIDIA H200",
        f"GPU-{index}",
        141 * GB,
        bus=f"00000000:0{index + 1}:00.0",
        numa=0,
        generation=1,
        width=16,
        max_generation=5,
        max_width=16,
    )
    return replace(base, **changes)


def discovery(**changes: Any) -> Discovery:
    """32 cores, 256 GiB, two GPUs, no limits."""
    base = Discovery(
        cores=32,
        quota=None,
        cpu="Xeon X",
        cache=Cache(300 << 20, 1),
        numa=(NumaNode(0, tuple(range(32)), 256 * GIB),),
        memory_bytes=256 * GIB,
        memory_limit_bytes=None,
        locked_limit_bytes=None,
        huge_pages="madvise",
        kernel="6.8.0",
        filesystem=FileSystem("/", "ext4", "/dev/vda1", 500 * GB, 1000 * GB),
        gpus=(gpu(0), gpu(1)),
        driver="580.159",
        no_gpu=None,
    )
    return replace(base, **changes)


def details(**changes: Any) -> GpuDetails:
    """18 NVLinks between the two, peer access, nothing wrong."""
    links = NvLinks(18, 4, ("switch",) * 18)
    base = GpuDetails(
        links=(links, links),
        pairs=(GpuPair(0, 1, nvlinks=18, generation=4, near="far", peer=True),),
        health=tuple(
            Health(
                k,
                141 * GB,
                GB,
                0,
                0,
                0,
                pending=False,
                failed=False,
                slowed=(),
                replays=0,
                persistent=True,
            )
            for k in range(2)
        ),
        cuda=13000,
    )
    return replace(base, **changes)


def calibrated() -> Machine:
    """A computer with two GPUs as its calibration has it."""
    return load_machine(str(DATA / "two-h200.yaml"))


def with_link(name: str, **changes: Any) -> Calibration:
    """That calibration with one link changed."""
    machine = calibrated()
    link = machine.links[name].model_copy(update=changes)
    return Calibration(
        machine.model_copy(update={"links": {**machine.links, name: link}}), NOW - DAY
    )


def health(**changes: Any) -> GpuDetails:
    """The second GPU in another state."""
    base = details()
    return replace(base, health=(base.health[0], replace(base.health[1], **changes)))


def observation(**changes: Any) -> Observation:
    """All is well and was seen."""
    base = Observation(
        name="here",
        host="box",
        now_s=NOW,
        about=discovery(),
        details=details(),
        cuda=Cuda(driver_library=True, cupy="14.2.0", runtime=12090, driver=13000, devices=2),
        adapters=(),
        scratch=Scratch("/tmp"),  # noqa: S108 - a name, nothing is written
        strain=Strain(
            swap_bytes=0,
            swap_used_bytes=0,
            pressure=0.0,
            online_cpus=32,
            allowed_cpus=32,
            memory_nodes=(0,),
        ),
        iommu=0,
        storage=Storage(module=True, kvikio=True),
        calibration=Calibration(calibrated(), NOW - DAY),
    )
    return replace(base, **changes)
