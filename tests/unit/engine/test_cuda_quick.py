"""Calls that keep the interpreter's lock, and that let it go while the driver holds its own."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from planner.engine.backends.cuda import CudaBackend
from planner.engine.backends.cuda_library import DriverError
from planner.engine.backends.cuda_quick import QuickCalls, quick_calls
from tests.helpers.cuda_library import installed

QUICK = ["_copy", "_batch", "_record"]
SLOW = ["_slow_copy", "_slow_batch", "_slow_record"]


def test_while_the_driver_is_locked_copies_let_the_interpreter_go() -> None:
    seen: list[str] = []

    def noted(name: str) -> Callable[..., int]:
        def call(*_given: object) -> int:
            seen.append(name)
            return 0

        return call

    with installed():
        calls = QuickCalls()
    for name in QUICK + SLOW:
        setattr(calls, name, noted(name))

    def all_of_them() -> list[str]:
        seen.clear()
        calls.copy(1, 2, 3, 4)
        calls.copy_all([(10, 20, 1), (11, 21, 2)], 7)
        calls.record(5, 6)
        return seen.copy()

    assert all_of_them() == QUICK
    with calls.letting_go():
        assert all_of_them() == SLOW
        with pytest.raises(DriverError), calls.letting_go():
            raise DriverError("cuMemHostRegister")
        assert all_of_them() == SLOW  # another registration is still under way
    assert all_of_them() == QUICK


def test_registering_and_giving_back_lock_the_driver() -> None:
    locked: list[int] = []
    with installed() as library:
        for name in ("cuMemHostRegister_v2", "cuMemHostUnregister"):
            library.at(name, lambda: locked.append(quick_calls()._locked))
        backend = CudaBackend(kernels=False)
        backend.attach(0)
        backend.register(1 << 20, 4096)
        backend.unregister(1 << 20)
        assert locked == [1, 1]
        library.status["cuMemHostRegister_v2"] = 1
        with pytest.raises(DriverError):
            backend.register(1 << 20, 4096)
        assert quick_calls()._locked == 0
        backend.close()
