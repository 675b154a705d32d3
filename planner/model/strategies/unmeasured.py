"""What a strategy cannot do without and a quick calibration leaves out; how to have it measured."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from planner.machine.made import FULL, is_quick
from planner.machine.schema import Machine

IN_PLACE: Final = "access to host memory in place"
MANAGED_FAULTS: Final = "page faults of managed memory"
PREFETCH: Final = "prefetch of managed memory"
AHEAD: Final = "registration chunk by chunk"
MAPPED_READS: Final = "page faults (curve mmap)"
COMBINED: Final = "copies into write-combined memory"
WITHOUT_PEER: Final = "copies without peer access"

IN_FULL: Final = (
    *(IN_PLACE, MANAGED_FAULTS, PREFETCH),
    *(AHEAD, MAPPED_READS, COMBINED, WITHOUT_PEER),
)
"""What full calibrations alone measure, as the reasons say it (docs/calibration.md)."""
_REAL: Final = (MAPPED_READS, WITHOUT_PEER)
"""Those that are not measured where GPUs are emulated."""


def unmeasured(where: str, what: str) -> str:
    """The reason against a strategy for which the machine lacks a figure."""
    return f"{where} has no measured {what}"


def how_to_measure(machine: Machine, reasons: Iterable[str]) -> str | None:
    """The calibration that would take one of the reasons away; `None` where none would.

    After a full one nothing is left to be measured: then the hardware, or its driver, lacks it.
    """
    told = "\n".join(reasons)
    lacking = [
        what
        for what in IN_FULL
        if unmeasured("", what) in told and not (machine.emulated and what in _REAL)
    ]
    if not lacking or not is_quick(machine):
        return None
    return f"`{FULL}` measures {' and '.join(lacking)}; {machine.name} was calibrated quickly"
