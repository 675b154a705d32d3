"""What this computer is, found without measuring anything and without starting CUDA."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from planner.machine import system
from planner.machine.discover_gpus import Gpu, load_nvml, read_gpus
from planner.machine.system import Cache, FileSystem, NumaNode


@dataclass(frozen=True, slots=True)
class Discovery:
    """This computer as the system and the driver describe it; `None` where they do not say.

    Attributes
    ----------
    cores
        CPUs' worth of work that this process may use at once: its affinity, cut to the quota of
        its control group, at least 1.
    quota
        That quota alone, in CPUs.
    memory_bytes
        The largest MemTotal known; a guest may show a part of its memory at first and grow.
    memory_limit_bytes
        What the control groups grant.
    locked_limit_bytes
        RLIMIT_MEMLOCK.
    gpus, driver, no_gpu
        What the driver shows; `no_gpu` is the reason where that is nothing.
    virtualization
        Which hypervisor this is a guest of.
    """

    cores: int
    quota: float | None
    cpu: str | None
    cache: Cache | None
    numa: tuple[NumaNode, ...]
    memory_bytes: int | None
    memory_limit_bytes: int | None
    locked_limit_bytes: int | None
    huge_pages: str | None
    kernel: str | None
    filesystem: FileSystem | None
    gpus: tuple[Gpu, ...]
    driver: str | None
    no_gpu: str | None
    virtualization: str | None = None

    @property
    def usable_memory_bytes(self) -> int | None:
        """Bytes of memory that this process may use: the limit, or all where there is none."""
        known = [b for b in (self.memory_bytes, self.memory_limit_bytes) if b is not None]
        return min(known, default=None)

    def fingerprint(self, shown: Sequence[str | None] = ()) -> str:
        """What a calibration depends on, as 16 hexadecimal digits.

        GPUs, driver, kernel, CPU, cores, limits and file system count; free space, the present
        state of idle PCIe links and the memory that a guest shows do not. `shown` is what makes
        CUDA show others of the GPUs, or in another order: nothing where all are as usual.
        """
        disk = self.filesystem
        facts = {
            "gpus": [gpu.uuid for gpu in self.gpus],
            "driver": self.driver,
            "kernel": self.kernel,
            "cpu": self.cpu,
            "cores": self.cores,
            "memory_limit": self.memory_limit_bytes,
            "locked_limit": self.locked_limit_bytes,
            "huge_pages": self.huge_pages,
            "filesystem": None if disk is None else [disk.mount, disk.kind, disk.device],
        }
        if any(shown):
            facts["shown"] = [name or "" for name in shown]
        text = json.dumps(facts, sort_keys=True)
        return hashlib.sha256(text.encode()).hexdigest()[:16]


def discover(
    path: Path,
    *,
    root: Path = Path("/"),
    largest_memory: int = 0,
    nvml: Callable[[], Any] = load_nvml,
) -> Discovery:
    """What this computer is.

    Parameters
    ----------
    path
        A file or folder; the file system that holds it is described.
    root
        Where `/proc` and `/sys` lie.
    largest_memory
        The largest MemTotal that an earlier run saw, in bytes.
    nvml
        Gives the binding of the driver's management library.
    """
    cpus = system.allowed_cpus(root)
    quota = system.cpu_quota(root)
    cores = len(cpus) if quota is None else min(len(cpus), int(quota))
    shown = system.memory_total(root)
    found = read_gpus(root, nvml)
    return Discovery(
        cores=max(cores, 1),
        quota=quota,
        cpu=system.cpu_model(root),
        cache=system.last_level_cache(root, cpus),
        numa=system.numa_nodes(root, cpus),
        memory_bytes=None if shown is None else max(shown, largest_memory),
        memory_limit_bytes=system.memory_limit(root),
        locked_limit_bytes=system.locked_memory_limit(root),
        huge_pages=system.huge_pages(root),
        kernel=system.read_text(root / "proc/sys/kernel/osrelease"),
        filesystem=system.file_system(root, path),
        gpus=found.gpus,
        driver=found.driver,
        no_gpu=found.reason,
        virtualization=system.virtualization(root),
    )
