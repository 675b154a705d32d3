"""The host: cores, memory, limits, NUMA nodes, and what it runs on."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from planner.machine.observation import Observation, Strain
from planner.results.doctor import Cost, Finding
from planner.review.checks.base import (
    CannotTellError,
    NothingThereError,
    about_of,
    copy_rate,
    cost,
    found,
    host_of,
    link_rate,
    measured,
    need,
    require_gpus,
)
from planner.units import format_size

RING: Final = 128 << 20
"""Bytes of a usual ring where no calibration tells the best one: 16 workers with two slots of
4 MiB."""
PRESSURE: Final = 0.01
"""Share of a minute that something waited for memory, from which on it is more than an accident."""
SWAPPED: Final = 64 << 20
"""Bytes in swap below which nobody need know: idle services leave some."""


def cores(seen: Observation) -> Iterator[Finding]:
    """A quota of the control group, or an affinity, below the cores that are there."""
    about, strain = about_of(seen), _strain(seen)
    allowed, online = strain.allowed_cpus, strain.online_cpus
    if about.quota is not None and (allowed is None or about.quota < allowed):
        of = f" of the {allowed} that it sees" if allowed is not None else ""
        yield found(
            "warning",
            "CPU quota",
            f"the control group grants {about.quota:g} cores{of}",
            why="once a period's time is spent all threads stop together, and the link idles",
            mend="raise cpu.max (--cpus of the container); few cores: register cached files in "
            "pieces (strategy registered_chunks) instead of copying",
            cost=_copying(seen, about.cores),
        )
    if allowed is not None and online is not None and allowed < online:
        spent = _copying(seen, about.cores)
        yield found(
            "warning" if spent is not None else "note",
            "CPU affinity",
            f"this process may run on {allowed} of {online} cores",
            why="workers share what it may use",
            mend="taskset, the scheduler's cores a task, or the container's cpuset",
            cost=spent,
        )


def _copying(seen: Observation, cores: int) -> Cost | None:
    """What it costs that so few cores fill a ring slower than the link empties it."""
    machine = measured(seen)
    if machine is None:
        return None
    copying, link = copy_rate(machine, cores), link_rate(machine)
    return cost("page cache → GPU", copying, link) if copying and link else None


def _strain(seen: Observation) -> Strain:
    strain: Strain = need(seen, "strain")
    return strain


def memory(seen: Observation) -> Iterator[Finding]:
    """A memory limit of the control group below the memory that is there."""
    about = about_of(seen)
    limit, total = about.memory_limit_bytes, about.memory_bytes
    if limit is None or total is None or limit >= total:
        return
    largest = max((gpu.memory_bytes for gpu in about.gpus), default=0)
    tight = limit < largest or limit < total / 2
    machine = measured(seen)
    reads = machine.links.get("storage0") if machine is not None else None
    disk = reads.forward.rate if reads is not None and reads.forward is not None else 0.0
    warm = copy_rate(machine, about.cores) if machine is not None else None
    yield found(
        "warning" if tight else "note",
        "memory limit",
        f"the control group grants {format_size(limit)} of {format_size(total)}",
        why="the page cache counts: a larger file is never warm, and is read from disk each time",
        mend="raise memory.max (--memory of the container), or read past the cache (direct)",
        cost=cost("disk instead of page cache", disk, warm) if tight and warm else None,
    )


def memlock(seen: Observation) -> Iterator[Finding]:
    """A limit of locked memory below what a ring needs."""
    limit = about_of(seen).locked_limit_bytes
    ring = _ring(seen)
    if limit is None or limit >= ring:
        return
    rdma = [nic.rdma for nic in seen.adapters or () if nic.rdma]
    yield found(
        "warning" if rdma else "note",
        "locked memory",
        f"RLIMIT_MEMLOCK is {format_size(limit)}, a ring needs {format_size(ring)}",
        why=f"{', '.join(rdma)} cannot register a ring"
        if rdma
        else "it bounds mlock and RDMA; what CUDA pins is not counted",
        mend="ulimit -l unlimited (limits.conf, LimitMEMLOCK of the service, --ulimit memlock=-1)",
    )


def _ring(seen: Observation) -> int:
    """Bytes of the ring that fills fastest."""
    machine = measured(seen)
    host = host_of(machine) if machine is not None else None
    table = host.copy_rates.get("file") if host is not None else None
    if table is None:
        return RING
    cells = [
        (cell or 0.0, -ring)
        for row in table.rates
        for cell, ring in zip(row, table.rings, strict=True)
    ]
    return -max(cells)[1]


def hugepages(seen: Observation) -> Iterator[Finding]:
    """Transparent huge pages switched off."""
    setting = about_of(seen).huge_pages
    if setting is None:
        raise CannotTellError("the kernel does not show transparent_hugepage")
    if setting == "never":
        yield found(
            "note",
            "transparent huge pages",
            "they are set to never",
            why="rings ask for them: 512 times fewer pages to touch and to pin. On some guests it "
            "makes no difference",
            mend="echo madvise > /sys/kernel/mm/transparent_hugepage/enabled",
        )


def swap(seen: Observation) -> Iterator[Finding]:
    """Swap in use, and memory that something waits for."""
    strain = _strain(seen)
    used = strain.swap_used_bytes
    if used is None:
        raise CannotTellError("/proc/meminfo does not show swap")
    if used < SWAPPED:
        return
    pressed = strain.pressure is not None and strain.pressure >= PRESSURE
    waits = (
        "nobody says whether anything waits for memory"
        if strain.pressure is None
        else f"in {strain.pressure:.0%} of the last minute something waited for memory"
    )
    yield found(
        "warning" if pressed else "note",
        "swap",
        f"{format_size(used)} are swapped out; {waits}",
        why="buffers that were swapped out are read from disk before the first copy",
        mend="find who takes the memory, or take smaller buffers",
    )


def numa(seen: Observation) -> Iterator[Finding]:
    """GPUs whose NUMA node this process has no cores or no memory on."""
    require_gpus(seen)
    about = about_of(seen)
    if len(about.numa) < 2:
        raise NothingThereError
    strain = _strain(seen)
    running = {node.index for node in about.numa if node.cpus}
    if all(gpu.numa is None for gpu in about.gpus):
        raise CannotTellError("the kernel does not say which NUMA node a GPU is near to")
    for gpu in about.gpus:
        if gpu.numa is None:
            continue
        lacks = [
            what
            for what, nodes in (("cores", running), ("memory", strain.memory_nodes))
            if nodes is not None and gpu.numa not in nodes
        ]
        if lacks:
            yield found(
                "warning",
                f"gpu{gpu.index}",
                f"it is near NUMA node {gpu.numa}, of which this process may use no "
                f"{' and no '.join(lacks)}",
                why="every byte crosses the bus between sockets: 3 to 5 times slower has been "
                "measured (P100: 12.7 near, 4.0 GB/s far)",
                mend=f"numactl --cpunodebind={gpu.numa} --membind={gpu.numa}, or the container's "
                "cpuset",
            )


def virtual(seen: Observation) -> Iterator[Finding]:
    """A guest of a hypervisor, and an IOMMU between GPUs: what to keep in mind."""
    about = about_of(seen)
    if about.virtualization is not None:
        yield found(
            "note",
            "virtual machine",
            f"this computer is a guest ({about.virtualization})",
            why="the host may hold a disk in its own cache (cold is guest-cold), and neighbours "
            "share memory and disk",
            mend="calibrate and run in the same boot; look at spreads",
        )
    if seen.iommu and len(about.gpus) > 1:
        yield found(
            "note",
            "IOMMU",
            f"it is on ({seen.iommu} groups) with {len(about.gpus)} GPUs",
            why="with access control (ACS) it sends copies between PCIe peers through the "
            "processor: possible is neither fast nor always right",
            mend="execute verifies every byte; on bare metal iommu=pt, and ACS off on the switches",
        )
