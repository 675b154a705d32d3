"""DLPack by hand: memory handed to other libraries, and theirs looked at, without a copy.

The structures are those of dlpack.h (https://github.com/dmlc/dlpack, version 1.1). They are built
here because the libraries that would do it lack dtypes: CuPy has no float8 and needs another
package for bfloat16. Strides are always written out: newer readers want them.
"""

from __future__ import annotations

import ctypes
import struct
from collections.abc import Callable, Sequence
from typing import Any, Final, NamedTuple

CPU: Final = 1
CUDA: Final = 2
CUDA_HOST: Final = 3
CUDA_MANAGED: Final = 13
"""DLDeviceType."""

_NAME: Final = b"dltensor"
_USED: Final = b"used_dltensor"


class DType(NamedTuple):
    """One dtype of the format: DLDataTypeCode and bits; numpy's name for it, where it has one."""

    code: int
    bits: int
    numpy: str | None = None


DTYPES: Final[dict[str, DType]] = {
    "BOOL": DType(6, 8, "?"),
    "U8": DType(1, 8, "u1"),
    "I8": DType(0, 8, "i1"),
    "U16": DType(1, 16, "<u2"),
    "I16": DType(0, 16, "<i2"),
    "U32": DType(1, 32, "<u4"),
    "I32": DType(0, 32, "<i4"),
    "U64": DType(1, 64, "<u8"),
    "I64": DType(0, 64, "<i8"),
    "F16": DType(2, 16, "<f2"),
    "F32": DType(2, 32, "<f4"),
    "F64": DType(2, 64, "<f8"),
    "BF16": DType(4, 16),
    "C64": DType(5, 64, "<c8"),
    "F8_E4M3": DType(10, 8),  # of the "fn" kind: finite, one NaN
    "F8_E5M2": DType(12, 8),
    "F8_E8M0": DType(14, 8),
}
"""The dtypes of safetensors whose elements are whole bytes, by the names of its headers."""
NAMES: Final[dict[str, str]] = {
    "BOOL": "bool",
    "U8": "uint8",
    "I8": "int8",
    "U16": "uint16",
    "I16": "int16",
    "U32": "uint32",
    "I32": "int32",
    "U64": "uint64",
    "I64": "int64",
    "F16": "float16",
    "F32": "float32",
    "F64": "float64",
    "BF16": "bfloat16",
    "C64": "complex64",
    "F8_E4M3": "float8_e4m3fn",
    "F8_E5M2": "float8_e5m2",
    "F8_E8M0": "float8_e8m0fnu",
}
"""What PyTorch calls the same dtypes, and ml_dtypes those that numpy lacks."""


def width_of(dtype: str) -> int:
    """Bytes that an address must be a multiple of for a dtype; 1 where DLPack has no layout.

    >>> width_of("F32"), width_of("C64"), width_of("F4")
    (4, 4, 1)
    """
    found = DTYPES.get(dtype)
    if found is None:
        return 1
    # A complex number is two floats, and aligned like one.
    return found.bits // (16 if dtype == "C64" else 8)


class _Device(ctypes.Structure):
    _fields_ = (("device_type", ctypes.c_int32), ("device_id", ctypes.c_int32))


class _DataType(ctypes.Structure):
    _fields_ = (("code", ctypes.c_uint8), ("bits", ctypes.c_uint8), ("lanes", ctypes.c_uint16))


class _Tensor(ctypes.Structure):
    _fields_ = (
        ("data", ctypes.c_void_p),
        ("device", _Device),
        ("ndim", ctypes.c_int32),
        ("dtype", _DataType),
        ("shape", ctypes.POINTER(ctypes.c_int64)),
        ("strides", ctypes.POINTER(ctypes.c_int64)),
        ("byte_offset", ctypes.c_uint64),
    )


_Deleter = ctypes.CFUNCTYPE(None, ctypes.c_void_p)


class _Managed(ctypes.Structure):
    _fields_ = (("tensor", _Tensor), ("context", ctypes.c_void_p), ("deleter", _Deleter))


def _python(name: str, result: Any, *arguments: Any) -> Callable[..., Any]:
    return ctypes.PYFUNCTYPE(result, *arguments)((name, ctypes.pythonapi))


# Capsules come as addresses in a destructor: to take hold of an object that is going would bring it
# back to life.
_new = _python("PyCapsule_New", ctypes.py_object, ctypes.c_void_p, ctypes.c_char_p, ctypes.c_void_p)
_valid = _python("PyCapsule_IsValid", ctypes.c_int, ctypes.c_void_p, ctypes.c_char_p)
_pointer = _python("PyCapsule_GetPointer", ctypes.c_void_p, ctypes.c_void_p, ctypes.c_char_p)
_rename = _python("PyCapsule_SetName", ctypes.c_int, ctypes.py_object, ctypes.c_char_p)
_hold = _python("Py_IncRef", None, ctypes.py_object)

_held: dict[int, tuple[Any, ...]] = {}
"""What each structure that is out in the world needs, by its address."""


def _delete(address: int) -> None:
    """Called by the library that took the memory when it needs it no more."""
    _held.pop(address, None)


def _discard(capsule: int) -> None:
    """Called when a capsule ends; one that nobody took gives its memory back."""
    if _valid(capsule, _NAME):
        _held.pop(_pointer(capsule, _NAME), None)


# Another library may call them after this module was cleared at the interpreter's end.
_DELETE: Final = _Deleter(_delete)
_DISCARD: Final = _Deleter(_discard)
for _callback in (_DELETE, _DISCARD):
    _hold(_callback)
_DELETE_AT: Final = ctypes.cast(_DELETE, ctypes.c_void_p).value
_DISCARD_AT: Final = ctypes.cast(_DISCARD, ctypes.c_void_p).value

_HEAD: Final = struct.Struct("=QiiiBBHQQQQQ")
"""`_Managed` in one piece, the addresses of shape and strides among it: data, device, dimensions,
dtype, shape, strides, offset, context, deleter. Built field by field it takes four times as long
(16 us for each of 100,000 views). On 64-bit computers, like CUDA itself."""


def export(
    address: int, device: tuple[int, int], dtype: DType, shape: Sequence[int], owner: object
) -> Any:
    """A capsule for the compact array at `address`; `owner` lives as long as anybody uses it."""
    count = len(shape)
    buffer = ctypes.create_string_buffer(_HEAD.size + 16 * count)
    at = ctypes.addressof(buffer)
    extents = at + _HEAD.size
    _HEAD.pack_into(
        buffer,
        0,
        address,
        *device,
        count,
        dtype.code,
        dtype.bits,
        1,
        extents,
        extents + 8 * count,
        0,
        0,
        _DELETE_AT,
    )
    struct.pack_into(f"={2 * count}q", buffer, _HEAD.size, *shape, *strides(shape))
    _held[at] = (buffer, owner)
    return _new(at, _NAME, _DISCARD_AT)


def strides(shape: Sequence[int]) -> list[int]:
    """Elements from one entry to the next along each axis of a compact array.

    >>> strides([2, 3, 4])
    [12, 4, 1]
    """
    found = [1] * len(shape)
    for k in range(len(shape) - 2, -1, -1):
        found[k] = found[k + 1] * max(shape[k + 1], 1)
    return found


class Imported:
    """The memory behind another library's capsule, held until `close`.

    `device` is (DLDeviceType, index); `compact` whether the elements lie one behind the other.
    """

    __slots__ = ("_managed", "address", "compact", "device", "size")

    def __init__(self, capsule: Any) -> None:
        self._managed: _Managed | None = None
        if not _valid(id(capsule), _NAME):
            raise ValueError("not a DLPack capsule, or one that was used before")
        self._managed = _Managed.from_address(_pointer(id(capsule), _NAME))
        _rename(capsule, _USED)
        tensor = self._managed.tensor
        shape = [tensor.shape[k] for k in range(tensor.ndim)]
        elements = 1
        for extent in shape:
            elements *= extent
        self.address = (tensor.data or 0) + tensor.byte_offset
        self.device = (tensor.device.device_type, tensor.device.device_id)
        self.size = -(-elements * tensor.dtype.bits * tensor.dtype.lanes // 8)
        self.compact = elements == 0 or not tensor.strides or _packed(shape, tensor.strides)

    def close(self) -> None:
        """Let go of the memory."""
        managed, self._managed = self._managed, None
        if managed is not None and managed.deleter:
            managed.deleter(ctypes.addressof(managed))

    def __del__(self) -> None:
        self.close()


def _packed(shape: Sequence[int], steps: Any) -> bool:
    """Whether the strides are those of a compact array; an axis of one entry may have any."""
    wanted = strides(shape)
    return all(shape[k] == 1 or steps[k] == wanted[k] for k in range(len(shape)))
