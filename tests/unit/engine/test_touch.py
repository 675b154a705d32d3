"""What a kernel touches, and what of it is kept: the same places for everybody who asks."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, strategies as st
from numpy.typing import NDArray

from planner.engine.backends.cuda_kernels import scatter_of
from planner.engine.backends.host_touch import carry_out
from planner.engine.kept import Kept
from planner.engine.memory import HostBuffer
from planner.engine.touch import SCATTER, Touch, Touching, places
from planner.model.touched import Pattern, Use, in_place

uses = st.builds(
    Use,
    fraction=st.floats(1e-3, 1.0),
    reads=st.just(1),
    pattern=st.sampled_from(["dense", "strided", "random"]),
)


@pytest.mark.parametrize("pattern", ["dense", "strided", "random"])
def test_as_many_bytes_are_touched_as_the_model_counts(pattern: Pattern) -> None:
    size, use = 1 << 20, Use(1 / 8, 1, pattern)
    touch = Touching(use, 32).of(size)
    # An eighth of 1 MiB is 131072 bytes: one block, 8192 elements of 16, or 4096 sectors of 32.
    assert touch.size == 131072
    moved = in_place(size, use, 32)
    pieces = touch.pieces if touch.unit else touch.size / 128
    assert moved.requests == pieces


@given(uses, st.integers(1, 5000), st.sampled_from([16, 32, 64, 48]))
def test_pieces_lie_apart_inside_of_the_chunk(use: Use, length: int, sector: int) -> None:
    touch = Touching(use, sector).of(length)
    assert 1 <= touch.size <= length
    assert touch.reach <= length
    if touch.unit:
        found = places(touch, 0, touch.pieces)
        assert found[0] >= 0
        assert found[-1] < touch.total
        assert (np.diff(found) > 0).all()


def test_a_part_of_the_places_is_what_the_whole_has_there() -> None:
    touch = Touch(0, 0, 32, 1000, 9973, scattered=True)
    whole = places(touch, 0, 1000)
    assert places(touch, 400, 700).tolist() == whole[400:700].tolist()
    # Each piece lies in its own share of the units, and not all at its start.
    shares = [(i * 9973 // 1000, (i + 1) * 9973 // 1000) for i in range(1000)]
    assert all(low <= at < high for at, (low, high) in zip(whole.tolist(), shares, strict=True))
    assert sum(at > low for at, (low, _) in zip(whole.tolist(), shares, strict=True)) > 500


@pytest.mark.parametrize("count", [1, 2, 3, 1000, SCATTER])
def test_scattered_threads_serve_every_piece_once(count: int) -> None:
    step = scatter_of(Touch(0, 0, 32, count, count, scattered=True))
    # Served in the order t * step mod count: a permutation if step and count share no factor.
    assert np.gcd(step, count) == 1
    if count <= 1000:
        assert sorted(t * step % count for t in range(count)) == list(range(count))
    assert scatter_of(Touch(0, 0, 16, count, count)) == 0


@given(uses, st.lists(st.integers(1, 3000), min_size=1, max_size=4), st.integers(37, 700))
def test_what_is_kept_is_what_is_expected(use: Use, sizes: list[int], step: int) -> None:
    """The emulated kernel against the gathering of the verification, read in odd steps."""
    lows = np.concatenate(([0], np.cumsum(sizes)[:-1])).tolist()
    data = np.random.Generator(np.random.SFC64(3)).integers(0, 256, sum(sizes), np.uint8)
    touching = Touching(use, 32)
    kept = Kept(touching, lows, sizes)
    source, target = HostBuffer(len(data)), HostBuffer(kept.size)
    source.array[:] = data
    for low, length, start in zip(lows, sizes, kept.starts, strict=False):
        carry_out(
            touching.of(length, source.address + low, target.address + start), lambda _a: None
        )

    def expected(wanted: NDArray[np.uint8], offset: int) -> None:
        wanted[:] = data[offset : offset + wanted.size]

    gather = kept.expected(expected)
    for at in range(0, kept.size, step):
        block = np.zeros(min(step, kept.size - at), np.uint8)
        gather(block, at)
        assert block.tolist() == target.array[at : at + block.size].tolist()
    source.close()
    target.close()
