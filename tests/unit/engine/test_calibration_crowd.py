"""The turn at the interpreter's lock without an engine: how it is sampled."""

from __future__ import annotations

import contextlib
import threading
from pathlib import Path

import pytest

from planner.engine.backends.host import HostBackend
from planner.engine.calibration import crowd
from planner.engine.calibration.device import Memory
from planner.engine.calibration.rounds import Cell
from planner.engine.memory import HostBuffer
from planner.machine.tables import CopyTable
from tests.helpers.machines import MIB


def through(undo: contextlib.ExitStack) -> Memory:
    """Memory that may be written."""
    buffer = HostBuffer(MIB)
    undo.callback(buffer.close)
    return Memory(MIB, buffer.address, buffer.view, owner=buffer)


def test_a_crowd_goes_through_all_its_chunks_and_leaves_nothing(tmp_path: Path) -> None:
    # 40 whole chunks and half a one: the half is left out, the others all arrive.
    file = tmp_path / "file"
    size = 40 * crowd.CHUNK + crowd.CHUNK // 2
    file.write_bytes(bytes(range(256)) * (size // 256))
    target = HostBuffer(size)
    target.fill(0)
    before = threading.active_count()
    run = crowd.Crowd(HostBackend(), file, size, target, 4)
    try:
        seconds = run()
        moved = 40 * crowd.CHUNK
        assert bytes(target.view[:moved]) == file.read_bytes()[:moved]
        assert bytes(target.view[moved:size]) == bytes(size - moved)
        assert seconds > 0
    finally:
        run.close()
        target.close()
    assert threading.active_count() == before


def test_one_core_has_nobody_to_hand_the_lock_to(tmp_path: Path) -> None:
    file = tmp_path / "file"
    file.write_bytes(bytes(crowd.CHUNK))
    target = HostBuffer(crowd.CHUNK)
    with contextlib.ExitStack() as undo:
        undo.callback(target.close)
        assert crowd.cells(HostBackend(), file, target, through(undo), 1, undo) == []
        (cell,) = crowd.cells(HostBackend(), file, target, through(undo), 64, undo)
        assert cell.key == ("turn", 16)  # as many as rings usually have, whatever the cores


def test_the_turn_is_the_median_of_its_cell() -> None:
    # Of eight workers each met seven of eight, and found the lock taken as often.
    assert crowd.turn_of([Cell(("turn", 8), None, clean=[14e-6, 15e-6, 19e-6])]) == (
        pytest.approx(15e-6 * 64 / 49)
    )
    assert crowd.turn_of([Cell(("touch", 8), None, clean=[1.0])]) is None


def test_a_lead_is_what_a_run_takes_beside_its_pace() -> None:
    # Twelve chunks each at 4 GiB/s together take four workers 48 / 4096 s, so of 13 ms there are
    # 1.28 left for three further workers.
    table = CopyTable(workers=(4,), rings=(MIB,), rates=((4 << 30,),))
    run = Cell(("gather", 4), None, clean=[13e-3])
    assert crowd.lead_of([run], table) == pytest.approx((13e-3 - 48 / 4096) / 3)
    # The interpreter's 24 us of a chunk are part of the pace, and so are four such turns, which
    # add up with the copies in the fourth power.
    own = table.model_copy(update={"per_chunk": 24e-6})
    alone = 24e-6 + 4 / 4096
    pace = 12 * (alone**4 + (4 * 24e-6) ** 4) ** 0.25
    assert crowd.lead_of([run], own) == pytest.approx((13e-3 - pace) / 3)
    # Of longer turns 9 of 16 are handed over; here they take as long as the copies.
    turn = 24e-6 + (alone / 4 - 24e-6) / (9 / 16)
    crowded = crowd.lead_of([Cell(("gather", 4), None, clean=[20e-3])], own, turn)
    assert crowded == pytest.approx((20e-3 - 12 * 2**0.25 * alone) / 3)
    # A run that was faster than the tables promise adds nothing; without one nothing is known.
    assert crowd.lead_of([Cell(("gather", 4), None, clean=[1e-3])], table) == 0.0
    assert crowd.lead_of([], table) is None
    assert crowd.lead_of([run], None) is None


def test_a_run_by_usual_chunks_needs_a_file_that_is_long_enough(tmp_path: Path) -> None:
    file, size = tmp_path / "file", 2 * crowd.EACH * crowd.USUAL_CHUNK
    file.write_bytes(bytes(range(256)) * (size // 256))
    target = HostBuffer(size)
    with contextlib.ExitStack() as undo:
        undo.callback(target.close)
        cells = crowd.cells(HostBackend(), file, target, through(undo), 2, undo)
        keys = [("turn", 2), ("gather", 2)]
        assert [cell.key for cell in cells] == keys
        assert all(cell.take() > 0 for cell in cells)
        assert bytes(target.view) == file.read_bytes()
        assert len(crowd.cells(HostBackend(), file, target, through(undo), 4, undo)) == 1
