"""What Linux says of this computer at this moment: swap, pressure, permitted CPUs and memory.

As in `system`, every function takes the `root` of `/proc` and `/sys`, and `None` is unknown.
"""

from __future__ import annotations

import re
from pathlib import Path

from planner.machine.system import allowed_cpus, cpu_list, read_text


def swap(root: Path) -> tuple[int, int] | None:
    """Bytes of swap space, and of it in use."""
    info = read_text(root / "proc/meminfo") or ""
    found = dict(re.findall(r"^(Swap(?:Total|Free)):\s*(\d+) kB", info, re.MULTILINE))
    if len(found) < 2:
        return None
    total, free = (int(found[key]) * 1024 for key in ("SwapTotal", "SwapFree"))
    return total, total - free


def memory_pressure(root: Path) -> float | None:
    """Share of the last minute in which something waited for memory (`some avg60`)."""
    text = read_text(root / "proc/pressure/memory") or ""
    match = re.search(r"^some .*?avg60=([\d.]+)", text, re.MULTILINE)
    return float(match[1]) / 100 if match else None


def online_cpus(root: Path) -> int | None:
    """How many processors the computer runs."""
    text = read_text(root / "sys/devices/system/cpu/online")
    return len(cpu_list(text)) if text else None


def permitted_cpus(root: Path) -> int | None:
    """How many of them this process may run on."""
    return len(allowed_cpus(root)) or None


def memory_nodes(root: Path) -> tuple[int, ...] | None:
    """The NUMA nodes that this process may take memory from."""
    status = read_text(root / "proc/self/status") or ""
    match = re.search(r"^Mems_allowed_list:\s*(\S+)", status, re.MULTILINE)
    return cpu_list(match[1]) if match else None


def nvidia_cards(root: Path) -> int:
    """How many NVIDIA GPUs lie on the PCI bus, with or without a driver.

    In a container it counts those of the host, whether they are passed or not.
    """
    found = 0
    for device in (root / "sys/bus/pci/devices").glob("*"):
        is_gpu = (read_text(device / "class") or "").startswith(("0x0300", "0x0302"))
        found += is_gpu and read_text(device / "vendor") == "0x10de"
    return found


def iommu_groups(root: Path) -> int:
    """How many groups of devices the IOMMU keeps apart; 0 where it is off or hidden."""
    folder = root / "sys/kernel/iommu_groups"
    try:
        return sum(1 for _ in folder.iterdir())
    except OSError:
        return 0
