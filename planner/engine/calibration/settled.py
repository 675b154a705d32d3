"""A machine's copy tables once all runs of the real pipelines have been looked at."""

from __future__ import annotations

from collections.abc import Sequence

from planner.engine.calibration.combined import with_plain
from planner.engine.calibration.coupling import coupled
from planner.engine.calibration.joint import joints
from planner.engine.calibration.leads import LEAD
from planner.engine.calibration.pairs import PAIR
from planner.engine.calibration.rounds import Cell
from planner.engine.calibration.several import beside_several
from planner.machine.schema import Machine


def settled(machine: Machine, cells: Sequence[Cell]) -> Machine:
    """The machine with what the runs among the cells say: alone, short, and two at once."""
    machine = coupled(machine, joints(cells), joints(cells, LEAD))
    return with_plain(beside_several(machine, joints(cells, PAIR)))
