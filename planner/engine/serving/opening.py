"""The device that a program names, and its backend, opened while the first reads go on."""

from __future__ import annotations

import re
from typing import Final, Literal

from planner.engine.backends.base import Backend
from planner.errors import InputError, UnavailableError

Name = Literal["cuda", "host"]
_ON_HOST: Final = 'load to host memory with device="cpu", or see what nvidia-smi shows'
_DEVICE: Final = re.compile(r"cuda(?::(\d+))?")


def device_index(device: object) -> int | None:
    """The driver's index in `cuda:1` or `1`; `None` for host memory (`cpu` or `None`).

    >>> device_index("cuda:1"), device_index("cuda"), device_index("cpu")
    (1, 0, None)
    """
    if device is None or str(device) == "cpu":  # a torch.device reads like its name
        return None
    if isinstance(device, int) and not isinstance(device, bool) and device >= 0:
        return device
    match = _DEVICE.fullmatch(str(device))
    if match is None:
        raise InputError(f"there is no device {device!r}", hint='write "cuda:0", 0, or "cpu"')
    return int(match[1] or 0)


def open_for(name: Name, gpu: int) -> Backend:
    """The backend, with the device's context; other threads go on while the driver makes it.

    Only copies are asked of it: there need be no CuPy.

    Raises `UnavailableError` where the device or a library is missing.
    """
    if name == "host":
        from planner.engine.backends.host import HostBackend

        return HostBackend()
    from planner.engine.backends.cuda import CudaBackend

    try:
        backend = CudaBackend(kernels=False)
        backend.attach(gpu)
    except UnavailableError as error:
        raise UnavailableError(error.message, hint=_ON_HOST) from error
    return backend
