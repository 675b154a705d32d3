"""From cells to a machine: what its tables say of how sure they are."""

from __future__ import annotations

from pathlib import Path

import pytest

from planner.engine.calibration.assemble import Found, machine_of
from planner.engine.calibration.rounds import Cell
from planner.engine.calibration.sentinel import LINK, MEMORY
from planner.machine.discover import discover
from planner.machine.schema import Ram

MIB = 1 << 20


@pytest.mark.parametrize(
    ("steadiness", "spread"),
    [
        # The samples 9, 10 and 11: a half interquartile range of 0.5 in 10.
        ({}, 0.05),
        ({MEMORY: 0.02, LINK: 0.5}, 0.05),
        # A thread's copies varied by more over the whole time than a cell's within its seconds.
        ({MEMORY: 0.08, LINK: 0.001}, 0.08),
    ],
)
def test_a_copy_table_is_as_unsure_as_copying_was_over_the_whole_time(
    steadiness: dict[str, float], spread: float
) -> None:
    samples = [9e9, 10e9, 11e9]
    found = Found(
        "here",
        discover(Path("/nowhere")),
        [0],
        emulated=True,
        steadiness=steadiness,
        cells=[Cell(("file", 1, 16 * MIB), None, is_rate=True, clean=samples)],
        axes={"file": ((1,), (16 * MIB,))},
    )
    host = machine_of(found, Path("/nowhere")).nodes["host0"]
    assert isinstance(host, Ram)
    assert host.copy_rates["file"].spread == pytest.approx(spread)
