"""How pinned memory is counted; the driver's calls are played by structures of the same layout."""

from __future__ import annotations

import ctypes
import shutil
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray

from benchmarks.pinned_watch import COMPILERS, ENTRIES, WORDS, build, entries, peak

ALLOCATE, REGISTER, FREE, UNREGISTER = 39, 379, 38, 302


Words = NDArray[np.int64]
Call = Callable[..., None]


class Data(ctypes.Structure):
    """The first fields of CUpti_CallbackData."""

    _fields_ = (
        ("site", ctypes.c_int),
        ("name", ctypes.c_char_p),
        ("params", ctypes.c_void_p),
        ("result", ctypes.c_void_p),
    )


@pytest.fixture(scope="module")
def call(tmp_path_factory: pytest.TempPathFactory) -> Call:
    """`call(words, number, *params)`: one call of the driver, as CUPTI tells of it."""
    if not any(shutil.which(name) for name in COMPILERS):
        pytest.skip("the callback needs a C compiler")
    note = ctypes.CDLL(str(build(tmp_path_factory.mktemp("watch")))).note
    note.argtypes = (ctypes.c_void_p, ctypes.c_int, ctypes.c_uint32, ctypes.c_void_p)
    note.restype = None

    def told(words: Words, number: int, *params: int, site: int = 1, result: int = 0) -> None:
        given = (ctypes.c_uint64 * 3)(*params)
        code = (ctypes.c_int * 2)(result, 0)
        data = Data(site, b"call", ctypes.addressof(given), ctypes.addressof(code))
        note(int(words.ctypes.data), 1, number, ctypes.addressof(data))

    return told


@pytest.fixture
def words() -> Words:
    return np.zeros(WORDS * ENTRIES + 1, np.int64)


def test_the_callback_keeps_call_address_and_size(call: Call, words: Words) -> None:
    given = ctypes.c_uint64(0x7000)  # the driver has put the new memory's address here
    call(words, ALLOCATE, ctypes.addressof(given), 4096, 0)
    call(words, REGISTER, 0x9000, 8192, 2)
    call(words, FREE, 0x7000)
    assert entries(words) == [
        (ALLOCATE, 0x7000, 4096),
        (REGISTER, 0x9000, 8192),
        (FREE, 0x7000, 0),
    ]
    assert peak(entries(words)) == 4096 + 8192


def test_entries_into_a_call_and_failed_calls_do_not_count(call: Call, words: Words) -> None:
    call(words, REGISTER, 0x9000, 8192, 2, site=0)
    call(words, REGISTER, 0x9000, 8192, 2, result=2)  # CUDA_ERROR_OUT_OF_MEMORY
    assert entries(words) == []


def test_what_does_not_fit_is_said(call: Call, words: Words) -> None:
    words[0] = ENTRIES
    call(words, REGISTER, 0x9000, 8192, 2)
    with pytest.raises(RuntimeError, match="can be kept"):
        entries(words)


def test_a_missing_compiler_is_said(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(shutil, "which", lambda _name: None)
    with pytest.raises(RuntimeError, match="no C compiler"):
        build(tmp_path)


def test_a_compiler_that_fails_is_said(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(shutil, "which", lambda _name: "/bin/false")
    with pytest.raises(RuntimeError, match="/bin/false failed"):
        build(tmp_path)


def test_a_peak_is_of_what_is_held_at_once() -> None:
    log = [(REGISTER, 1, 100), (UNREGISTER, 1, 0), (REGISTER, 2, 80), (ALLOCATE, 3, 30)]
    assert peak(log) == 110
    assert peak([*log, (FREE, 99, 0)]) == 110  # memory that was pinned before the watch began
