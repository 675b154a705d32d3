"""The CUDA context made by the driver alone, so that other threads go on reading meanwhile.

CuPy holds the interpreter's lock while it makes a context, for a third of a second; a call through
ctypes lets it go. The context is the device's primary one, which CuPy then finds ready.
"""

from __future__ import annotations

import ctypes
import os
from collections.abc import Callable

from planner.errors import UnavailableError


def hold_context(gpu: int) -> Callable[[], None]:
    """Make the primary context of a device and keep it until the returned function is called.

    Raises `UnavailableError` where the driver or the device is missing, with the driver's code.
    """
    # Read when the first context is made: see `cuda.CudaBackend`.
    os.environ.setdefault("CUDA_DEVICE_MAX_CONNECTIONS", "32")
    try:
        driver = ctypes.CDLL("libcuda.so.1")
    except OSError as error:
        raise UnavailableError(
            "the NVIDIA driver's library libcuda.so.1 is not installed",
            hint='load to host memory with device="cpu"',
        ) from error
    device, context = ctypes.c_int(), ctypes.c_void_p()
    _check(driver.cuInit(0), "there is no CUDA device")
    _check(driver.cuDeviceGet(ctypes.byref(device), gpu), f"there is no device cuda:{gpu}")
    _check(
        driver.cuDevicePrimaryCtxRetain(ctypes.byref(context), device),
        f"cuda:{gpu} gives no context",
    )

    def let_go() -> None:
        driver.cuDevicePrimaryCtxRelease_v2(device)

    return let_go


def _check(code: int, what: str) -> None:
    if code:
        raise UnavailableError(
            f"{what} (the driver says CUresult {code})",
            hint='look at nvidia-smi, or load to host memory with device="cpu"',
        )
