"""Pieces of a file: told what one by one would cost, never taken one by one."""

from __future__ import annotations

import pytest

from planner.results import Rejected
from tests.helpers.machines import MIB, one_gpu
from tests.helpers.variants import changed, every, load, upload


def told(pieces: tuple[tuple[int, int], ...], **parts: object) -> list[Rejected]:
    machine = changed(one_gpu(), dict(parts))
    need = load(sum(s * n for s, n in pieces), pieces=pieces)
    return [r for r in every(machine, need).rejected() if "one read and one copy" in r.reason]


def test_a_file_is_read_as_it_lies_whatever_its_pieces() -> None:
    whole = every(one_gpu(), load(400 * MIB))
    pieces = every(one_gpu(), load(400 * MIB, pieces=((4 * MIB, 100),)))
    assert pieces.best.way.names == whole.best.way.names
    assert pieces.best.steady == whole.best.steady
    assert pieces.best.shapes == whole.best.shapes


def test_one_by_one_is_told_with_its_time() -> None:
    # 100,000 pieces of 4,000 bytes: the engine needs 2 us + 0.4 us each, 0.24 s.
    (row,) = told(((4000, 100_000),))
    assert "each of 100000 pieces takes" in row.reason
    assert row.duration_s == pytest.approx(0.24, rel=0.02)


def test_issuing_them_may_take_longer_than_moving_them() -> None:
    (row,) = told(((4000, 100_000),), **{"nodes.host0.issue": 5e-6})
    assert row.duration_s == pytest.approx(0.5, rel=0.01)


def test_one_piece_and_pieces_of_memory_have_no_such_row() -> None:
    assert not told(((400 * MIB, 1),))
    rows = every(one_gpu(), upload(4000 * 1000, pieces=((4000, 1000),))).rejected()
    assert not [r for r in rows if "one read and one copy" in r.reason]


def test_a_budget_below_the_biggest_piece_leaves_one_worker() -> None:
    need = load(80 * MIB, pieces=((64 * MIB, 1), (MIB, 16)), pinned_budget=8 * MIB)
    (row,) = [r for r in every(one_gpu(), need).rejected() if "one read" in r.reason]
    assert row.workers == 1
