"""The CUDA driver's library: how a call of it is bound, and what a call that fails raises."""

from __future__ import annotations

import ctypes
from ctypes import POINTER, c_char_p, c_int
from typing import Any, Final

LIBRARY: Final = "libcuda.so.1"
INVALID_VALUE: Final = 1
OUT_OF_MEMORY: Final = 2
NOT_INITIALIZED: Final = 3
INVALID_DEVICE: Final = 101
INVALID_CONTEXT: Final = 201
PEER_ALREADY_ON: Final = 704
PEER_NOT_ON: Final = 705
"""Values of CUresult: CUDA_ERROR_INVALID_VALUE and so on."""


class DriverError(RuntimeError):
    """A driver call failed; the text names the call and the driver's own word for the reason.

    Attributes
    ----------
    status
        The driver's number (CUresult), 999 (CUDA_ERROR_UNKNOWN) unless told. The CUDA runtime has
        the same one for the reasons that are told apart here.

    """

    def __init__(self, text: str, status: int = 999) -> None:
        super().__init__(text)
        self.status = status


def bound(library: Any, name: str, *types: Any) -> Any:
    """A function of the library that answers with a status."""
    function = getattr(library, name)
    function.argtypes, function.restype = types, c_int
    return function


def failed(call: str, status: int) -> DriverError:
    """The error of a call that answered with a status."""
    text = c_char_p()
    bound(ctypes.CDLL(LIBRARY), "cuGetErrorName", c_int, POINTER(c_char_p))(status, text)
    word = text.value.decode() if text.value else "unknown error"
    return DriverError(f"{call}: {word} ({status})", status)
