"""What a calibration asks of a device: memory of each kind, and copies that it times.

The probes of this folder know only this; `device.py` does it with a backend of the engine, by the
same calls that a transfer uses.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal, Protocol

Way = Literal["h2d", "d2h"]
"""Into the GPU's memory, or out of it."""


class Block(Protocol):
    """A stretch of memory; `view` is how the CPU reaches it, `None` for a real GPU's memory."""

    size: int
    view: memoryview | None


class Bench(Protocol):
    """A backend, seen as a calibration needs it."""

    emulated: bool

    def pinned(self, size: int) -> Block:
        """Page-locked host memory, touched."""

    def pageable(self, size: int) -> Block:
        """Ordinary host memory, touched."""

    def device(self, gpu: int, size: int) -> Block:
        """Memory of a GPU, touched."""

    def release(self, block: Block) -> None:
        """Give memory back."""

    def copies(self, gpu: int, pairs: Sequence[tuple[Block, int, Block, int]], size: int) -> float:
        """Seconds from before the first issue to after the last arrival.

        Each pair is (destination, offset, source, offset); each copy has `size` bytes. All are
        issued on one stream of `gpu` before any is waited for.
        """

    def spaced(self, gpu: int, pairs: Sequence[tuple[Block, int, Block, int]], size: int) -> float:
        """Seconds from the first arrival of such copies, of page-locked memory, to the last."""

    def queue(
        self, gpu: int, pairs: Sequence[tuple[Block, int, Block, int]], size: int, slot: int
    ) -> None:
        """Issue the same copies, of page-locked memory, as the batch `slot`, and go on at once."""

    def arrived(self, gpu: int, pair: tuple[Block, int, Block, int], slot: int) -> None:
        """Wait for the batch `slot` of such copies, if it is under way."""

    def issue(self, gpu: int, pairs: Sequence[tuple[Block, int, Block, int]], size: int) -> float:
        """Seconds that the caller spends on issuing each of so many copies, before any arrives."""
