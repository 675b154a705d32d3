"""Where and how a run was measured, and what its devices lack."""

from __future__ import annotations

import platform
import sys
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Final

from planner.engine.backends import Backend
from planner.engine.backends.base import Name
from planner.engine.strategies import NAMES
from planner.machine.schema import Hbm, Machine
from planner.results import Environment

_ACROSS: Final[Mapping[str, tuple[tuple[str, str], ...]]] = {
    "mmap": (("disk", "ram"),),
    "gds": (("disk", "hbm"),),
    "peer": (("hbm", "hbm"),),
    "prefetch": (("ram", "hbm"), ("hbm", "ram")),
}
"""Kinds of places that a strategy crosses where they are not host memory and a GPU. The way out is
asked for apart where a device may do the other way only."""


def environment(
    name: Name, machine: Machine, device: Backend | None, command: str | None
) -> Environment:
    """The record of the place; `device` is `None` for a virtual clock."""
    about = device.describe(_indices(machine)) if device is not None else None
    dates = [source.when for source in machine.sources.values() if source.kind == "measured"]
    return Environment(
        backend=name,
        emulated=device is None or device.emulated,
        machine=machine.name,
        host=platform.node(),
        kernel=platform.release(),
        python=sys.version.split()[0],
        date=datetime.now(tz=UTC).isoformat(timespec="seconds"),
        gpus=about.gpus if about else (),
        driver=machine.hardware.get("driver") or (about.driver if about else None),
        libraries=about.libraries if about else {},
        command=command,
        calibrated=max(dates, default=None),
    )


def waived(device: Backend, machine: Machine) -> tuple[str, ...]:
    """Strategies that the engine can do and these devices cannot, each with the reason."""
    gpus = _indices(machine)
    found = []
    for name in sorted(NAMES):
        for across in _ACROSS.get(name, (("ram", "hbm"),)):
            reason = device.lacks(name, across, gpus)
            if reason is not None:
                found.append(f"{name}: {reason}")
                break
    return tuple(found)


def _indices(machine: Machine) -> list[int]:
    return [node.device for node in machine.nodes.values() if isinstance(node, Hbm)]
