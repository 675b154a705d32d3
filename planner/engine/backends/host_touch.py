"""Kernels emulated in RAM: they touch the very places that the real ones touch."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from planner.engine.backends.host_managed import Managed
from planner.engine.memory import copy_memory, memory_at
from planner.engine.touch import Touch, places
from planner.model.touched import REGION

Find = Callable[[int], Managed | None]
"""The managed memory that an address lies in."""


def _bytes_at(address: int, size: int) -> NDArray[np.uint8]:
    return np.frombuffer(memory_at(address, size), np.uint8)


def carry_out(touch: Touch, find: Find) -> None:
    """One pass of a kernel."""
    if not touch.pieces:
        return
    managed = find(touch.source)
    if managed is not None and not managed.stays:
        start = touch.source - managed.address
        managed.faults(_touched(touch, start))
        touch = touch._replace(source=managed.away.address + start)
    if not touch.unit:
        if touch.target:
            copy_memory(touch.target, touch.source, touch.pieces)
        else:
            _read(_bytes_at(touch.source, touch.pieces))
        return
    rows = _bytes_at(touch.source, touch.reach).reshape(touch.total, touch.unit)
    found = rows[places(touch, 0, touch.pieces)]
    if touch.target:
        copy_memory(touch.target, found.ctypes.data, found.size)
    else:
        _read(found.reshape(-1))


def _touched(touch: Touch, start: int) -> NDArray[np.int64] | range:
    """Offsets of touched bytes in managed memory, at least one for each region."""
    if not touch.unit:
        return range(start - start % REGION, start + touch.pieces, REGION)
    first = start + places(touch, 0, touch.pieces) * touch.unit
    return np.concatenate((first, first + touch.unit - 1))


def _read(found: NDArray[np.uint8]) -> None:
    """Read every byte and keep nothing."""
    words = found.size - found.size % 8
    np.bitwise_xor.reduce(found[:words].view(np.uint64))
    np.bitwise_xor.reduce(found[words:])
