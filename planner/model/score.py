"""Which of two schedules of a plan is the better one."""

from __future__ import annotations

BETTER = 1 - 1e-9
"""A change must gain more than rounding."""

Score = tuple[float, float, float]
"""Excess over limits, makespan, and the sum of all ends; smaller is better."""


def better(score: Score, present: Score) -> bool:
    """Whether a score is better than the present one: what differs first decides."""
    for new, old in zip(score, present, strict=True):
        if new < old * BETTER:
            return True
        if new * BETTER > old:
            return False
    return False
