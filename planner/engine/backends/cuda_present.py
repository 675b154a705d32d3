"""What of CUDA is there: the driver, its devices, CuPy; none of it is started or imported."""

from __future__ import annotations

from importlib.util import find_spec
from typing import Final

from planner.engine.backends.cuda_driver import driver
from planner.engine.backends.cuda_library import NOT_INITIALIZED, DriverError

_CUPY: Final = ("cupy-cuda12x", "cupy-cuda13x", "cupy")
"""The distributions that CuPy comes in."""
_ABSENT: Final = "cannot open shared object file"
"""What the loader says of a library that it does not find; of a broken one it says more."""


def missing(*, kernels: bool = True) -> str | None:
    """What this computer lacks for the backend, or `None`; without `kernels` copies are enough.

    Kernels take CuPy. It is looked for without importing it, which takes up to most of a second:
    one that is there but broken is told where a kernel is made, and by `planner doctor`.
    """
    try:
        count = driver().count()
    except OSError as error:
        if _ABSENT in str(error):
            return "the NVIDIA driver's library libcuda.so.1 is not installed"
        return f"the NVIDIA driver's library cannot be loaded: {error}"
    except DriverError as error:
        count, reason = 0, f"the driver shows no device: {error}"
        if error.status == NOT_INITIALIZED:  # though it was, or the library would not be open
            reason = "the process was forked from one that uses the driver; start it by spawn"
    else:
        reason = "the driver shows no device"
    if kernels and not _has_cupy():
        return "CuPy is not installed; install the extra cuda12 or cuda13"
    return None if count else reason


def _has_cupy() -> bool:
    try:
        return find_spec("cupy") is not None
    except ValueError:  # a module that was put in its place by hand
        return True


def cupy_version() -> dict[str, str]:
    """CuPy's version by its name, as its distribution tells it; nothing where none does."""
    from importlib.metadata import PackageNotFoundError, version

    for name in _CUPY:
        try:
            return {"cupy": version(name)}
        except PackageNotFoundError:
            continue
    return {}
