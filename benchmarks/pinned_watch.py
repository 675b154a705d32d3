"""Pinned host memory of this process, as the CUDA driver sees it: CUPTI calls back on every call.

Whoever allocates or registers pinned memory, and through whichever library, ends in one of a few
calls of the driver. CUPTI (it comes with PyTorch's NVIDIA packages) tells of each. The callback is
C (`pinned_watch.c`, built by the system's compiler) and never takes the interpreter's lock: a
loader may hold that lock while its own threads pin memory, and a callback in Python would wait for
it forever.

The numbers of the calls and the layout of what CUPTI hands over are those of `cupti_driver_cbid.h`,
`cupti_callbacks.h` and `generated_cuda_meta.h` of CUDA 13; numbers never change between versions.
"""

from __future__ import annotations

import ctypes
import importlib.util
import shutil
import subprocess
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, Final

SOURCE: Final = Path(__file__).with_suffix(".c")
COMPILERS: Final = ("cc", "gcc", "clang", "g++", "c++")
COMPILE_S: Final = 60.0
TAKE: Final = {37: "cuMemAllocHost", 294: "cuMemAllocHost_v2", 39: "cuMemHostAlloc"}
"""Calls that give memory: params = (where the address goes, bytes, ...)."""
RESERVED: Final = 271
"""A number that older headers call cuMemHostAlloc_v2 and newer ones nothing; it may be refused."""
REGISTER: Final = {301: "cuMemHostRegister", 379: "cuMemHostRegister_v2"}
"""Calls that pin the caller's memory: params = (address, bytes, ...)."""
FREE: Final = {38: "cuMemFreeHost", 302: "cuMemHostUnregister"}
"""Calls that end either: params = (address)."""
DRIVER_API: Final = 1  # CUPTI_CB_DOMAIN_DRIVER_API
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

    `callback` is the library that `build` made. Start it before any library has used the driver:
    CUPTI has one subscriber, and a profiler of another library may take its place.

    Raises
    ------
    RuntimeError
        CUPTI is absent, or refuses.
    OSError
        The library is not one.

    """

    def __init__(self, callback: Path) -> None:
        import numpy as np

        self._words = np.zeros(WORDS * ENTRIES + 1, np.int64)
        self._callback = ctypes.CDLL(str(callback)).note
        self._cupti = _library()
        self._subscriber = ctypes.c_void_p()

    def start(self) -> None:
        """Subscribe to the calls."""
        function = ctypes.cast(self._callback, ctypes.c_void_p)
        data = ctypes.c_void_p(int(self._words.ctypes.data))
        self._do("cuptiSubscribe", ctypes.byref(self._subscriber), function, data)
        for call in (*TAKE, *REGISTER, *FREE):
            self._do("cuptiEnableCallback", 1, self._subscriber, DRIVER_API, call)
        self._cupti.cuptiEnableCallback(1, self._subscriber, DRIVER_API, RESERVED)

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


def build(folder: Path) -> Path:
    """Compile the callback into a library of the folder: `note(words, domain, call, data)`.

    Raises `RuntimeError` where there is no compiler, or it fails.
    """
    compiler = next((found for name in COMPILERS if (found := shutil.which(name))), None)
    if compiler is None:
        raise RuntimeError(f"no C compiler is here (looked for {', '.join(COMPILERS)})")
    target = folder / "pinned_watch.so"
    numbers = {"REGISTER": REGISTER, "FREE": FREE}
    words = [f"-D{name}={','.join(map(str, calls))}" for name, calls in numbers.items()]
    command = [compiler, "-shared", "-fPIC", "-O2", f"-DMOST={ENTRIES}", *words]
    try:
        done = subprocess.run(  # noqa: S603 - our own source
            [*command, "-x", "c", str(SOURCE), "-o", str(target)],
            capture_output=True,
            text=True,
            timeout=COMPILE_S,
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        raise RuntimeError(f"{compiler} failed: {error}") from error
    if done.returncode:
        raise RuntimeError(f"{compiler} failed: {done.stderr.strip().splitlines()[-1:]}")
    return target


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
