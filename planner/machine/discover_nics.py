"""The network adapters of this computer, as sysfs shows them."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from planner.machine.system import read_text


@dataclass(frozen=True, slots=True)
class Adapter:
    """One adapter: its interface, the rate of its wire in bytes/s, its RDMA device, its NUMA node.

    Unknown values are `None`; virtual adapters know no rate.
    """

    interface: str
    rate: float | None = None
    rdma: str | None = None
    numa: int | None = None


def read_adapters(root: Path) -> tuple[Adapter, ...]:
    """Every adapter that is a device (bridges and tunnels are none) and is not down, by name."""
    folder = root / "sys/class/net"
    if not folder.is_dir():
        return ()
    rdma = _rdma(root)
    found = []
    for entry in sorted(folder.iterdir()):
        if not (entry / "device").exists() or read_text(entry / "operstate") == "down":
            continue
        speed = read_text(entry / "speed")  # Mb/s; -1 where nobody knows
        numa = read_text(entry / "device" / "numa_node")
        found.append(
            Adapter(
                entry.name,
                rate=int(speed) * 1e6 / 8 if speed and speed.isdecimal() else None,
                rdma=rdma.get(entry.name),
                numa=int(numa) if numa and numa.isdecimal() else None,
            )
        )
    return tuple(found)


def _rdma(root: Path) -> dict[str, str]:
    """RDMA devices by the interface that they belong to."""
    folder = root / "sys/class/infiniband"
    if not folder.is_dir():
        return {}
    return {
        interface.name: device.name
        for device in sorted(folder.iterdir())
        if (device / "device" / "net").is_dir()
        for interface in (device / "device" / "net").iterdir()
    }
