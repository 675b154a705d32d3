"""What CUDA shows to this process, without making a context on any GPU."""

from __future__ import annotations

import ctypes
import os
from collections.abc import Callable
from typing import Any

from planner.engine.backends.cuda_driver import driver
from planner.engine.backends.cuda_library import DriverError
from planner.machine.observation import Cuda


def look() -> Cuda:
    """The driver's library, CuPy, their versions, and how many GPUs they show."""
    visible = os.environ.get("CUDA_VISIBLE_DEVICES")
    try:
        ctypes.CDLL("libcuda.so.1")
    except OSError:
        return Cuda(driver_library=False, visible=visible)
    try:
        import cupy
    except Exception as error:  # noqa: BLE001 - a broken library is what is looked for
        return Cuda(driver_library=True, no_cupy=_told(error), visible=visible)
    runtime = cupy.cuda.runtime
    devices, reason = _ask(runtime.getDeviceCount)
    return Cuda(
        driver_library=True,
        cupy=str(cupy.__version__),
        runtime=_ask(runtime.runtimeGetVersion)[0],
        driver=_ask(runtime.driverGetVersion)[0],
        devices=devices,
        no_devices=reason,
        visible=visible,
    )


def addresses() -> tuple[str, ...]:
    """The PCI address of each device in CUDA's order; none where the driver does not say."""
    try:
        calls = driver()
        return tuple(calls.bus(gpu) for gpu in range(calls.count()))
    except (OSError, DriverError):
        return ()


def _ask(function: Callable[[], Any]) -> tuple[int | None, str | None]:
    """A number, or why there is none."""
    try:
        return int(function()), None
    except Exception as error:  # noqa: BLE001 - likewise
        return None, _told(error)


def _told(error: Exception) -> str:
    """The first line of an error: CuPy writes whole pages."""
    lines = [line.strip() for line in str(error).splitlines() if line.strip(" =\t")]
    return lines[0] if lines else type(error).__name__
