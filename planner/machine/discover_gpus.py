"""Which GPUs the driver shows, without starting CUDA: no context, no memory taken."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import Any, TypeVar

from planner.machine.system import read_text

_Found = TypeVar("_Found")


@dataclass(frozen=True, slots=True)
class Gpu:
    """One GPU as the driver's management library describes it.

    `generation` and `width` are those of the PCIe link now, which an idle GPU lowers to save
    power; `max_generation` and `max_width` are what the slot and the GPU can do together. `bus`
    is the PCI address, `numa` the NUMA node beside it. Unknown values are `None`.
    """

    index: int
    name: str
    uuid: str
    memory_bytes: int
    bus: str | None = None
    numa: int | None = None
    generation: int | None = None
    width: int | None = None
    max_generation: int | None = None
    max_width: int | None = None


@dataclass(frozen=True, slots=True)
class Gpus:
    """The GPUs with the driver's version; where there are none, `reason` says why."""

    gpus: tuple[Gpu, ...] = ()
    driver: str | None = None
    reason: str | None = None


def load_nvml() -> Any:
    """The module of the management library's binding; raises `ImportError` without it."""
    return import_module("pynvml")


def asked(
    nvml: Callable[[], Any], read: Callable[[Any], _Found], without: Callable[[str], _Found]
) -> _Found:
    """What `read` finds in the library, opened for it; `without` a reason where it cannot look."""
    try:
        library = nvml()
    except ImportError as error:
        return without(f"the package nvidia-ml-py cannot be imported: {error}")
    try:
        library.nvmlInit()
    except library.NVMLError as error:
        return without(f"the NVIDIA driver does not answer: {error}")
    try:
        return read(library)
    except library.NVMLError as error:
        return without(f"the NVIDIA driver failed while it was asked: {error}")
    finally:
        library.nvmlShutdown()


def read_gpus(root: Path, nvml: Callable[[], Any] = load_nvml) -> Gpus:
    """What the driver shows, or none and the reason."""

    def read(library: Any) -> Gpus:
        driver = _text(library.nvmlSystemGetDriverVersion())
        count = library.nvmlDeviceGetCount()
        gpus = tuple(_read(library, root, index) for index in range(count))
        return Gpus(gpus, driver, None if gpus else "the NVIDIA driver shows no GPU")

    return asked(nvml, read, lambda reason: Gpus(reason=reason))


def _read(library: Any, root: Path, index: int) -> Gpu:
    handle = library.nvmlDeviceGetHandleByIndex(index)

    def ask(name: str) -> Any:
        """What a function of the library says of this GPU, `None` where it is not supported."""
        try:
            return getattr(library, f"nvmlDeviceGet{name}")(handle)
        except library.NVMLError:
            return None

    pci = ask("PciInfo")
    bus = _text(pci.busId).lower() if pci is not None else None
    return Gpu(
        index=index,
        name=_text(library.nvmlDeviceGetName(handle)),
        uuid=_text(library.nvmlDeviceGetUUID(handle)),
        memory_bytes=int(library.nvmlDeviceGetMemoryInfo(handle).total),
        bus=bus,
        numa=numa_of(root, bus),
        generation=ask("CurrPcieLinkGeneration"),
        width=ask("CurrPcieLinkWidth"),
        max_generation=ask("MaxPcieLinkGeneration"),
        max_width=ask("MaxPcieLinkWidth"),
    )


def numa_of(root: Path, bus: str | None) -> int | None:
    """The NUMA node of a PCI address; the kernel says -1 where it does not know."""
    if bus is None:
        return None
    domain, _, rest = bus.partition(":")
    # The library writes the domain with eight digits, sysfs with four.
    text = read_text(root / f"sys/bus/pci/devices/{domain[-4:]}:{rest}/numa_node")
    return int(text) if text is not None and text.isdecimal() else None


def _text(value: str | bytes) -> str:
    """Older versions of the binding give bytes."""
    return value.decode() if isinstance(value, bytes) else value
