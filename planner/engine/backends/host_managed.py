"""Managed memory emulated in RAM: every page lies on the host or on the emulated GPU, not on both.

The GPU's side is memory of its own. Faults bring over regions of 64 KiB and the subtrees of a block
of 2 MiB of which more than 51 % faulted, as the driver does; what did not come is not there.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from threading import Lock

import numpy as np
from numpy.typing import NDArray

from planner.engine.memory import HostBuffer, copy_memory
from planner.model.touched import LEAVES, REGION, THRESHOLD


class Managed(HostBuffer):
    """Managed memory as the host sees it; `away` is the GPU's side of it."""

    __slots__ = ("_guard", "_resident", "away", "forget", "stays")

    def __init__(self, size: int, forget: Callable[[int], None]) -> None:
        super().__init__(size)
        self.away = HostBuffer(size)
        self.stays = False
        self.managed = True
        self.forget = forget
        self._resident = np.zeros(-(-size // REGION), np.bool_)
        self._guard = Lock()

    def faults(self, offsets: NDArray[np.int64] | range) -> None:
        """The GPU touches the bytes at these offsets: what is not there comes."""
        touched = np.zeros(-(-len(self._resident) // LEAVES) * LEAVES, np.bool_)
        touched[np.asarray(offsets) // REGION] = True
        blocks = touched.reshape(-1, LEAVES)
        taken = blocks.copy()
        width = LEAVES
        while width > 1:
            trees = blocks.reshape(len(blocks), -1, width)
            full = trees.sum(axis=2) > THRESHOLD * width
            taken |= np.repeat(full, width, axis=1)
            width //= 2
        self.move(taken.reshape(-1)[: len(self._resident)], inward=True)

    def move(self, wanted: NDArray[np.bool_] | None, *, inward: bool) -> None:
        """Bring the wanted regions (all where `None`) to the GPU, or back to the host."""
        with self._guard:
            moving = ~self._resident if inward else self._resident.copy()
            if wanted is not None:
                moving &= wanted
            ends = (self.away, self) if inward else (self, self.away)
            for low, high in _runs(moving):
                start, end = low * REGION, min(high * REGION, self.size)
                copy_memory(ends[0].address + start, ends[1].address + start, end - start)
            self._resident[moving] = inward

    def move_range(self, address: int, length: int, *, inward: bool) -> None:
        """Move the regions of some bytes."""
        wanted = np.zeros(len(self._resident), np.bool_)
        start = address - self.address
        wanted[start // REGION : -(-(start + length) // REGION)] = True
        self.move(wanted, inward=inward)

    def close(self) -> None:
        """Give both sides back."""
        self.forget(self.address)
        self.away.close()
        super().close()


def _runs(flags: NDArray[np.bool_]) -> Iterator[tuple[int, int]]:
    """Start and end of each run of true flags."""
    edges = np.flatnonzero(np.diff(np.concatenate(([0], flags.view(np.int8), [0]))))
    yield from zip(edges[::2].tolist(), edges[1::2].tolist(), strict=True)
