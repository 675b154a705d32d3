"""A stand-in for libcuda.so.1: two devices, and the book of contexts by thread and of events."""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from threading import get_ident
from typing import Any
from unittest.mock import patch

from planner.engine.backends import cuda_driver, cuda_present, cuda_quick

DEVICES = 2
PINNED = 0x1000
"""The address of host memory that it takes for page-locked; others than this it does not know."""


class Call:
    """One function of the library, which takes types like those of ctypes."""

    def __init__(self, do: Callable[..., int]) -> None:
        self.argtypes: tuple[Any, ...] = ()
        self.restype: Any = None
        self._do = do

    def __call__(self, *words: Any) -> int:
        assert len(words) == len(self.argtypes)
        return self._do(*words)


class Library:
    """What `ctypes.CDLL` finds in a test: each call is noted, and answers 0 unless told otherwise.

    Attributes
    ----------
    retained
        Devices whose context was asked for.
    events
        Events that are alive, and the context that each was made in.
    called
        Names of calls with their words.
    status
        What calls by name answer with.

    """

    def __init__(self) -> None:
        self.retained: list[int] = []
        self.current: dict[int, int] = {}
        self.events: dict[int, int] = {}
        self.called: list[tuple[Any, ...]] = []
        self.status: dict[str, int] = {}
        self._seen: dict[str, Callable[[], object]] = {}
        self._made = 0

    def here(self) -> int:
        """The calling thread's current context."""
        return self.current.get(get_ident(), 0)

    def at(self, name: str, look: Callable[[], object]) -> None:
        """Look at something whenever a call is made."""
        self._seen[name] = look

    def __getattr__(self, name: str) -> Call:
        if not name.startswith("cu"):
            raise AttributeError(name)
        found = Call(lambda *words: self._answer(name, words))
        setattr(self, name, found)
        return found

    def names(self) -> list[str]:
        """The calls so far, without their words."""
        return [name for name, *_ in self.called]

    def _answer(self, name: str, words: tuple[Any, ...]) -> int:
        self.called.append((name, *(getattr(word, "value", word) for word in words)))
        if name in self._seen:
            self._seen[name]()
        if name in self.status:
            return self.status[name]
        return int(getattr(self, f"_{name}", lambda *_words: 0)(*words))

    def _cuGetErrorName(self, status: int, text: Any) -> int:  # noqa: N802 - the driver's names
        text.value = {1: b"CUDA_ERROR_INVALID_VALUE", 101: b"CUDA_ERROR_INVALID_DEVICE"}.get(status)
        return 0

    def _cuDeviceGetCount(self, count: Any) -> int:  # noqa: N802
        count.value = DEVICES
        return 0

    def _cuDeviceGet(self, device: Any, index: int) -> int:  # noqa: N802
        if not 0 <= index < DEVICES:
            return 101
        device.value = index
        return 0

    def _cuDeviceGetName(self, name: Any, _length: int, device: int) -> int:  # noqa: N802
        name.value = b"GPU %d" % device
        return 0

    def _cuDeviceGetPCIBusId(self, bus: Any, _length: int, device: int) -> int:  # noqa: N802
        bus.value = b"0000:%02X:00.0" % (10 + device)
        return 0

    def _cuDriverGetVersion(self, version: Any) -> int:  # noqa: N802
        version.value = 13000
        return 0

    def _cuDevicePrimaryCtxRetain(self, context: Any, device: int) -> int:  # noqa: N802
        self.retained.append(device)
        context.value = 100 + device
        return 0

    def _cuCtxSetCurrent(self, context: int) -> int:  # noqa: N802
        self.current[get_ident()] = context
        return 0

    def _cuCtxGetCurrent(self, context: Any) -> int:  # noqa: N802
        context.value = self.here()
        return 0

    def _cuMemAlloc_v2(self, address: Any, _size: int) -> int:  # noqa: N802
        address.value = 1 << 40
        return 0

    def _cuMemHostAlloc(self, address: Any, _size: int, _flags: int) -> int:  # noqa: N802
        address.value = 1 << 41
        return 0

    def _cuPointerGetAttributes(  # noqa: N802
        self, _count: int, _which: Any, into: Any, address: int
    ) -> int:
        if address == PINNED:
            ctypes.c_uint.from_address(into[0]).value = 1
            ctypes.c_uint64.from_address(into[3]).value = PINNED + 1
        return 0

    def _cuStreamCreate(self, stream: Any, _flags: int) -> int:  # noqa: N802
        stream.value = 7
        return 0

    def _cuEventCreate(self, event: Any, _flags: int) -> int:  # noqa: N802
        self._made += 1
        event.value = 500 + self._made
        self.events[event.value] = self.here()
        return 0

    def _cuEventDestroy_v2(self, event: int) -> int:  # noqa: N802
        del self.events[event]
        return 0


@contextmanager
def installed() -> Iterator[Library]:
    """The library in the place of the driver's, and CuPy beside it, which nobody may import."""
    found = Library()
    caches = cuda_driver.driver, cuda_quick.quick_calls
    for each in caches:
        each.cache_clear()
    try:
        with (
            patch.object(ctypes, "CDLL", lambda _name: found),
            patch.object(ctypes, "PyDLL", lambda _name: found),
            patch.object(cuda_present, "find_spec", lambda _name: object()),
            patch.dict("sys.modules", {"cupy": None}),  # importing it raises ImportError
            patch.dict("os.environ", {"CUDA_DEVICE_MAX_CONNECTIONS": "8"}),
        ):
            yield found
    finally:
        for each in caches:
            each.cache_clear()
