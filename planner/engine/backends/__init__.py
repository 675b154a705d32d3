"""Which backend moves the bytes: `cuda` on real GPUs, `host` with emulated ones.

`null`, which moves nothing, is no `Backend`: it plays the workers on a virtual clock.
"""

from __future__ import annotations

from planner.engine.backends.base import Backend
from planner.errors import InputError


def open_backend(name: str) -> Backend:
    """The backend of that name; `auto` takes `cuda` where a device is, else `host`.

    Raises
    ------
    InputError
        If there is no such backend.
    UnavailableError
        If `cuda` is asked for by name and its library or a device is missing.

    """
    from planner.engine.backends.host import HostBackend

    if name == "host":
        return HostBackend()
    from planner.engine.backends.cuda import CudaBackend
    from planner.engine.backends.cuda_present import missing

    if name == "cuda":
        return CudaBackend()
    if name == "auto":
        return HostBackend() if missing() is not None else CudaBackend()
    raise InputError(f"there is no backend {name}", hint="take auto, cuda or host")


__all__ = ["Backend", "open_backend"]
