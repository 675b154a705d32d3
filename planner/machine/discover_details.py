"""What the driver's management library tells beside which GPUs there are: no context is made."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from planner.machine.discover_gpus import asked, load_nvml
from planner.machine.discover_health import Health, health_of
from planner.machine.discover_pairs import GpuPair, NvLinks, links_of, pairs_of


@dataclass(frozen=True, slots=True)
class GpuDetails:
    """The GPUs' NVLinks, how every two are joined, and how each is, in the driver's order.

    `cuda` is the newest CUDA that the driver supports, as 1000 x major + 10 x minor. `reason` says
    why there is nothing, where there is nothing.
    """

    links: tuple[NvLinks | None, ...] = ()
    pairs: tuple[GpuPair, ...] = ()
    health: tuple[Health, ...] = ()
    cuda: int | None = None
    reason: str | None = None

    def pair(self, one: int, other: int) -> GpuPair | None:
        """What is known of two GPUs, in either order."""
        wanted = {one, other}
        return next((p for p in self.pairs if {p.first, p.second} == wanted), None)


def read_details(nvml: Callable[[], Any] = load_nvml) -> GpuDetails:
    """What the driver says, or the reason why it says nothing."""
    return asked(nvml, _read, lambda reason: GpuDetails(reason=reason))


def _read(library: Any) -> GpuDetails:
    def ask(name: str, *arguments: Any) -> Any:
        """What a function of the library says; `None` where it has none, or it is refused."""
        try:
            return getattr(library, name)(*arguments)
        except (AttributeError, library.NVMLError):
            return None

    handles = [
        library.nvmlDeviceGetHandleByIndex(index) for index in range(library.nvmlDeviceGetCount())
    ]
    buses = [_bus(ask("nvmlDeviceGetPciInfo", handle)) for handle in handles]
    links = tuple(links_of(library, ask, handle) for handle in handles)
    return GpuDetails(
        links=links,
        pairs=pairs_of(ask, handles, buses, links),
        health=tuple(health_of(ask, handle, k) for k, handle in enumerate(handles)),
        cuda=ask("nvmlSystemGetCudaDriverVersion_v2"),
    )


def _bus(pci: Any) -> str | None:
    bus = getattr(pci, "busId", None)
    if isinstance(bus, bytes):
        bus = bus.decode(errors="replace")
    return bus.lower() if bus else None
