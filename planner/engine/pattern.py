"""Bytes to move where the user gave none: seeded, incompressible, and known at every offset.

Block i is one random block XOR a random word of its own, so no two blocks agree anywhere and a
chunk that lands in the wrong place is found; and the bytes at any offset cost only a XOR.
"""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from functools import lru_cache
from typing import Final

import numpy as np
from numpy.typing import NDArray

BLOCK: Final = 1 << 22
"""Bytes of a block: small enough for a core's cache beside its target."""
_MASK: Final = (1 << 64) - 1


@lru_cache(maxsize=4)
def _base(seed: int) -> NDArray[np.uint64]:
    generator = np.random.Generator(np.random.SFC64(seed))
    return generator.integers(0, 1 << 64, BLOCK // 8, np.uint64)


def _word(seed: int, block: int) -> np.uint64:
    """A random word for each block: splitmix64 (Steele, Lea, Flood 2014) of its number."""
    z = (seed * 0xBF58476D1CE4E5B9 + (block + 1) * 0x9E3779B97F4A7C15) & _MASK
    z = ((z ^ (z >> 30)) * 0xBF58476D1CE4E5B9) & _MASK
    z = ((z ^ (z >> 27)) * 0x94D049BB133111EB) & _MASK
    return np.uint64(z ^ (z >> 31))


class Pattern:
    """The bytes of one seed."""

    __slots__ = ("seed",)

    def __init__(self, seed: int) -> None:
        self.seed = seed

    def write(self, target: NDArray[np.uint8], offset: int) -> None:
        """Fill `target` with the pattern's bytes from `offset` on."""
        at = 0
        while at < target.size:
            block, skip = divmod(offset + at, BLOCK)
            length = min(BLOCK - skip, target.size - at)
            self._write_in_block(target[at : at + length], block, skip)
            at += length

    def _write_in_block(self, target: NDArray[np.uint8], block: int, skip: int) -> None:
        base, word = _base(self.seed), _word(self.seed, block)
        if skip % 8 == 0 and target.size % 8 == 0 and target.ctypes.data % 8 == 0:
            first = skip // 8
            count = target.size // 8
            np.bitwise_xor(base[first : first + count], word, out=target.view(np.uint64))
            return
        first, last = skip // 8, -(-(skip + target.size) // 8)
        words = np.bitwise_xor(base[first:last], word)
        start = skip - first * 8
        target[:] = words.view(np.uint8)[start : start + target.size]

    def fill(self, target: NDArray[np.uint8], threads: int = 1) -> None:
        """Fill a whole buffer from offset 0, by several threads."""
        _base(self.seed)  # made once, before the threads would each make it
        share = max(BLOCK, -(-target.size // threads // BLOCK) * BLOCK)
        with ThreadPoolExecutor(threads) as pool:
            starts = range(0, target.size, share)
            list(pool.map(lambda at: self.write(target[at : at + share], at), starts))
