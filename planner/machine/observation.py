"""What was seen of a computer and of its calibration: plain facts, for rules that are pure."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from planner.machine.discover import Discovery
from planner.machine.discover_details import GpuDetails
from planner.machine.discover_nics import Adapter
from planner.machine.schema import Machine


@dataclass(frozen=True, slots=True)
class Calibration:
    """A machine that was measured, and when: seconds since 1970."""

    machine: Machine
    at_s: float


@dataclass(frozen=True, slots=True)
class Cuda:
    """What CUDA shows to this process. Versions are 1000 x major + 10 x minor.

    Attributes
    ----------
    driver_library
        Whether the driver's library is installed.
    cupy, no_cupy
        The version of CuPy, or why it cannot be imported.
    runtime, driver
        The CUDA version of the runtime that CuPy brings, and the newest that the driver supports.
    devices, no_devices
        How many GPUs it shows, or why it cannot say.
    visible
        `CUDA_VISIBLE_DEVICES` where it is set.

    """

    driver_library: bool
    cupy: str | None = None
    no_cupy: str | None = None
    runtime: int | None = None
    driver: int | None = None
    devices: int | None = None
    no_devices: str | None = None
    visible: str | None = None


@dataclass(frozen=True, slots=True)
class Scratch:
    """The folder of scratch files."""

    folder: str
    exists: bool = True
    writable: bool = True


@dataclass(frozen=True, slots=True)
class Strain:
    """Memory and processors now, and what this process may use of them.

    Attributes
    ----------
    swap_bytes, swap_used_bytes
        Swap space, and what is used of it.
    pressure
        Share of the last minute in which something waited for memory.
    online_cpus, allowed_cpus
        Processors of the computer, and those that this process may run on.
    memory_nodes
        NUMA nodes that it may take memory from.

    """

    swap_bytes: int | None = None
    swap_used_bytes: int | None = None
    pressure: float | None = None
    online_cpus: int | None = None
    allowed_cpus: int | None = None
    memory_nodes: tuple[int, ...] | None = None


@dataclass(frozen=True, slots=True)
class Storage:
    """Whether GPUs could read files directly: the kernel's module, and the library."""

    module: bool
    kvikio: bool


@dataclass(frozen=True)
class Observation:
    """A computer at one moment; `None` where something was not looked at, or could not be.

    Attributes
    ----------
    name, host, now_s
        What it is called (`here`, or the machine's name), where it was seen, and when.
    computer
        Whether a computer was looked at, rather than a machine file alone.
    about, details, cuda, adapters, scratch, strain, iommu, cards, storage
        What the system and the driver show; `iommu` counts the groups of devices, `cards` the
        NVIDIA GPUs on the PCI bus.
    calibration, others
        The calibration that holds here, and those of this computer as it was before.
    unknown
        By the name of an attribute: why there is nothing.

    """

    name: str
    host: str
    now_s: float
    computer: bool = True
    about: Discovery | None = None
    details: GpuDetails | None = None
    cuda: Cuda | None = None
    adapters: tuple[Adapter, ...] | None = None
    scratch: Scratch | None = None
    strain: Strain | None = None
    iommu: int | None = None
    cards: int | None = None
    storage: Storage | None = None
    calibration: Calibration | None = None
    others: tuple[Calibration, ...] = ()
    unknown: Mapping[str, str] = field(default_factory=dict)
