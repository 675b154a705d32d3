"""Safetensors files written by hand, with random bytes, and what they hold."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

import planner

WIDTHS = {"U8": 1, "I8": 1, "BOOL": 1, "F16": 2, "BF16": 2, "F32": 4, "F64": 8, "C64": 8}
WIDTHS |= {"F8_E4M3": 1, "F8_E5M2": 1, "I16": 2, "U16": 2, "I32": 4, "U32": 4, "I64": 8, "U64": 8}

Wanted = tuple[str, str, tuple[int, ...]]
"""Name, dtype, shape."""


def write_weights(
    path: Path, wanted: Iterable[Wanted], *, pad: int = 0, packed: bool = False, **metadata: str
) -> dict[str, NDArray[np.uint8]]:
    """A file with the tensors one behind the other; returns each one's bytes.

    `pad` spaces lengthen the header, so that the data begins at another offset; `packed` writes it
    as the format's own library does, without spaces elsewhere.
    """
    document: dict[str, Any] = {"__metadata__": metadata} if metadata else {}
    held: dict[str, NDArray[np.uint8]] = {}
    at = 0
    random = np.random.default_rng(7)
    for name, dtype, shape in wanted:
        size = int(np.prod(shape, dtype=np.int64)) * WIDTHS[dtype]
        held[name] = random.integers(0, 2 if dtype == "BOOL" else 256, size, np.uint8)
        document[name] = {"dtype": dtype, "shape": list(shape), "data_offsets": [at, at + size]}
        at += size
    write_raw(
        path, document, b"".join(one.tobytes() for one in held.values()), pad=pad, packed=packed
    )
    return held


def write_raw(
    path: Path, document: Mapping[str, Any], data: bytes, *, pad: int = 0, packed: bool = False
) -> None:
    """A file whose header says what it is told to say."""
    between = (",", ":") if packed else None
    raw = json.dumps(document, separators=between).encode() + b" " * pad
    path.write_bytes(len(raw).to_bytes(8, "little") + raw + data)


def same(tensor: planner.Tensor, wanted: Any) -> bool:
    """Whether a tensor on the host has the values that were written."""
    return bool(np.array_equal(tensor.raw.numpy(), wanted))
