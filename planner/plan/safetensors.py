"""The header of a safetensors file: what lies where, read and checked without touching the data.

The file begins with the length N of the header (8 bytes, little-endian), then N bytes of JSON,
then the data; offsets in the header count from the start of the data. The format and its limit
on N are those of https://github.com/huggingface/safetensors (README, "Format").
"""

from __future__ import annotations

import contextlib
import gc
import json
import os
from collections.abc import Iterator
from operator import itemgetter
from pathlib import Path
from typing import Any, Final, NamedTuple

from planner.errors import InputError

LENGTH_BYTES: Final = 8
_POINTER: Final = int.from_bytes(b"version ", "little")
"""What a file starts with that Git has in the place of a large one (git-lfs, docs/spec.md)."""
LONGEST_HEADER: Final = 100_000_000
"""Bytes; the format's own limit on a header (its README, "Format")."""

_FEWEST_BYTES: Final = 2  # "{}"
_MOST: Final = (1 << 63) - 1
"""The largest number of elements or bytes that libraries count to."""

BITS: Final = {
    **dict.fromkeys(("F64", "I64", "U64", "C64"), 64),
    **dict.fromkeys(("F32", "I32", "U32"), 32),
    **dict.fromkeys(("F16", "BF16", "I16", "U16"), 16),
    **dict.fromkeys(("BOOL", "U8", "I8", "F8_E4M3", "F8_E5M2", "F8_E8M0"), 8),
    **dict.fromkeys(("F6_E2M3", "F6_E3M2"), 6),
    "F4": 4,
}
"""Bits of one element of each dtype that the format names (its source, `tensor.rs`, `Dtype`)."""


class Tensor(NamedTuple):
    """One tensor: bytes `begin` to `end`, counted from the start of the data."""

    name: str
    dtype: str
    shape: tuple[int, ...]
    begin: int
    end: int


class Header(NamedTuple):
    """What a safetensors file holds; `tensors` in the order of their bytes in the file."""

    path: str
    data_offset: int
    data_bytes: int
    tensors: tuple[Tensor, ...]
    metadata: dict[str, str]


def read_header(path: Path) -> Header:
    """The checked header of the file at `path`.

    Raises `InputError`, naming the file and the reason, when the file cannot be read, is
    truncated, or its header is too long, not JSON, or says something impossible.
    """
    return parse_header(path, *read_raw(path))


def read_raw(path: Path) -> tuple[bytes, int]:
    """The header as it stands in the file, and the bytes of the whole file.

    Takes microseconds where `parse_header` takes 0.3 s for 100,000 tensors. Raises `InputError`
    when the file cannot be read or does not hold the header that it claims.
    """
    try:
        with path.open("rb") as file:
            size = os.fstat(file.fileno()).st_size
            head = file.read(LENGTH_BYTES)
            length = int.from_bytes(head, "little")
            _check_length(path, len(head), length, size)
            return file.read(length), size
    except OSError as error:
        raise InputError(f"{path} cannot be read: {error.strerror}") from error


def parse_header(path: Path, raw: bytes, size: int) -> Header:
    """What the header `raw` of a file of `size` bytes says, checked; raises `InputError`."""
    with _uncollected():
        document = _document(path, raw)
        metadata = document.pop("__metadata__", {})
        if not isinstance(metadata, dict) or not all(isinstance(v, str) for v in metadata.values()):
            raise _wrong(path, "its __metadata__ is not a mapping of text")
        tensors = [_tensor(path, name, entry) for name, entry in document.items()]
        tensors.sort(key=itemgetter(3, 4))
        data_offset = LENGTH_BYTES + len(raw)
        _check_layout(path, tensors, size - data_offset)
        return Header(str(path), data_offset, size - data_offset, tuple(tensors), metadata)


@contextlib.contextmanager
def _uncollected() -> Iterator[None]:
    """Keep the garbage collector from looking at what is being built: none of it is garbage.

    It would look again and again: 0.34 s instead of 0.16 s for the JSON of 100,000 tensors.
    """
    collects = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if collects:
            gc.enable()


def _wrong(path: Path, reason: str) -> InputError:
    return InputError(
        f"{path} is not a whole safetensors file: {reason}", hint="download or write it again"
    )


def _check_length(path: Path, head: int, length: int, size: int) -> None:
    if head < LENGTH_BYTES:
        raise _wrong(path, f"it has {size} bytes, the length of its header alone takes 8")
    if length == _POINTER:
        raise InputError(
            f"{path} is a pointer of Git LFS, not the file itself", hint="fetch it: git lfs pull"
        )
    if length > LONGEST_HEADER:
        raise _wrong(path, f"its header claims {length} bytes, the format allows {LONGEST_HEADER}")
    if length < _FEWEST_BYTES:
        raise _wrong(path, f"its header claims {length} bytes, the shortest has 2")
    if LENGTH_BYTES + length > size:
        raise _wrong(path, f"its header claims {length} bytes, the file ends after {size}")


def _document(path: Path, raw: bytes) -> dict[str, Any]:
    try:
        document = json.loads(raw.decode("utf-8"))
    except UnicodeDecodeError as error:
        raise _wrong(path, "its header is not UTF-8") from error
    except (ValueError, RecursionError) as error:
        raise _wrong(path, "its header is not JSON") from error
    if not isinstance(document, dict):
        raise _wrong(path, "its header is not a mapping")
    return document


def _tensor(path: Path, name: str, entry: Any) -> Tensor:
    try:
        dtype, shape, (begin, end) = entry["dtype"], entry["shape"], entry["data_offsets"]
    except (TypeError, KeyError, ValueError) as error:
        raise _wrong(path, f'tensor "{name}" lacks dtype, shape or two data_offsets') from error
    if type(dtype) is not str or type(shape) is not list:
        raise _wrong(path, f'tensor "{name}" has a dtype or shape of the wrong type')
    elements = 1
    for number in (begin, end, *shape):
        if type(number) is not int or not 0 <= number <= _MOST:
            raise _wrong(path, f'tensor "{name}" has {number!r} where a whole number belongs')
    for extent in shape:
        elements *= extent
    bits = BITS.get(dtype)
    if begin > end or (bits is not None and (end - begin) * 8 != elements * bits):
        raise _wrong(
            path, f'tensor "{name}" ({dtype}, shape {shape}) does not fit bytes {begin} to {end}'
        )
    return Tensor(name, dtype, tuple(shape), begin, end)


def _check_layout(path: Path, tensors: list[Tensor], data_bytes: int) -> None:
    """No two tensors may share bytes, and all of them must be there."""
    reached = 0
    before = ""
    for tensor in tensors:
        if tensor.begin < reached and tensor.begin < tensor.end:
            raise _wrong(path, f'tensors "{before}" and "{tensor.name}" overlap')
        if tensor.end > reached:
            reached, before = tensor.end, tensor.name
    if reached > data_bytes:
        raise _wrong(
            path, f'tensor "{before}" ends at byte {reached} of the data, which has {data_bytes}'
        )
