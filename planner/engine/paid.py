"""What a flow pays once: its steps as they are timed and told."""

from __future__ import annotations

from collections.abc import Sequence
from time import perf_counter

from planner.engine.transfer import Moved
from planner.model.movement import READY, added
from planner.results import SetupStep


def merged(steps: Sequence[SetupStep]) -> tuple[SetupStep, ...]:
    """The steps with those of one name as one: several movements open lanes each."""
    found: dict[str, SetupStep] = {}
    for step in steps:
        known = found.get(step.name)
        found[step.name] = step if known is None else added(known, step)
    return tuple(found.values())


def between(
    begun: float, end: float, waited: float, setup: Sequence[SetupStep], moves: Sequence[Moved]
) -> list[SetupStep]:
    """The step of what the program did between the timed steps and the moves of a first repeat."""
    told = sum(step.duration_s for step in setup) + sum(m.end - m.start for m in moves)
    left = end - begun - waited - told
    return [SetupStep(name=READY, duration_s=left)] if left > 0 else []


def step_since(name: str, start: float, size: int) -> SetupStep:
    """The step that began at `start` and ends now, about so many bytes."""
    return SetupStep(name=name, duration_s=perf_counter() - start, size_bytes=size)
