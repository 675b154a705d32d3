"""How each GPU is, as the driver's management library tells it: memory taken, errors, slowdowns."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final

_UNCORRECTED: Final = 1
"""NVML_MEMORY_ERROR_TYPE_UNCORRECTED."""
_VOLATILE: Final = 0
"""NVML_VOLATILE_ECC: since the driver was loaded."""

_SLOWED: Final = {
    0x08: "hardware slowdown",
    0x20: "too hot (software)",
    0x40: "too hot (hardware)",
    0x80: "power brake",
}
"""nvmlClocksEventReasons that slow a GPU down for its health. A power cap under load is none."""


@dataclass(frozen=True, slots=True)
class Health:
    """The state of one GPU now; `None` where the driver does not say.

    Attributes
    ----------
    memory_bytes, used_bytes
        What it has, and what is taken by anybody (the driver's own part counts).
    processes
        How many processes compute on it.
    uncorrected
        Memory errors that could not be mended, since the driver was loaded.
    remapped, pending, failed
        Rows of memory that were replaced after such errors; whether a replacement waits for a
        reset, and whether one has failed.
    slowed
        What holds its clocks down.
    replays
        Packets on PCIe that were sent again.
    persistent
        Whether the driver keeps its state while nobody uses the GPU.

    """

    index: int
    memory_bytes: int | None = None
    used_bytes: int | None = None
    processes: int | None = None
    uncorrected: int | None = None
    remapped: int | None = None
    pending: bool | None = None
    failed: bool | None = None
    slowed: tuple[str, ...] | None = None
    replays: int | None = None
    persistent: bool | None = None


def health_of(ask: Callable[..., Any], handle: Any, index: int) -> Health:
    """How a GPU is; `ask` calls a function of the library, `None` where that is not supported."""
    memory = ask("nvmlDeviceGetMemoryInfo", handle)
    processes = ask("nvmlDeviceGetComputeRunningProcesses", handle)
    rows = ask("nvmlDeviceGetRemappedRows", handle)
    pages = ask("nvmlDeviceGetRetiredPagesPendingStatus", handle)
    reasons = ask("nvmlDeviceGetCurrentClocksEventReasons", handle)
    if reasons is None:  # the name of older bindings
        reasons = ask("nvmlDeviceGetCurrentClocksThrottleReasons", handle)
    kept = ask("nvmlDeviceGetPersistenceMode", handle)
    waits = [bool(flag) for flag in (rows[2] if rows else None, pages) if flag is not None]
    return Health(
        index=index,
        memory_bytes=None if memory is None else int(memory.total),
        used_bytes=None if memory is None else int(memory.used),
        processes=None if processes is None else len(processes),
        uncorrected=ask("nvmlDeviceGetTotalEccErrors", handle, _UNCORRECTED, _VOLATILE),
        remapped=int(rows[1]) if rows else None,
        pending=any(waits) if waits else None,
        failed=bool(rows[3]) if rows else None,
        slowed=None if reasons is None else tuple(w for b, w in _SLOWED.items() if reasons & b),
        replays=ask("nvmlDeviceGetPcieReplayCounter", handle),
        persistent=None if kept is None else bool(kept),
    )
