"""What a program hands over, as an end: a path, a buffer, an array of any library."""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import Any, Final

import numpy as np

from planner.engine.backends.cuda_library import DriverError
from planner.engine.serving import dlpack
from planner.engine.serving.ends import Cache, End, FileEnd, MemoryEnd, SinkEnd
from planner.engine.serving.parts import Part
from planner.engine.serving.tensors import Tensor
from planner.errors import InputError, UnavailableError
from planner.plan.paths import require_name

_LEGACY: int = 1
"""cudaStreamLegacy: the stream that work goes to when nobody names one."""


_NO_PAIR: Final = "a transfer takes a source and a destination, or a list of such pairs"


def pairs_of(source: Any, destination: Any) -> list[Any]:
    """The pairs of a transfer: one, or the list of them that `source` is."""
    if destination is not None:
        return [(source, destination)]
    try:
        return list(source)
    except TypeError as error:
        raise InputError(_NO_PAIR, hint="give a destination") from error


def part_of(
    pair: Any, ends: list[End], cache: Cache, stream: int | None, *, overwrite: bool
) -> Part:
    """One pair's part; its ends are added to those to close."""
    try:
        source, destination = pair
    except (TypeError, ValueError) as error:
        raise InputError(_NO_PAIR, hint="give a destination") from error
    if is_path(source) and is_path(destination):
        raise InputError("both ends are files", hint="shutil.copyfile copies files")
    here = source_of(source, cache, stream)
    ends.append(here)
    there = target_of(destination, here.size, stream, overwrite=overwrite)
    ends.append(there)
    return Part(here, 0, there, 0, here.size)


def is_path(thing: Any) -> bool:
    """Whether it names a file."""
    return isinstance(thing, (str, os.PathLike))


def _path(thing: Any) -> str:
    """The path as text, `~` for the home folder."""
    name = os.fsdecode(thing)
    require_name(name, "name a file")
    return os.path.expanduser(name)  # noqa: PTH111 - which keeps a path as it is written


def refuse_one_sink_twice(ends: Sequence[End]) -> None:
    """Raise `InputError` where two pairs of a call write the same file."""
    seen: set[str] = set()
    for end in ends:
        if isinstance(end, SinkEnd):
            if end.place in seen:
                raise InputError(
                    f"{end.path} is the destination of two pairs", hint="name a file for each"
                )
            seen.add(end.place)


def source_of(thing: Any, cache: Cache, stream: int | None) -> End:
    """The end that bytes come from; raises `InputError` for what has none."""
    if is_path(thing):
        return FileEnd(_path(thing), cache)
    return _memory(thing, stream, writable=False)


def target_of(thing: Any, size: int, stream: int | None, *, overwrite: bool) -> End:
    """The end that `size` bytes go to; raises `InputError` where they are not its size."""
    if is_path(thing):
        return SinkEnd(_path(thing), size, overwrite=overwrite)
    end = _memory(thing, stream, writable=True)
    if end.size != size:
        end.close()
        raise InputError(
            f"the source has {size} bytes, the destination {end.size}",
            hint="both must be the same size; take a slice of the larger one",
        )
    return end


def _memory(thing: Any, stream: int | None, *, writable: bool) -> MemoryEnd:
    if isinstance(thing, Tensor):
        memory = thing.memory
        return MemoryEnd(thing.data_ptr, thing.nbytes, memory.gpu, keep=thing)
    if isinstance(thing, np.ndarray):
        _require(thing, thing.flags.c_contiguous, thing.flags.writeable or not writable)
        _refuse_objects(thing.dtype.hasobject)
        return MemoryEnd(int(thing.ctypes.data), thing.nbytes, keep=thing)
    if hasattr(thing, "__dlpack__") and hasattr(thing, "__dlpack_device__"):
        return _dlpack(thing, stream)
    interface = getattr(thing, "__cuda_array_interface__", None)
    if isinstance(interface, dict):
        return _cuda_array(thing, interface, writable=writable)
    return _buffer(thing, writable=writable)


def _require(thing: Any, compact: bool, allowed: bool) -> None:  # noqa: FBT001 - two plain answers
    name = type(thing).__name__
    if not compact:
        raise InputError(f"the {name} is not contiguous", hint="make it so first")
    if not allowed:
        raise InputError(f"the {name} is read-only, so nothing can be written to it")


def _refuse_objects(holds: bool) -> None:  # noqa: FBT001 - a plain answer
    if holds:
        raise InputError("an array of Python objects holds addresses, which mean nothing elsewhere")


def _dlpack(thing: Any, stream: int | None) -> MemoryEnd:
    """Memory of another library, held until the transfer is done."""
    kind, index = (int(part) for part in thing.__dlpack_device__())
    if kind not in (dlpack.CPU, dlpack.CUDA, dlpack.CUDA_HOST, dlpack.CUDA_MANAGED):
        raise InputError(f"{type(thing).__name__} is on a device of another kind (DLPack {kind})")
    on_gpu = kind in (dlpack.CUDA, dlpack.CUDA_MANAGED)
    try:
        found = dlpack.Imported(_capsule(thing, index, stream) if on_gpu else thing.__dlpack__())
    except (ImportError, OSError, DriverError) as error:
        raise _no_driver(thing, error) from error
    except (BufferError, TypeError, RuntimeError, ValueError) as error:
        raise InputError(
            f"{type(thing).__name__} does not give its memory: {error}",
            hint="detach it from a graph, make it contiguous, or view it as uint8",
        ) from error
    if not found.compact:
        found.close()
        _require(thing, compact=False, allowed=True)
    return MemoryEnd(
        found.address,
        found.size,
        index if on_gpu else None,
        pinned=kind == dlpack.CUDA_HOST,
        keep=thing,
        close=found.close,
    )


def _capsule(thing: Any, gpu: int, stream: int | None) -> Any:
    """What a library gives of memory on a GPU; torch does so only with that device current."""
    from planner.engine.backends.cuda_foreign import current

    with current(gpu):
        return thing.__dlpack__(stream=stream or _LEGACY)


def _cuda_array(thing: Any, interface: dict[str, Any], *, writable: bool) -> MemoryEnd:
    """Memory by the CUDA Array Interface, version 3.

    It names a stream (1 and 2 are the legacy default and the thread's own) whose work on the memory
    must have come before anybody else's.
    """
    shape, steps = tuple(interface["shape"]), interface.get("strides")
    width = int(interface["typestr"][2:])
    size = width
    for extent in shape:
        size *= extent
    compact = not size or steps is None or _packed(shape, tuple(steps), width)
    address, read_only = interface["data"]
    _require(thing, compact, not (read_only and writable))
    found = MemoryEnd(int(address or 0), size, _gpu_of(thing, int(address or 0)), keep=thing)
    found.stream = interface.get("stream")
    return found


def _gpu_of(thing: Any, address: int) -> int:
    """The GPU that the driver says an address is of."""
    from planner.engine.backends.cuda_foreign import device_of

    try:
        return device_of(address)
    except (OSError, DriverError) as error:
        raise _no_driver(thing, error) from error


def _no_driver(thing: Any, error: Exception) -> UnavailableError:
    return UnavailableError(
        f"{type(thing).__name__} lies on a GPU, which needs the NVIDIA driver: {error}",
        hint="planner doctor says what is wrong with it",
    )


def _packed(shape: tuple[int, ...], steps: tuple[int, ...], width: int) -> bool:
    wanted = [step * width for step in dlpack.strides(shape)]
    return all(n == 1 or a == b for n, a, b in zip(shape, steps, wanted, strict=True))


def _buffer(thing: Any, *, writable: bool) -> MemoryEnd:
    """Memory by the buffer protocol."""
    try:
        view = memoryview(thing)
    except TypeError as error:
        raise InputError(
            f"{type(thing).__name__} is neither a path nor memory",
            hint="give a path, a buffer, or an array of numpy, CuPy or torch",
        ) from error
    _require(thing, view.c_contiguous, not (view.readonly and writable))
    _refuse_objects("O" in view.format)
    address = int(np.frombuffer(view, np.uint8).ctypes.data) if view.nbytes else 0
    return MemoryEnd(address, view.nbytes, keep=view)
