"""Look at this computer and its calibration without changing anything, in a second or two.

Every part is gathered by itself: where one cannot be, the observation says why and has the rest.
"""

from __future__ import annotations

import os
import platform
import time
from collections.abc import Callable, Collection
from importlib.util import find_spec
from pathlib import Path
from typing import Any, Final

from planner.engine.backends import cuda_look
from planner.engine.backends.cuda_storage import DRIVER
from planner.engine.calibrate import scratch_folder
from planner.engine.here import calibrations
from planner.machine import system_now
from planner.machine.discover import discover
from planner.machine.discover_details import read_details
from planner.machine.discover_nics import read_adapters
from planner.machine.observation import Observation, Scratch, Storage, Strain

ROOT: Final = Path("/")
TOPOLOGY: Final = ("about", "details", "adapters", "calibration")
"""The parts that say how a computer is put together."""


def observe(
    parts: Collection[str] | None = None, *, root: Path = ROOT, backend: str = "auto"
) -> Observation:
    """What is seen now.

    Parameters
    ----------
    parts
        Names of attributes of `Observation` to look at; all where it is `None`.
    root
        Where `/proc` and `/sys` lie.
    backend
        Whose calibration counts.
    """
    gather: dict[str, Callable[[], Any]] = {
        "about": lambda: discover(scratch_folder(None), root=root),
        "details": read_details,
        "cuda": cuda_look.look,
        "adapters": lambda: read_adapters(root),
        "scratch": _scratch,
        "strain": lambda: _strain(root),
        "iommu": lambda: system_now.iommu_groups(root),
        "cards": lambda: system_now.nvidia_cards(root),
        "storage": _storage,
        "calibration": lambda: calibrations(backend),
    }
    seen: dict[str, Any] = {}
    unknown: dict[str, str] = {}
    for name, look in gather.items():
        if parts is not None and name not in parts:
            continue
        try:
            seen[name] = look()
        except Exception as error:  # noqa: BLE001 - one part that cannot be seen hides no other
            unknown[name] = f"{type(error).__name__}: {error}".split("\n", 1)[0]
    if "calibration" in seen:
        seen["calibration"], seen["others"] = seen["calibration"]
    return Observation(
        name="here", host=platform.node(), now_s=time.time(), unknown=unknown, **seen
    )


def _scratch() -> Scratch:
    folder = scratch_folder(None)
    return Scratch(
        str(folder),
        exists=folder.is_dir(),
        writable=os.access(folder, os.W_OK | os.X_OK),
    )


def _strain(root: Path) -> Strain:
    swap = system_now.swap(root)
    return Strain(
        swap_bytes=swap[0] if swap else None,
        swap_used_bytes=swap[1] if swap else None,
        pressure=system_now.memory_pressure(root),
        online_cpus=system_now.online_cpus(root),
        allowed_cpus=system_now.permitted_cpus(root),
        memory_nodes=system_now.memory_nodes(root),
    )


def _storage() -> Storage:
    return Storage(module=DRIVER.exists(), kvikio=find_spec("kvikio") is not None)
