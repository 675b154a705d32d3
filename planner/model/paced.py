"""Flows with a cap on their rate: chunks so small that the cap holds within a tenth of a second.

The engine spaces the chunks of a capped flow. Whole chunks go at once, so in any 100 ms a flow may
be ahead of its cap by one chunk: a millisecond's worth of it is 1 %.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Final

from planner.machine.schema import Machine
from planner.model.arrange import Arrangement, Lane, carried
from planner.model.need import Need
from planner.model.strategies import Shape
from planner.plan.schema import LEAST_CHUNK, Plan

WORTH_S: Final = 1e-3
"""Seconds of the cap that a chunk is worth at most."""
IN_CHUNKS: Final = frozenset(
    {
        "buffered",
        "direct",
        "pinned",
        "registered",
        "staged",
        "pageable",
        "peer",
        "host_staged",
        "local",
    }
)
"""Strategies that move any bytes by themselves, so that one copy may as well be several."""


def rate_of(plan: Plan, flow: str) -> float | None:
    """The lower of the flow's and the plan's cap, bytes/s; `None` where there is none."""
    caps = [cap for cap in (plan.flows[flow].budget.rate, plan.budget.rate) if cap is not None]
    return min(caps, default=None)


def chunk_of(rate: float) -> int:
    """The largest power of two that is worth no more than `WORTH_S`, a page at the least.

    >>> chunk_of(10e9), chunk_of(1e9), chunk_of(1e6), chunk_of(1.0)
    (8388608, 524288, 4096, 4096)
    """
    worth = max(LEAST_CHUNK, int(rate * WORTH_S))
    return 1 << (worth.bit_length() - 1)


def paced(machine: Machine, arrangement: Arrangement, rate: float) -> Arrangement:
    """The same with chunks that suit a cap, unless the plan pins the chunk."""
    most = chunk_of(rate)
    return replace(
        arrangement, lanes=tuple(_cut(machine, lane, most) for lane in arrangement.lanes)
    )


def _cut(machine: Machine, lane: Lane, most: int) -> Lane:
    shapes = tuple(
        _smaller(shape, most) if _may_cut(lane.need, names, shape.chunk, most) else shape
        for names, shape in zip(_names(lane), lane.candidate.shapes, strict=True)
    )
    if shapes == lane.candidate.shapes:
        return lane
    return carried(machine, replace(lane, candidate=replace(lane.candidate, shapes=shapes)))


def _names(lane: Lane) -> list[set[str]]:
    """The strategies of each movement."""
    return [{strategy.name for strategy in movement.strategies} for movement in lane.movements]


def _may_cut(need: Need, names: set[str], chunk: int, most: int) -> bool:
    return chunk > most and need.pins.chunk is None and names <= IN_CHUNKS


def _smaller(shape: Shape, most: int) -> Shape:
    """Two slots, so that a copy is queued while the one before it is served."""
    return replace(shape, chunk=most, depth=max(2, shape.depth))
