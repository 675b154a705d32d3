"""What Linux says of this computer: cores, memory, caches, NUMA nodes, limits, file systems.

Every function takes the `root` under which `/proc` and `/sys` lie, so that tests hand in a tree of
their own. A file that is missing or unreadable is an unknown (`None`), not an error: containers
hide some of them.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from planner.units import parse_size

# cgroup v1 says "no limit" with the largest multiple of the page size that a signed 64-bit number
# holds (9223372036854771712); no machine has memory of that order.
_NO_LIMIT: Final = 1 << 60


@dataclass(frozen=True, slots=True)
class NumaNode:
    """One NUMA node: its number, its CPUs that this process may use, and its memory in bytes."""

    index: int
    cpus: tuple[int, ...]
    memory_bytes: int | None


@dataclass(frozen=True, slots=True)
class Cache:
    """The last-level cache: bytes of one, and how many of them the usable CPUs have."""

    size_bytes: int
    count: int


@dataclass(frozen=True, slots=True)
class FileSystem:
    """Where a path lies: mount point, type (`ext4`), device, free and total bytes."""

    mount: str
    kind: str
    device: str
    free_bytes: int | None
    total_bytes: int | None


def read_text(path: Path) -> str | None:
    """The text of a small file without the white space around it, `None` if it cannot be read."""
    try:
        return path.read_text(encoding="utf-8", errors="replace").strip()
    except OSError:
        return None


def cpu_list(text: str) -> tuple[int, ...]:
    """CPU numbers of a kernel list.

    >>> cpu_list("0-3,8")
    (0, 1, 2, 3, 8)
    """
    cpus: set[int] = set()
    for part in filter(None, text.replace(" ", "").split(",")):
        first, _, last = part.partition("-")
        cpus.update(range(int(first), int(last or first) + 1))
    return tuple(sorted(cpus))


def allowed_cpus(root: Path) -> tuple[int, ...]:
    """The CPUs that this process may run on (affinity and cpuset)."""
    status = read_text(root / "proc/self/status") or ""
    match = re.search(r"^Cpus_allowed_list:\s*(\S+)", status, re.MULTILINE)
    return cpu_list(match[1]) if match else ()


def cpu_model(root: Path) -> str | None:
    """The name of the CPU with its family and model, as `/proc/cpuinfo` has them."""
    info = read_text(root / "proc/cpuinfo") or ""
    pattern = r"^(model name|cpu family|model)\s*:\s*(.+?)\s*$"
    fields: dict[str, str] = dict(re.findall(pattern, info, re.MULTILINE))
    if not fields:
        return None
    family = f" (family {fields.get('cpu family', '?')}, model {fields.get('model', '?')})"
    return fields.get("model name", "unnamed CPU") + family


def _groups(root: Path, controller: str) -> Iterator[Path]:
    """The folders of this process's control group and of all groups around it, v2 and v1."""
    base = root / "sys/fs/cgroup"
    for line in (read_text(root / "proc/self/cgroup") or "").splitlines():
        number, names, path = (*line.split(":", 2), "", "")[:3]
        if number == "0":
            tops = [base, base / "unified"]
        elif controller in names.split(","):
            tops = [base / names, base / controller]
        else:
            continue
        for top in tops:
            inner = Path(path.strip("/"))
            # Without a cgroup namespace the path may lie outside of what the container mounts:
            # then only the top is there, which is the container's own group.
            yield from (top / part for part in (inner, *inner.parents) if part.parts)
            yield top


def cpu_quota(root: Path) -> float | None:
    """CPUs' worth of time that the control groups grant, `None` for no limit."""
    quotas = []
    for group in _groups(root, "cpu"):
        text = read_text(group / "cpu.max")
        if text is None:
            quota, period = (
                read_text(group / f"cpu.cfs_{name}_us") for name in ("quota", "period")
            )
            text = f"{quota} {period}"
        quota, _, period = text.partition(" ")
        if quota.isdecimal() and period.isdecimal() and int(period):
            quotas.append(int(quota) / int(period))
    return min(quotas, default=None)


def memory_limit(root: Path) -> int | None:
    """Bytes that the control groups grant, `None` for no limit."""
    limits = []
    for group in _groups(root, "memory"):
        for name in ("memory.max", "memory.limit_in_bytes"):
            text = read_text(group / name) or ""
            if text.isdecimal() and int(text) < _NO_LIMIT:
                limits.append(int(text))
    return min(limits, default=None)


def memory_total(root: Path, node: int | None = None) -> int | None:
    """Bytes of memory of the computer (MemTotal), or of one NUMA node."""
    where = "proc/meminfo" if node is None else f"sys/devices/system/node/node{node}/meminfo"
    match = re.search(r"MemTotal:\s*(\d+) kB", read_text(root / where) or "")
    return int(match[1]) * 1024 if match else None


def last_level_cache(root: Path, cpus: tuple[int, ...]) -> Cache | None:
    """The largest cache that the usable CPUs share, from the highest level that there is."""
    found: dict[tuple[int, str], int] = {}
    for cpu in cpus:
        for index in (root / f"sys/devices/system/cpu/cpu{cpu}/cache").glob("index*"):
            size = read_text(index / "size") or ""
            level = read_text(index / "level") or ""
            match = re.fullmatch(r"(\d+)([KMG])", size)
            if match and level.isdecimal() and read_text(index / "type") != "Instruction":
                sharers = read_text(index / "shared_cpu_list") or str(cpu)
                found[int(level), sharers] = parse_size(f"{match[1]}{match[2]}iB")
    if not found:
        return None
    top = max(level for level, _ in found)
    sizes = [size for (level, _), size in found.items() if level == top]
    return Cache(max(sizes), len(sizes))


def numa_nodes(root: Path, cpus: tuple[int, ...]) -> tuple[NumaNode, ...]:
    """The NUMA nodes in order; one with all CPUs where the kernel shows none."""
    nodes = []
    for folder in (root / "sys/devices/system/node").glob("node[0-9]*"):
        index = int(folder.name.removeprefix("node"))
        own = set(cpu_list(read_text(folder / "cpulist") or ""))
        usable = tuple(cpu for cpu in cpus if cpu in own)
        nodes.append(NumaNode(index, usable, memory_total(root, index)))
    nodes.sort(key=lambda node: node.index)
    return tuple(nodes) or (NumaNode(0, cpus, memory_total(root)),)


def huge_pages(root: Path) -> str | None:
    """The setting of transparent huge pages: `always`, `madvise` or `never`."""
    text = read_text(root / "sys/kernel/mm/transparent_hugepage/enabled") or ""
    match = re.search(r"\[(\w+)\]", text)
    return match[1] if match else None


def locked_memory_limit(root: Path) -> int | None:
    """Bytes that this process may lock (RLIMIT_MEMLOCK, soft), `None` for no limit or unknown.

    It bounds `mlock` and RDMA registration, not what the CUDA driver pins.
    """
    limits = read_text(root / "proc/self/limits") or ""
    match = re.search(r"^Max locked memory\s+(\d+)", limits, re.MULTILINE)
    return int(match[1]) if match else None


def file_system(root: Path, path: Path) -> FileSystem | None:
    """The file system that holds `path` (or, where that does not exist yet, its nearest parent)."""
    path = path.absolute()
    while not path.exists() and path != path.parent:
        path = path.parent
    path = path.resolve()
    best: tuple[str, str, str] | None = None
    for line in (read_text(root / "proc/self/mounts") or "").splitlines():
        device, mount, kind, *_ = (*line.split(" "), "", "", "")
        mount = re.sub(r"\\([0-7]{3})", lambda octal: chr(int(octal[1], 8)), mount)
        # A later mount on the same point hides the earlier one.
        if mount and path.is_relative_to(mount) and (best is None or len(mount) >= len(best[1])):
            best = device, mount, kind
    if best is None:
        return None
    try:
        space = os.statvfs(path)
    except OSError:
        return FileSystem(best[1], best[2], best[0], None, None)
    free, total = space.f_bavail * space.f_frsize, space.f_blocks * space.f_frsize
    return FileSystem(best[1], best[2], best[0], free, total)


def virtualization(root: Path) -> str | None:
    """Which hypervisor this computer is a guest of, `None` on bare metal or where nothing says.

    The processor's flag tells that there is one; its vendor's name for the machine, which.
    """
    flags = re.search(r"^flags\s*:(.*)$", read_text(root / "proc/cpuinfo") or "", re.MULTILINE)
    kind = read_text(root / "sys/hypervisor/type")
    if kind is None and (flags is None or "hypervisor" not in flags[1].split()):
        return None
    vendor = read_text(root / "sys/class/dmi/id/sys_vendor")
    product = read_text(root / "sys/class/dmi/id/product_name")
    return kind or " ".join(filter(None, (vendor, product))) or "virtual machine"
