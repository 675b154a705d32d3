"""Reads around the page cache that end early: inside a block, at the end of the file, or not."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from planner.engine import files
from planner.engine.files import read_aligned
from planner.engine.memory import PAGE
from planner.engine.serving.shape import ROOM
from planner.errors import ExecutionError

BLOCK = 4096
NOISE = os.urandom(4 * BLOCK)


def reading(monkeypatch: pytest.MonkeyPatch, path: Path, ends: list[int]) -> list[tuple[int, int]]:
    """Have reads come to these lengths; returns (offset, length asked for) of each."""
    path.write_bytes(NOISE)
    asked: list[tuple[int, int]] = []
    left = iter(ends)

    def short(_fd: int, views: list[memoryview], offset: int) -> int:
        (view,) = views
        asked.append((offset, len(view)))
        found = NOISE[offset : offset + min(next(left), len(view))]
        view[: len(found)] = found
        return len(found)

    monkeypatch.setattr(files, "preadv", short)
    return asked


@pytest.mark.parametrize("first", [512, BLOCK, BLOCK + 512, 3 * BLOCK - 512])
def test_a_read_that_ends_inside_a_block_is_gone_on_with_from_its_start(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, first: int
) -> None:
    asked = reading(monkeypatch, tmp_path / "m", [first, 4 * BLOCK])
    view = memoryview(bytearray(4 * BLOCK))
    read_aligned(0, view, 0, 3 * BLOCK + 7)
    assert view[: 3 * BLOCK + 7] == NOISE[: 3 * BLOCK + 7]
    again = first // BLOCK * BLOCK
    assert asked == [(0, 4 * BLOCK), (again, 4 * BLOCK - again)]


@pytest.mark.parametrize("end", [BLOCK, BLOCK + 100, 512])
def test_the_end_of_the_file_is_told(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, end: int
) -> None:
    reading(monkeypatch, tmp_path / "m", [end, end % BLOCK])
    with pytest.raises(ExecutionError, match=f"ends at byte {end}, {2 * BLOCK - end} bytes early"):
        read_aligned(0, memoryview(bytearray(2 * BLOCK)), 0, 2 * BLOCK)


def test_a_slot_has_room_for_a_block_at_either_end_whatever_its_size() -> None:
    assert ROOM == 2 * PAGE  # no alignment that a file system may ask for is larger
