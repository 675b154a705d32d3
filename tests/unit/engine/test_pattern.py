"""The pattern is the same at every offset, differs everywhere else, and does not compress."""

from __future__ import annotations

import zlib

import numpy as np
from hypothesis import given, settings, strategies as st

from planner.engine.pattern import BLOCK, Pattern


def _bytes(pattern: Pattern, offset: int, size: int) -> bytes:
    target = np.zeros(size, np.uint8)
    pattern.write(target, offset)
    return target.tobytes()


@settings(max_examples=50)
@given(
    offset=st.integers(0, 3 * BLOCK),
    size=st.integers(0, 10_000),
    skip=st.integers(0, 9),
)
def test_any_piece_is_a_piece_of_the_whole(offset: int, size: int, skip: int) -> None:
    whole = _bytes(Pattern(3), offset, size + skip)
    assert _bytes(Pattern(3), offset + skip, size) == whole[skip:]


def test_pieces_across_blocks_fit_together() -> None:
    whole = _bytes(Pattern(3), BLOCK - 100, 200)
    assert whole[100:] == _bytes(Pattern(3), BLOCK, 100)


def test_fill_writes_what_write_does() -> None:
    target = np.zeros(2 * BLOCK + 77, np.uint8)
    Pattern(5).fill(target, threads=3)
    assert target.tobytes() == _bytes(Pattern(5), 0, 2 * BLOCK + 77)


def test_blocks_differ_in_every_word() -> None:
    first, second = (_bytes(Pattern(3), k * BLOCK, 1 << 16) for k in (0, 1))
    same = np.frombuffer(first, np.uint64) == np.frombuffer(second, np.uint64)
    assert not same.any()


def test_seeds_differ_and_nothing_compresses() -> None:
    data = _bytes(Pattern(1), 0, 1 << 20)
    assert data != _bytes(Pattern(2), 0, 1 << 20)
    # zlib adds 0.03 % to what it cannot compress.
    assert len(zlib.compress(data, 1)) >= len(data)
