"""The device that a program names, and its backend, opened while the first reads go on."""

from __future__ import annotations

import re
from threading import Thread
from typing import Any, Final, Literal

from planner.engine.backends.base import Backend
from planner.errors import InputError, UnavailableError

Name = Literal["cuda", "host"]
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
    """The backend, with the device's context; on CUDA the driver makes it beside CuPy's import.

    Raises `UnavailableError` where the device or a library is missing.
    """
    if name == "host":
        from planner.engine.backends.host import HostBackend

        return HostBackend()
    from planner.engine.backends.cuda_context import hold_context

    held: list[Any] = []

    def hold() -> None:
        try:
            held.append(hold_context(gpu))
        except BaseException as error:  # noqa: BLE001 - handed to the thread that waits
            held.append(error)

    thread = Thread(target=hold, name="planner context", daemon=True)
    thread.start()
    backend = None
    try:
        from planner.engine.backends.cuda import CudaBackend

        backend = CudaBackend()
    except UnavailableError:
        thread.join()
        if not isinstance(held[0], BaseException):
            held[0]()
            raise
    thread.join()
    let_go = held[0]
    if backend is None or isinstance(let_go, BaseException):
        if backend is not None:
            backend.close()
        raise let_go
    backend.attach(gpu)  # now the runtime holds the context, too
    let_go()
    return backend
