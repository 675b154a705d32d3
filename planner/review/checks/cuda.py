"""CUDA and the GPUs themselves: libraries, versions, memory that is taken, errors, slowdowns."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from planner.machine.discover_health import Health
from planner.machine.observation import Cuda, Observation
from planner.results.doctor import Finding
from planner.review.checks.base import (
    CannotTellError,
    NothingThereError,
    details_of,
    found,
    need,
    require_gpus,
)
from planner.units import format_share, format_size

TAKEN: Final = 0.5
"""Share of a GPU's memory from which on it is mostly somebody else's."""
FULL: Final = 0.9
REPLAYS: Final = 1000
"""Packets sent again on PCIe since the driver was loaded; a few come with every link training."""


def cuda(seen: Observation) -> Iterator[Finding]:
    """The driver's library, CuPy, a device, and versions that go together."""
    look: Cuda = need(seen, "cuda")
    gpus = len(seen.about.gpus) if seen.about is not None else 0
    if not look.driver_library:
        if gpus:
            yield found(
                "problem",
                "driver",
                f"the driver shows {gpus} GPUs, but its library libcuda.so.1 is not there",
                why="nothing can use them: execute and calibrate emulate the GPU",
                mend="install the driver's compute libraries; of a container: "
                "NVIDIA_DRIVER_CAPABILITIES=compute,utility",
            )
            return
        if seen.cards:
            yield found(
                "warning",
                "driver",
                f"NVIDIA GPUs lie on the PCI bus ({seen.cards}), but no driver is here",
                why="nothing can use them: execute and calibrate emulate the GPU",
                mend="install the NVIDIA driver; of a container: --gpus all, or the device plugin",
            )
            return
        raise NothingThereError
    if look.no_cupy is not None:
        yield found(
            "problem",
            "CuPy",
            f"an NVIDIA driver is there, but CuPy cannot be imported: {look.no_cupy}",
            why="where it is missing execute and calibrate emulate the GPU in RAM; they refuse "
            "what needs a kernel where it is broken (planner.load needs no CuPy)",
            mend="pip install 'planner[cuda12]' or [cuda13]",
        )
        return
    yield from _devices(look, gpus)
    yield from _versions(look)


def _devices(look: Cuda, gpus: int) -> Iterator[Finding]:
    visible = f"; CUDA_VISIBLE_DEVICES is {look.visible!r}" if look.visible is not None else ""
    if not look.devices:
        why = f" ({look.no_devices})" if look.no_devices else ""
        yield found(
            "problem",
            "driver",
            f"CUDA shows no GPU{why}{visible}",
            why="execute and calibrate emulate the GPU in RAM",
            mend="look at nvidia-smi, at --gpus all of the container, and that driver and kernel "
            "module are of one version",
        )
    elif look.devices < gpus:
        yield found(
            "warning",
            "driver",
            f"CUDA shows {look.devices} of {gpus} GPUs{visible}",
            why="devices are numbered anew: gpu0 here may be another one for other tools, and "
            "NVLinks and NUMA nodes are told by the driver's numbers",
            mend="unset CUDA_VISIBLE_DEVICES, or give the container those GPUs alone",
        )


def _versions(look: Cuda) -> Iterator[Finding]:
    """A runtime of a newer major version does not start; of a newer minor one it mostly does."""
    runtime, driver = look.runtime, look.driver
    if runtime is None or driver is None or runtime <= driver:
        return
    newer = runtime // 1000 > driver // 1000
    yield found(
        "problem" if newer else "note",
        "CUDA versions",
        f"CuPy brings CUDA {_version(runtime)}, the driver supports up to {_version(driver)}",
        why="the driver refuses it"
        if newer
        else "it runs (minor versions are compatible); kernels compiled at run time may be refused",
        mend="a newer driver, or the CuPy of the driver's version (extra cuda12 or cuda13)",
    )


def _version(number: int) -> str:
    """`12.9` of 12090."""
    return f"{number // 1000}.{number % 1000 // 10}"


def gpu_memory(seen: Observation) -> Iterator[Finding]:
    """GPUs whose memory is mostly taken by others."""
    for health in _healths(seen):
        used, total = health.used_bytes, health.memory_bytes
        if used is None or not total:
            raise CannotTellError(f"the driver does not say what is used of gpu{health.index}")
        if used < TAKEN * total:
            continue
        by = f" by {health.processes} processes" if health.processes else ""
        yield found(
            "problem" if used >= FULL * total else "warning",
            f"gpu{health.index}",
            f"{format_share(used / total)} of its memory is taken{by}; "
            f"{format_size(total - used)} are free",
            why="what does not fit is refused, and links and engines are shared with that work",
            mend="nvidia-smi names the processes; end them, or take another GPU",
        )


def gpu_health(seen: Observation) -> Iterator[Finding]:
    """Errors of a GPU's memory or link, and clocks that are held down."""
    healths = _healths(seen)
    cold = [f"gpu{health.index}" for health in healths if health.persistent is False]
    if cold:
        yield found(
            "note",
            ", ".join(cold),
            "persistence mode is off",
            why="the driver gives up its state when the last process ends: the next one waits "
            "seconds for its first context",
            mend="nvidia-smi -pm 1, or the service nvidia-persistenced",
        )
    for health in healths:
        about = f"gpu{health.index}"
        yield from _errors(health, about)
        if health.slowed:
            yield found(
                "warning",
                about,
                f"its clocks are held down: {', '.join(health.slowed)}",
                why="kernels that read host memory and copies inside the GPU are slower; copy "
                "engines mostly are not",
                mend="look at cooling and power (nvidia-smi -q -d PERFORMANCE)",
            )
        if health.replays is not None and health.replays > REPLAYS:
            yield found(
                "warning",
                about,
                f"{health.replays} packets on its PCIe link were sent again",
                why="a poor connection: every one waits, and the rate falls",
                mend="reseat the card, look at riser and cable; dmesg shows AER errors",
            )
        if health.uncorrected is None and health.remapped is None and health.slowed is None:
            raise CannotTellError(f"the driver tells nothing of the health of {about}")


def _errors(health: Health, about: str) -> Iterator[Finding]:
    """What its memory has suffered."""
    seen = [
        *(["a row of its memory could not be replaced"] if health.failed else []),
        *(["a faulty row waits for a reset to be replaced"] if health.pending else []),
        *([f"{health.uncorrected} memory errors were not mended"] if health.uncorrected else []),
    ]
    if seen:
        yield found(
            "problem",
            about,
            "; ".join(seen),
            why="bytes that rest there may be wrong, and programs may be ended",
            mend="drain and reset the GPU; where it returns, have it replaced",
        )
    elif health.remapped:
        yield found(
            "note",
            about,
            f"{health.remapped} rows of its memory were replaced after errors",
            why="they are mended; more of them tell of a GPU that ages",
            mend="keep an eye on it",
        )


def _healths(seen: Observation) -> tuple[Health, ...]:
    """The state of every GPU; none where there is none."""
    require_gpus(seen)
    return details_of(seen).health
