"""How a machine was calibrated: quickly, or in full, which some strategies cannot do without."""

from __future__ import annotations

from typing import Final

from planner.machine.schema import Machine

QUICK: Final = "planner calibrate"
"""What a quick calibration writes as `by` of its source."""
FULL: Final = "planner calibrate --full"


def is_quick(machine: Machine) -> bool:
    """Whether a quick calibration is what the machine's numbers come from.

    Its first source tells: links that were measured again later have sources of their own.
    """
    return machine.source_of().by == QUICK


def full_day(machine: Machine) -> str | None:
    """The day of the full calibration that the machine's numbers come from; `None` without one."""
    source = machine.source_of()
    return source.when if source.by == FULL else None
