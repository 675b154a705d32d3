"""`planner.load` and `planner.transfer`: one call each, on a pool that stays until the end.

>>> import planner
>>> weights = planner.load("model.safetensors", "cuda:0")               # doctest: +SKIP
>>> torch.from_dlpack(weights["lm_head.weight"])                       # doctest: +SKIP
>>> print(weights.report)                                              # doctest: +SKIP
14 GB in 283.0 ms; moved in 274.5 ms, 51 GB/s (predicted 272.0 ms, 1.01×)
"""

from __future__ import annotations

import atexit
import os
from collections.abc import Iterable
from threading import Lock
from typing import TYPE_CHECKING, Any

from planner.engine.serving.loader import Loader

if TYPE_CHECKING:
    from planner.engine.progress import Progress
    from planner.engine.serving.ends import Cache
    from planner.engine.serving.future import TransferFuture
    from planner.engine.serving.tensors import TensorMap
    from planner.machine.schema import Machine

_guard = Lock()
_default: Loader | None = None
_parents: list[Loader] = []
"""In a forked process: its parent's pool, kept so that nothing frees what the parent owns."""


def _loader() -> Loader:
    """The pool behind the functions here, made when it is first used."""
    global _default  # noqa: PLW0603 - one pool for the process, like the driver's context
    with _guard:
        if _default is None:
            _default = Loader()
        return _default


def _start_anew() -> None:
    """Forget the parent's pool in a forked process: its threads stayed behind."""
    global _guard, _default  # noqa: PLW0603 - as above
    _guard = Lock()  # somebody may have held it
    if _default is not None:
        _parents.append(_default)
        _default = None


os.register_at_fork(after_in_child=_start_anew)


def load(  # noqa: PLR0913 - choices by name
    path: Any,
    device: str | int | None = "cuda:0",
    *,
    machine: Machine | str | None = None,
    budget: int | str | None = None,
    cores: int | None = None,
    cache: Cache = "auto",
    tensors: Iterable[str] | None = None,
    progress: Progress | None = None,
) -> TensorMap:
    """Load safetensors files into a GPU's memory and return their tensors by name.

    `.report` of the mapping holds predicted beside measured.

    Each file becomes one piece of memory; tensors are views of it, made when asked for, that other
    libraries take by DLPack without a copy. It is freed when the mapping and the last view are
    gone. When the call returns, all bytes are there.

    Parameters
    ----------
    path
        A file, a glob, a folder or the index of one, or a list of them.
    device
        `cuda:0`, 0, or a `torch.device`; `cpu` or `None` for host memory.
    machine
        What the transfer is planned for: a `Machine`, the name or file of one; else the kept
        calibration of this computer; else a safe shape and no prediction. Nothing is measured.
    budget
        Most pinned memory, in bytes or like `256MiB`; 30 % of the free memory unless given.
    cores
        Most cores that bring the bytes; all that the process may use unless given. With four or
        fewer, whole files that are cached are registered in pieces and copied from where they lie,
        which one core can do and a second one helps with; what was registered is given back when
        the call has returned.
    cache
        `warm` reads through the page cache, `cold` around it, `auto` each chunk as it is cached.
    tensors
        Names of the tensors to load; all unless given.
    progress
        Told how far it is, at most four times a second.

    Raises
    ------
    InputError
        A file is missing, truncated, or its header says what cannot be.
    InfeasibleError
        It does not fit into the device's memory, or no ring fits into the budget.
    UnavailableError
        There is no such device, or no driver of it.
    ExecutionError
        It began and failed.

    """
    choices: dict[str, Any] = {"machine": machine, "budget": budget, "cores": cores}
    choices |= {"cache": cache, "tensors": tensors}
    return _loader().load(path, device, progress=progress, **choices)


def transfer(
    source: Any,
    destination: Any = None,
    *,
    stream: Any = None,
    machine: Machine | str | None = None,
    budget: int | str | None = None,
    cache: Cache = "auto",
    overwrite: bool = False,
) -> TransferFuture:
    """Move bytes between a file, host memory and GPU memory; returns at once, with a future.

    Parameters
    ----------
    source, destination
        A path, a buffer, or a contiguous array of numpy, CuPy or torch, of the same number of
        bytes; dtypes and shapes do not matter. A path as the destination is a new file, which
        appears whole or not at all. Or, as `source` alone, a list of (source, destination) pairs:
        one call, small pieces packed together.
    stream
        A CUDA stream (an integer handle, of CuPy, of torch): copies start after what it holds now.
        Where the copy engines do all of the work (pinned memory, GPU to GPU) the stream also waits
        for the bytes from this call on; else call `wait(stream)` of the future before the stream
        gets work that needs them. Without it, the default stream is ordered before the copies, and
        `result()` says when the bytes are there.
    machine, budget, cache
        As for `load`.
    overwrite
        Whether a file at the destination may be replaced.

    Returns
    -------
    TransferFuture
        `result()` gives a `LoadReport` or raises; `wait(stream)` lets a stream wait. Source and
        destination are held until it is done, and must not be written or resized until then.

    Raises
    ------
    InputError
        An end is no path and no memory, is read-only or not contiguous, the sizes differ, or two
        pairs write one file. What happens later is raised by the future.

    """
    choices: dict[str, Any] = {"machine": machine, "budget": budget, "cache": cache}
    return _loader().transfer(source, destination, stream=stream, overwrite=overwrite, **choices)


@atexit.register
def release() -> None:
    """Give back the threads, the pinned ring and the streams behind `load` and `transfer`.

    What was loaded stays; the next call makes them anew. Runs by itself when the process ends.
    """
    global _default
    with _guard:
        loader, _default = _default, None
    if loader is not None:
        loader.close()
