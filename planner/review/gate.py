"""`--fail-above`: how much slower B may be than A.

>>> parse_limit("5%"), parse_limit("100ms")
(Limit(text='5%', share=0.05, seconds=None), Limit(text='100ms', share=None, seconds=0.1))
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from planner.results.diff import FlowChange, Gate, TimeChange
from planner.units import UnitError, format_time, parse_factor, parse_time


class Limit(NamedTuple):
    """The largest excess allowed, as a share of A's time or in seconds: one of them is given."""

    text: str
    share: float | None = None
    seconds: float | None = None

    def passed(self, change: TimeChange) -> bool:
        """Whether B is not slower than A by more than this; a difference within noise passes."""
        if change.direction != "slower" or change.difference_s is None:
            return True
        if self.seconds is not None:
            return change.difference_s <= self.seconds
        # Without a time before, any time after is an infinite share of it.
        return change.share is not None and change.share <= (self.share or 0.0)


def parse_limit(text: str) -> Limit:
    """The limit that `5%` or `100ms` states; raises `UnitError`."""
    spelled = text.strip()
    if not spelled.endswith("%"):
        try:
            return Limit(spelled, seconds=parse_time(spelled))
        except UnitError as error:
            raise UnitError(f"{error.message}, nor a share", "write it like 5% or 100ms") from error
    number = spelled[:-1].strip()
    if not number[-1:].isdigit():
        raise UnitError(f'"{spelled}" is not a share', "write it like 5%")
    return Limit(spelled, share=parse_factor(number) / 100)


def gates(limit: Limit, flows: Sequence[FlowChange], makespan: TimeChange) -> tuple[Gate, ...]:
    """The duration of every flow that both have, and the makespan, held against the limit.

    Of runs the steady time too: it has samples, and tells a change from noise that the first run,
    which happens once, cannot. The makespan of a plan with a single flow that takes as long says
    nothing of its own.
    """
    held = [
        (f"{flow.name}.{change.metric}", change)
        for flow in flows
        for change in flow.times
        if change.metric == "duration" or change.judged == "samples"
    ]
    alone = flows[0].duration if len(flows) == 1 else None
    if alone is None or (alone.before_s, alone.after_s) != (makespan.before_s, makespan.after_s):
        held.append(("makespan", makespan))
    return tuple(
        _gate(name, change, limit)
        for name, change in held
        if change.before_s is not None and change.after_s is not None
    )


def _gate(name: str, change: TimeChange, limit: Limit) -> Gate:
    passed = limit.passed(change)
    return Gate(metric=name, passed=passed, sentence=f"{name} {_how(change, limit, passed=passed)}")


def _how(change: TimeChange, limit: Limit, *, passed: bool) -> str:
    before, after = format_time(change.before_s or 0.0), format_time(change.after_s or 0.0)
    share = f"{abs(change.share) * 100:.1f} % " if change.share is not None else ""
    match change.direction:
        case "noise":
            return f"{before} → {after}: no difference beyond noise."
        case "slower":
            side = "within" if passed else "beyond"
            return f"{before} → {after}: {share}slower, {side} {limit.text}."
        case "faster":
            return f"{before} → {after}: {share}faster."
        case _:
            return f"{before} → {after}: the same."
