"""Figures of the setup that stand in for others: told, or a guess would pass for a measurement."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from planner.machine.made import FULL, is_quick
from planner.machine.schema import Machine
from planner.model.contend import Chosen
from planner.plan.schema import Plan


def stand_ins(plan: Plan, flows: Sequence[Chosen]) -> Iterator[str]:
    """One line for each figure that was not measured, with what stands in for it.

    The first of the flows that were made of one of the plan's counts for all of them.
    """
    first = {item.demand.flow: item.arrangement for item in reversed(flows)}
    for name in plan.flows:
        told = (
            _with_hint(strategy.stands_in(crossing), crossing.machine)
            for lane in first[name].lanes
            for movement in lane.movements
            for strategy, crossing in zip(movement.strategies, movement.crossings, strict=True)
        )
        for text in dict.fromkeys(filter(None, told)):
            yield f"{name}: {text}"


def _with_hint(text: str | None, machine: Machine) -> str | None:
    """The text with what would measure the figure, if that would."""
    return f"{text} (`{FULL}` measures it)" if text and is_quick(machine) else text
