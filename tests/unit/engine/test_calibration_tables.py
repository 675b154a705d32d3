"""Copy tables: writers that take turns, and saves that vary more in time than with the shape."""

from __future__ import annotations

import threading
import time
from pathlib import Path

import pytest

from planner.engine.calibration import tables
from planner.engine.calibration.rounds import Cell
from planner.engine.calibration.sides import MOST_WRITTEN, SinkSide

MIB = 1 << 20
TURN = 0.004


def test_writers_that_take_turns_are_no_faster_than_the_turns() -> None:
    lock = threading.Lock()

    def write(_slot: memoryview, _offset: int) -> None:
        with lock:
            time.sleep(TURN)

    side = tables.Side(write, 1 << 40, turns=True)
    slots = [memoryview(bytearray(MIB)) for _ in range(8)]
    # Each worker has about one turn in the slice, and who comes last meets nobody: the sum of what
    # each reaches in its own time would be up to 1 + 1/2 + 1/3 + 1/4 of what is written.
    found = tables.rate(side, slots, 4, 4 * TURN)
    assert 0.3 * MIB / TURN < found <= MIB / TURN


def test_a_saved_cell_counts_twice_and_its_neighbours_once() -> None:
    def cell(workers: int, ring: int, rate: float) -> Cell:
        return Cell(("save", workers, ring), None, is_rate=True, waits=True, clean=[rate] * 2)

    rings = (16 * MIB, 32 * MIB)
    cells = [
        cell(1, rings[0], 4e9),
        cell(1, rings[1], 6e9),
        cell(2, rings[0], 3e9),
        cell(2, rings[1], 5e9),
    ]
    found = tables.table("save", cells, ((1, 2), rings), 0.0)
    assert found is not None
    # [4, 4, 6, 3], [6, 6, 4, 5], [3, 3, 4, 5], [5, 5, 6, 3], each sample twice
    assert found.rates[0] == pytest.approx((4e9, 5.5e9))
    assert found.rates[1] == pytest.approx((3.5e9, 5e9))
    # Samples over values: 1, 12/11, 6/7, 1; quartiles 0.964 and 1.023 around 1.
    assert found.spread == pytest.approx((1 + 1 / 44 - (1 - 1 / 28)) / 2)


def test_a_sink_takes_one_writer_at_a_time(tmp_path: Path) -> None:
    sink = SinkSide(tmp_path / "sink")
    try:
        assert sink.side.turns
        assert sink.side.size == MOST_WRITTEN
    finally:
        sink.close()
