"""Pinned host memory of this process, as the CUDA driver sees it: CUPTI calls back on every call.

Whoever allocates or registers pinned memory, and through whichever library, ends in one of a few
calls of the driver. CUPTI (it comes with PyTorch's NVIDIA packages) tells of each. The callback is
compiled by numba and never takes the interpreter's lock: a loader may hold that lock while its own
threads pin memory, and a callback in Python would wait for it forever.

The numbers of the calls and the layout of what CUPTI hands over are those of `cupti_driver_cbid.h`,
`cupti_callbacks.h` and `generated_cuda_meta.h` of CUDA 13; numbers never change between versions.
"""

from __future__ import annotations

import ctypes
import importlib.util
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, Final

TAKE: Final = {37: "cuMemAllocHost", 294: "cuMemAllocHost_v2", 39: "cuMemHostAlloc"}
"""Calls that give memory: params = (where the address goes, bytes, ...)."""
TAKE_2: Final = {271: "cuMemHostAlloc_v2"}
REGISTER: Final = {301: "cuMemHostRegister", 379: "cuMemHostRegister_v2"}
"""Calls that pin the caller's memory: params = (address, bytes, ...)."""
FREE: Final = {38: "cuMemFreeHost", 302: "cuMemHostUnregister"}
"""Calls that end either: params = (address)."""
GIVING: Final = frozenset({*TAKE, *TAKE_2})
DRIVER_API: Final = 1  # CUPTI_CB_DOMAIN_DRIVER_API
EXIT: Final = 1  # CUPTI_API_EXIT
ENTRIES: Final = 1 << 20
"""Calls that are kept; 100,000 tensors that are pinned one by one make 200,000."""
WORDS: Final = 3

Log = Iterable[tuple[int, int, int]]
"""(call, address, bytes) in order."""


def peak(log: Log, live: Mapping[int, int] | None = None) -> int:
    """The most bytes that were pinned at once.

    >>> peak([(379, 4096, 100), (39, 8192, 50), (302, 4096, 0), (379, 4096, 60)])
    150
    """
    held = dict(live or {})
    now = most = sum(held.values())
    for call, address, size in log:
        if call in FREE:
            now -= held.pop(address, 0)
        else:
            now += size - held.get(address, 0)
            held[address] = size
            most = max(most, now)
    return most


class PinnedWatch:
    """Counts from `start` to `stop`.

    Raises
    ------
    RuntimeError
        CUPTI or numba is absent, or refuses.

    """

    def __init__(self) -> None:
        import numpy as np

        self._words = np.zeros(WORDS * ENTRIES + 1, np.int64)
        self._callback = compiled()
        self._cupti = _library()
        self._subscriber = ctypes.c_void_p()

    def start(self) -> None:
        """Subscribe to the calls."""
        function = ctypes.c_void_p(self._callback.address)
        data = ctypes.c_void_p(int(self._words.ctypes.data))
        self._do("cuptiSubscribe", ctypes.byref(self._subscriber), function, data)
        for call in (*TAKE, *TAKE_2, *REGISTER, *FREE):
            self._do("cuptiEnableCallback", 1, self._subscriber, DRIVER_API, call)

    def stop(self) -> int:
        """End it; returns the peak in bytes."""
        self._do("cuptiUnsubscribe", self._subscriber)
        return peak(entries(self._words))

    def _do(self, name: str, *arguments: Any) -> None:
        code = getattr(self._cupti, name)(*arguments)
        if code:
            raise RuntimeError(f"{name} failed with {code}")


def entries(words: Any) -> list[tuple[int, int, int]]:
    """What the callback has written: the first word counts the entries.

    Raises `RuntimeError` if there were more than fit.
    """
    count = int(words[0])
    if count > ENTRIES:
        raise RuntimeError(f"{count} calls pinned or freed memory, {ENTRIES} can be kept")
    rows = words[1 : 1 + WORDS * count].reshape(count, WORDS)
    return [(int(call), int(address), int(size)) for call, address, size in rows]


def compiled() -> Any:
    """The callback as machine code: `void (void *words, int domain, uint32 call, void *data)`.

    Raises `RuntimeError` if numba is absent.
    """
    try:
        from numba import cfunc, types
    except ImportError as error:
        raise RuntimeError("numba is absent") from error
    word, put, add = _intrinsics()
    most, register, free = ENTRIES, tuple(REGISTER), tuple(FREE)
    exit_site = EXIT

    @cfunc(types.void(types.uintp, types.int32, types.uint32, types.uintp), cache=False)
    def callback(words, domain, call, data):  # type: ignore[no-untyped-def]  # noqa: ANN001, ANN202, ARG001
        # CUpti_CallbackData: site (4 bytes, 4 unused), name, params, pointer to the result.
        if word(data) & 0xFFFFFFFF != exit_site or word(word(data + 24)) & 0xFFFFFFFF != 0:
            return
        params = word(data + 16)
        first = word(params)
        size = 0
        if call not in free:
            size = word(params + 8)
            if call not in register:
                first = word(first)  # where the driver has put the address
        at = add(words)
        if at < most:
            entry = words + 8 + at * 24
            put(entry, call)
            put(entry + 8, first)
            put(entry + 16, size)

    return callback


def _intrinsics() -> tuple[Any, Any, Any]:
    """`word(address)`, `put(address, value)` and `add(address)`, which adds one at once for all."""
    from llvmlite import ir
    from numba import types
    from numba.extending import intrinsic

    i64 = ir.IntType(64)

    def at(builder: Any, address: Any) -> Any:
        return builder.inttoptr(address, i64.as_pointer())

    @intrinsic
    def word(_typing: Any, _address: Any) -> Any:
        def make(_context: Any, builder: Any, _signature: Any, given: Any) -> Any:
            return builder.load(at(builder, given[0]))

        return types.int64(types.int64), make

    @intrinsic
    def put(_typing: Any, _address: Any, _value: Any) -> Any:
        def make(context: Any, builder: Any, _signature: Any, given: Any) -> Any:
            builder.store(given[1], at(builder, given[0]))
            return context.get_dummy_value()

        return types.void(types.int64, types.int64), make

    @intrinsic
    def add(_typing: Any, _address: Any) -> Any:
        def make(_context: Any, builder: Any, _signature: Any, given: Any) -> Any:
            return builder.atomic_rmw("add", at(builder, given[0]), ir.Constant(i64, 1), "seq_cst")

        return types.int64(types.int64), make

    return word, put, add


def _library() -> ctypes.CDLL:
    """CUPTI from the NVIDIA packages or the system; the newest where there are several."""
    for path in _candidates():
        try:
            return ctypes.CDLL(str(path))
        except OSError:
            continue
    raise RuntimeError("libcupti is absent")


def _candidates() -> list[Path]:
    found: list[Path] = []
    spec = importlib.util.find_spec("nvidia")
    for place in (spec.submodule_search_locations or []) if spec else []:
        found += sorted(Path(place).glob("*/lib/libcupti.so.*"), reverse=True)
    for folder in sorted(Path("/usr/local").glob("cuda*/extras/CUPTI/lib64"), reverse=True):
        found += sorted(folder.glob("libcupti.so.*"), reverse=True)
    return [*found, Path("libcupti.so.13"), Path("libcupti.so.12")]
