"""When repeats of flows and compute blocks begin: what must have ended, which buffer is free.

The rules are those of the model (`model/build.py`): what repeats as often as what it is after goes
in step with it, and a flow is at most its `buffers` ahead of whatever consumes it in step.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from threading import Condition
from typing import Final

from planner.engine.waits import TICK_S, Stop
from planner.model.needs import Demand
from planner.model.steps import pairs_in_step
from planner.plan.schema import Plan

ALL: Final = 1 << 60
"""More repeats than anything has: who has ended has ended this many."""


@dataclass(frozen=True, slots=True)
class Gate:
    """What one flow or compute block waits for, by the labels of others.

    It begins when all in `ends` have ended, and so has the first repeat of all in `steps`. Repeat
    k begins when repeat k of all in `steps` has ended, and repeat k - buffers of each consumer in
    `room`, given as (label, buffers). A copy of what others bring also waits for repeat k of those,
    in `copies`; its own setup does not.
    """

    ends: tuple[str, ...] = ()
    steps: tuple[str, ...] = ()
    room: tuple[tuple[str, int], ...] = ()
    copies: tuple[str, ...] = ()

    @property
    def open(self) -> bool:
        """Whether it waits for nothing but its own start."""
        return not (self.ends or self.steps)

    def before_all(self) -> list[tuple[str, int]]:
        """(label, repeats that must have ended) before it begins."""
        return [*((label, ALL) for label in self.ends), *((label, 1) for label in self.steps)]

    def before(self, turn: int) -> list[tuple[str, int]]:
        """(label, repeats that must have ended) before repeat `turn`."""
        free = [(label, turn - ahead + 1) for label, ahead in self.room if turn >= ahead]
        return [*((label, turn + 1) for label in (*self.steps, *self.copies)), *free]


def gates(plan: Plan, demands: Sequence[Demand]) -> dict[str, Gate]:
    """The gate of every demand and compute block, by label; a flow's copies have one each."""
    labels: dict[str, list[str]] = {name: [name] for name in plan.compute}
    for demand in demands:
        labels.setdefault(demand.flow, []).append(demand.need.name)
    parts = {name: (flow.repeat, flow.after) for name, flow in plan.flows.items() if name in labels}
    parts |= {name: (block.repeat, block.after) for name, block in plan.compute.items()}
    in_step = pairs_in_step(parts)
    found: dict[str, Gate] = {}
    for name, (_, after) in parts.items():
        steps = [other for other in after if (other, name) in in_step]
        ends = [other for other in after if other not in steps]
        consumers = [later for earlier, later in sorted(in_step) if earlier == name]
        buffers = plan.flows[name].buffers if name in plan.flows else None
        room = [(one, buffers) for later in consumers for one in labels[later] if buffers]
        gate = Gate(_all(labels, ends), _all(labels, steps), tuple((a, b) for a, b in room if b))
        found |= dict.fromkeys(labels[name], gate)
    return found


def _all(labels: dict[str, list[str]], names: Iterable[str]) -> tuple[str, ...]:
    return tuple(label for name in names for label in labels[name])


class Turns:
    """How many repeats everybody has ended, for threads that wait for each other."""

    def __init__(self, labels: Iterable[str], stop: Stop) -> None:
        self._stop = stop
        self._ended = dict.fromkeys(labels, 0)
        self._moved = {label: Condition() for label in self._ended}

    def end(self, label: str, count: int = 1) -> None:
        """Note that `count` further repeats have ended."""
        with self._moved[label]:
            self._ended[label] += count
            self._moved[label].notify_all()

    def wait(self, conditions: Iterable[tuple[str, int]]) -> None:
        """Wait for all conditions; raises `Stopped` if the run is called off meanwhile."""
        for label, count in conditions:
            moved = self._moved[label]
            with moved:
                while self._ended[label] < count:
                    self._stop.check()
                    moved.wait(TICK_S)
        self._stop.check()


class Pace:
    """The turns of one flow or compute block; without a gate it never waits."""

    def __init__(
        self, label: str = "", gate: Gate | None = None, turns: Turns | None = None
    ) -> None:
        self._label, self._gate, self._turns = label, gate or Gate(), turns
        self._free = turns is None or not (self._gate.steps or self._gate.room or self._gate.copies)

    def enter(self, turn: int) -> None:
        """Wait until repeat `turn` may begin; raises `Stopped` if the run is called off."""
        if self._turns is not None and not self._free:
            self._turns.wait(self._gate.before(turn))

    def leave(self) -> None:
        """Let others know that one more repeat has ended."""
        if self._turns is not None:
            self._turns.end(self._label)


FREE: Final = Pace()
"""Nobody waits and nobody is told."""
